"""Messages that were seen tell a contract: each of them fits it, and it says that it is inferred."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rowbus import contracts
from rowbus.contracts import SeenMessage
from rowbus.messages.conventions import Kind
from tests.contracts.test_python_classes import module
from tests.fixtures.command_line import CommandLine
from tests.fixtures.every import every

TYPES = "NServiceBus.EnclosedMessageTypes"
TEXT = {"type": "string"}
NULL = {"type": "null"}
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=9),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)


def seen(body: object, types: str = "Shop.X", intent: str = "Send") -> SeenMessage:
    return SeenMessage({TYPES: types, "NServiceBus.MessageIntent": intent}, json.dumps(body).encode())


@every(
    "values, schema",
    [
        ((1, 2), {"type": "integer"}),
        ((1, 2.5), {"type": "number", "format": "decimal"}),
        ((True,), {"type": "boolean"}),
        (("a", "b"), TEXT),
        (("6f9619ff-8b86-d011-b42d-00c04fc964ff",), {**TEXT, "format": "uuid"}),
        (("6f9619ff-8b86-d011-b42d-00c04fc964ff", "a"), TEXT),
        (("2026-01-02T03:04:05.1234567Z",), {**TEXT, "format": "date-time"}),
        (("2026-01-02",), {**TEXT, "format": "date"}),
        (("10:00:00",), TEXT),
        ((None,), NULL),
        ((None, 1), {"anyOf": [{"type": "integer"}, NULL]}),
        ((1, "a"), {"anyOf": [{"type": "integer"}, TEXT]}),
        (([], [1]), {"type": "array", "items": {"type": "integer"}}),
        (([],), {"type": "array", "items": {}}),
        (
            ({"a": 1}, {"a": 2, "b": "x"}),
            {"type": "object", "properties": {"a": {"type": "integer"}, "b": TEXT}, "required": ["a"]},
        ),
    ],
)
def test_a_field_has_the_type_of_all_its_values(values: tuple[object, ...], schema: dict[str, Any]) -> None:
    found = contracts.infer(seen({"a": value}) for value in values)

    assert found.schemas["Shop.X"]["properties"]["a"] == schema


@given(st.lists(st.dictionaries(st.text(max_size=3), VALUES, max_size=3), min_size=1, max_size=4))
def test_what_was_seen_fits_what_is_inferred(bodies: list[dict[str, Any]]) -> None:
    found = contracts.infer(map(seen, bodies))

    assert [one for body in bodies for one in contracts.misfits(found, "Shop.X", body)] == []


def test_messages_tell_their_kinds_and_parents_by_how_they_were_sent() -> None:
    found = contracts.infer(
        [
            seen({"a": 1}, "Shop.Place, Shop"),
            seen({}, "Shop.Placed, Shop;Shop.IEvent, Shop", "Publish"),
            seen({}, "Shop.Answer", "Reply"),
            SeenMessage({TYPES: "Shop.Xml"}, b"<a/>"),
            SeenMessage({TYPES: "Shop.Null"}, None),
            seen({}, ""),
            seen([1], "Shop.List"),
        ]
    )

    assert [(one.name, one.kind, one.parents) for one in found.messages] == [
        ("Shop.Answer", Kind.MESSAGE, ()),
        ("Shop.Place", Kind.COMMAND, ()),
        ("Shop.Placed", Kind.EVENT, ("Shop.IEvent",)),
    ]


@pytest.mark.one_version
def test_messages_in_a_queue_become_classes_that_say_so(rowbus: CommandLine) -> None:
    rowbus("queue", "create", "audit")
    empty = rowbus("contracts", "python", "queue:audit")
    for body in ('{"OrderId": 1, "Note": null}', '{"OrderId": 2, "Note": "x", "Lines": [{"Sku": "a"}]}'):
        rowbus("queue", "send", "audit", body, "--type", "Shop.PlaceOrder")
    printed = rowbus("contracts", "python", "queue:audit")
    records = rowbus("contracts", "csharp", "queue:audit")

    assert printed.returncode == 0, printed.stderr
    assert printed.stdout.startswith('"""The messages of \\"public\\".\\"audit\\", as seen, as')
    with module(printed.stdout) as made:
        assert made.PlaceOrder.__doc__ == "Inferred from 2 messages that were seen."
        assert made.PlaceOrder(order_id=1, note=None).note is None
    assert "public required long OrderId { get; init; }" in records.stdout
    assert (empty.returncode, empty.stderr) == (
        1,
        'rowbus: "public"."audit" has no message with a type and a body of JSON to infer classes from.\n',
    )
