"""An example of a message fits its schema and is read by its class; a body is completed with what it lacks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from typing import Annotated, Any

import msgspec
from hypothesis import Phase, given, settings

import rowbus
from rowbus import contracts
from rowbus.contracts.examples import complete, example
from rowbus.errors import ConfigurationError
from rowbus.messages.conventions import Kind
from tests.contracts.test_schemas import CHECKS, NAME, SERIALIZERS, contract_of
from tests.fixtures.every import every
from tests.fixtures.message_classes import messages


@given(messages())
@settings(
    max_examples=60,
    deadline=None,
    suppress_health_check=CHECKS,
    phases=[Phase.explicit, Phase.generate],
)
def test_an_example_fits_the_schema_and_is_read_by_the_class(message: object) -> None:
    kind = type(message)
    for serializer in SERIALIZERS:
        try:
            read = serializer.reader(kind)
        except ConfigurationError:
            continue
        contract = contract_of(kind, serializer.names_of(kind))
        for body in (example(contract, NAME), complete(contract, NAME, {})):
            assert list(map(str, contracts.misfits(contract, NAME, body))) == [], body
            if _is_readable(read, serializer.write(message)):
                read(msgspec.json.encode(body))


def _is_readable(read: Callable[[bytes], object], body: bytes) -> bool:
    """Say whether a body is read that its own class wrote: some models of pydantic's read no JSON."""
    try:
        read(body)
    except Exception:  # noqa: BLE001 - of whatever class
        return False
    return True


@dataclass
class Line:
    sku: str
    count: Annotated[int, msgspec.Meta(gt=0, multiple_of=5)]
    note: str | None = None


class Node(msgspec.Struct):
    children: list[Node]
    parent: Node | None = None


@dataclass
class Order:
    order_id: str
    price: Decimal
    lines: list[Line]
    root: Node
    first: Line | None = None
    share: Annotated[float, msgspec.Meta(gt=0, lt=1)] = 0.25


CONTRACT = contract_of(Order, rowbus.Json().names_of(Order))


def test_an_example_shows_every_field_within_the_bounds_and_ends() -> None:
    line = {"sku": "", "count": 5, "note": None}

    found: Any = example(CONTRACT, NAME)

    assert found.pop("root")["children"][0]["children"] == []
    assert found == {"order_id": "", "price": 0, "lines": [line], "first": None, "share": 0.25}


def test_a_body_keeps_what_it_has_and_gets_what_it_lacks() -> None:
    body = {"order_id": 42, "lines": [{"count": "many"}], "other": [], "first": {"sku": "a"}}

    assert complete(CONTRACT, NAME, body) == {
        "order_id": 42,
        "lines": [{"count": "many", "sku": ""}],
        "other": [],
        "first": {"sku": "a", "count": 5},
        "price": 0,
        "root": {"children": []},
    }


@every("body", [None, [], "text", 1])
def test_what_is_no_object_is_left_as_it_is(body: object) -> None:
    assert complete(CONTRACT, NAME, body) == body
    assert complete(CONTRACT, "Shop.Other", body) == body


ITSELF = {"$ref": "#/components/schemas/Itself"}
ENDLESS: list[dict[str, Any]] = [
    {"anyOf": [ITSELF]},
    {"type": "array", "minItems": 10**9, "items": {"type": "integer"}},
    {"type": "array", "minItems": 1000, "items": ITSELF},
    {"type": "object", "minProperties": 10**9},
    {"type": "object", "properties": dict.fromkeys("abcdef", ITSELF), "required": [*"abcdef"]},
    {"type": "array", "minItems": 1000, "items": {"type": "string", "minLength": 10**12}},
]


@every("schema", ENDLESS)
def test_an_example_has_an_end_whatever_a_document_requires(schema: dict[str, Any]) -> None:
    contract = contracts.Contract(
        "Endless", messages=(contracts.Message("A", Kind.COMMAND, (), schema),), schemas={"Itself": schema}
    )

    assert len(msgspec.json.encode(example(contract, "A"))) < 1_000_000
    assert len(msgspec.json.encode(complete(contract, "A", {"a": {}}))) < 1_000_000
