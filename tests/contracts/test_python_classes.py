"""Classes that are written of a contract have its schemas again, and read and write the same bodies."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from decimal import Decimal
from types import ModuleType
from typing import Any

import pydantic
import pytest
from hypothesis import HealthCheck, Phase, given, settings

import rowbus
from rowbus import contracts
from rowbus.contracts import Contract, Message
from rowbus.contracts.schemas import Schemas
from rowbus.errors import ConfigurationError
from rowbus.messages.bodies.shape import Names
from rowbus.messages.conventions import Kind
from rowbus.messages.message_types import contract_of
from tests.contracts import shop
from tests.fixtures.every import every
from tests.fixtures.message_classes import messages
from tests.fixtures.pairs import effort

NAME = "Shop.Message"
CHECKS = list(HealthCheck)


def described(kind: type, names: Names) -> Contract:
    schemas = Schemas()
    payload = schemas.of_message(NAME, kind, names)
    return Contract("Test", (), (Message(NAME, Kind.MESSAGE, (), payload),), (), schemas.found)


@contextmanager
def module(text: str) -> Iterator[ModuleType]:
    """Give a module of this source, in which annotations are looked up."""
    made = ModuleType("generated_messages")
    sys.modules[made.__name__] = made
    try:
        exec(compile(text, made.__name__, "exec"), made.__dict__)  # noqa: S102 - what is tested
        yield made
    finally:
        del sys.modules[made.__name__]


def whole(contract: Contract, schema: Any, seen: tuple[str, ...] = ()) -> Any:  # noqa: ANN401 - any part of a schema
    """Return a schema with all that it refers to, and without defaults, which not every type has in source."""
    if isinstance(schema, list):
        return [whole(contract, one, seen) for one in schema]
    if not isinstance(schema, dict):
        return schema
    reference = schema.get("$ref")
    if reference is not None:
        return "…" if reference in seen else whole(contract, contract.resolved(schema), (*seen, reference))
    return {word: whole(contract, one, seen) for word, one in schema.items() if word != "default"}


def alike(value: Any) -> Any:  # noqa: ANN401 - any value of a body
    """Return a decoded body in a form in which sets are equal whatever their order, and that of their fields."""
    if isinstance(value, list):
        return sorted(map(alike, value), key=repr)
    return {key: alike(value[key]) for key in sorted(value)} if isinstance(value, dict) else value


def decoded(body: bytes) -> Any:  # noqa: ANN401 - as above
    return alike(json.loads(body, parse_float=Decimal))


def check(message: object, serializer: rowbus.Json) -> None:
    kind = type(message)
    try:
        serializer.reader(kind)
    except ConfigurationError:
        return
    body = serializer.write(message)
    contract = described(kind, serializer.names_of(kind))
    source = contracts.to_python(contract)
    with module(source) as made:
        again = made.Message
        found = rowbus.Json().reader(again)(body)
        assert decoded(rowbus.Json().write(found)) == decoded(body), source
        after = described(again, Names())
        if "Any" not in source.partition("import rowbus\n")[2]:
            assert whole(after, after.messages[0].payload) == whole(contract, contract.messages[0].payload), (
                source
            )


@given(messages())
@settings(
    max_examples=50, deadline=None, suppress_health_check=CHECKS, phases=[Phase.explicit, Phase.generate]
)
def test_classes_that_are_written_read_and_write_the_same_bodies(message: object) -> None:
    check(message, rowbus.Json())
    check(message, rowbus.Json(rename="pascal"))


@pytest.mark.slow
@pytest.mark.timeout(7_200)
@given(messages())
@settings(max_examples=effort(100, 20_000), deadline=None, suppress_health_check=CHECKS)
def test_classes_of_many_shapes_read_and_write_the_same_bodies(message: object) -> None:
    check(message, rowbus.Json())


def test_the_shop_is_written_with_its_names_kinds_and_parents() -> None:
    before = contracts.describe(shop.sales, shop.billing)

    with module(contracts.to_python(before)) as made:
        order, placed = contract_of(made.PlaceOrder), contract_of(made.OrderPlaced)
        assert (order.name, order.kind) == ("Shop.PlaceOrder", Kind.COMMAND)
        assert (placed.kind, placed.parents) == (Kind.EVENT, ("Shop.IOrderEvent",))
        assert made.PlaceOrder.__doc__ == "To Sales: a customer wants this."
        assert made.PlaceOrder.__struct_encode_fields__[0] == "OrderId"
        assert made.PlaceOrder.__struct_fields__[0] == "order_id"
        assert made.Line.__struct_fields__ == ("sku", "price", "colour")
        assert made.Line(sku="a", price=Decimal(1)).colour is made.Colour.RED


class Part(pydantic.BaseModel):
    size: int = 1


class Theirs(pydantic.BaseModel):
    """Of another program."""

    name: str = pydantic.Field(max_length=9)
    parts: list[Part]
    pair: tuple[int, str] = (1, "a")


def test_a_json_schema_of_others_becomes_classes() -> None:
    source = contracts.to_python(contracts.from_json_schema(Theirs.model_json_schema(), "Shop.Theirs"))

    with module(source) as made:
        found: Any = rowbus.Json().reader(made.Theirs)(b'{"name":"a","parts":[{}]}')
        assert (found.name, found.parts) == ("a", [made.Part(size=1)])
        with pytest.raises(ValueError, match="length"):
            rowbus.Json().reader(made.Theirs)(b'{"name":"0123456789","parts":[]}')


def test_messages_that_another_document_holds_in_itself_are_classes_of_their_own() -> None:
    def of(name: str, field: str) -> Message:
        return Message(name, Kind.EVENT, (), {"type": "object", "properties": {field: {"type": "string"}}})

    with module(contracts.to_python(Contract("", messages=(of("A.Order", "a"), of("B.Order", "b"))))) as made:
        assert (contract_of(made.Order).name, made.Order.__struct_fields__) == ("A.Order", ("a",))
        assert (contract_of(made.Order_2).name, made.Order_2.__struct_fields__) == ("B.Order", ("b",))


def test_what_a_document_says_becomes_no_code() -> None:
    text = 'a"""\nimport nothing_of_this_name\n"""\\'
    order = Message("Shop.Decimal", Kind.EVENT, (), {"properties": {"a": {"format": "decimal"}}}, text)

    with module(contracts.to_python(Contract(text, messages=(order,)))) as made:
        assert made.__doc__ == f"The messages of {text}, as `rowbus contracts python` wrote them."
        assert made.Decimal_2.__doc__ == text
        assert made.Decimal is Decimal


@every(
    "document, name, told",
    [
        ({"type": "string"}, "X", "neither an AsyncAPI document nor the JSON Schema of an object"),
        ([], "X", "neither an AsyncAPI document nor the JSON Schema of an object"),
        ({"properties": {}}, "", "has no title: say what the message is called"),
    ],
)
def test_what_is_no_schema_is_refused(document: object, name: str, told: str) -> None:
    with pytest.raises(ConfigurationError, match=told):
        contracts.from_json_schema(document, name)


def test_words_of_python_and_names_that_clash_become_names_of_their_own() -> None:
    document = {
        "title": "Odd",
        "properties": {"class": {"type": "string"}, "OrderId": {}, "order_id": {}, "1": {}},
    }

    with module(contracts.to_python(contracts.from_json_schema(document))) as made:
        assert made.Odd.__struct_fields__ == ("class_", "order_id", "order_id_2", "_1")
        assert made.Odd.__struct_encode_fields__ == ("class", "OrderId", "order_id", "1")
