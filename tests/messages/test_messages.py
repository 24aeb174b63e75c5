"""Message types: wire names, bodies as JSON and back, and clear refusals of what is neither."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import Decimal
from fractions import Fraction
from typing import Any
from uuid import UUID

import msgspec
import pydantic
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rowbus.errors import ConfigurationError, MessageDeserializationError, MessageSerializationError
from rowbus.messages.bodies.json_bodies import JSON
from rowbus.messages.conventions import Kind
from rowbus.messages.message_types import (
    BINARY,
    command,
    contract_of,
    deserializer,
    event,
    message,
    serialize,
    with_parents,
)
from tests.fixtures.every import every

patiently = settings(deadline=None, max_examples=60)


@command("Shop.PlaceOrder", parents=("Shop.ICommand",))
@dataclass
class PlaceOrder:
    order_id: str
    total: float = 0.0


@event("Shop.OrderPlaced")
class OrderPlaced(msgspec.Struct):
    order_id: str


@message("Shop.OrderReceipt")
class OrderReceipt(pydantic.BaseModel):
    order_id: str
    total: float = 0.0


@dataclass
class Line:
    sku: str
    price: Decimal


@dataclass
class Basket:
    id: UUID
    opened: datetime
    lines: list[Line] = field(default_factory=list)


# ----------------------------------------------------------------------------------------------------------- contracts


def test_a_declared_type_has_its_wire_names_most_concrete_first() -> None:
    assert contract_of(PlaceOrder) == ("Shop.PlaceOrder", ("Shop.ICommand",), Kind.COMMAND)
    assert contract_of(PlaceOrder).types == ("Shop.PlaceOrder", "Shop.ICommand")


def test_an_event_is_published_and_a_plain_message_sent() -> None:
    assert contract_of(OrderPlaced).kind is Kind.EVENT
    assert contract_of(OrderReceipt).kind is Kind.MESSAGE


def test_an_undeclared_type_goes_by_its_module_and_name() -> None:
    assert contract_of(Line).name == f"{__name__}.Line"


def test_a_subclass_does_not_inherit_the_wire_name() -> None:
    class PlaceRushOrder(PlaceOrder):
        pass

    assert contract_of(PlaceRushOrder).name.endswith("PlaceRushOrder")


def test_declaring_gives_back_the_class_itself() -> None:
    assert PlaceOrder("42").order_id == "42"
    assert isinstance(OrderPlaced("42"), msgspec.Struct)


@every("declare", [command, event, message])
def test_a_declaration_without_a_name_says_how_to_give_one(declare: Any) -> None:  # noqa: ANN401 - called wrongly
    with pytest.raises(ConfigurationError, match=rf'PlaceOrder lacks .*@rowbus.{declare.__name__}\("Shop'):
        declare(PlaceOrder)


@every("name", ["", "A;B", "A\nB", "A\0"])
def test_a_name_that_would_break_the_header_is_refused(name: str) -> None:
    with pytest.raises(ConfigurationError, match="cannot name a message type"):
        command(name)
    with pytest.raises(ConfigurationError, match="cannot name a message type"):
        event("Fine", parents=(name,))


# ------------------------------------------------------------------------------------------------------------- writing


@every(
    "body, name",
    [
        (PlaceOrder("42", 9.5), "Shop.PlaceOrder"),
        (OrderPlaced("42"), "Shop.OrderPlaced"),
        (OrderReceipt(order_id="42"), "Shop.OrderReceipt"),
    ],
)
def test_an_object_becomes_json_and_its_types(body: object, name: str) -> None:
    content = serialize(body)

    assert content.content_type == JSON
    assert content.types[0] == name
    assert msgspec.json.decode(content.body)["order_id"] == "42"


def test_a_dict_needs_a_type_and_becomes_json() -> None:
    content = serialize({"order_id": "42"}, types=("Shop.PlaceOrder",))

    assert content == (b'{"order_id":"42"}', JSON, ("Shop.PlaceOrder",))


@every("body", [b"\x00", bytearray(b"\x00")])
def test_bytes_need_a_type_and_go_as_they_are(body: bytes) -> None:
    assert serialize(body, types=("Shop.Blob",)) == (b"\x00", BINARY, ("Shop.Blob",))


def test_bytes_may_say_what_they_are() -> None:
    assert serialize(b"<a/>", types=("Shop.Xml",), content_type="text/xml").content_type == "text/xml"


@every("body, kind", [({}, "dict"), (b"", "bytes")])
def test_what_does_not_say_what_it_is_is_refused(body: object, kind: str) -> None:
    with pytest.raises(MessageSerializationError, match="pass type=") as caught:
        serialize(body)
    assert caught.value.type_name == kind


def test_given_types_win_over_the_objects_own() -> None:
    assert serialize(PlaceOrder("42"), types=("Old.PlaceOrder",)).types == ("Old.PlaceOrder",)


@every(
    "value, field",
    [
        (object(), "value"),
        ([1, {"a": 1, "b": [object()]}], "value[1].b[0]"),
        ({4: Fraction(1, 2)}, "value[4]"),
        (float("nan"), "value"),
    ],
)
def test_what_cannot_be_written_is_refused_with_its_message_and_field(value: object, field: str) -> None:
    @dataclass
    class Odd:
        value: object
        fine: int = 1

    with pytest.raises(MessageSerializationError) as caught:
        serialize(Odd(value), types=("Shop.Odd",))
    reason = caught.value.__cause__
    assert str(caught.value) == f"Shop.Odd cannot be written as JSON: {reason} (field {field})"
    assert str(reason)


def test_no_field_is_blamed_where_none_is_at_fault_alone() -> None:
    endless: dict[str, object] = {}
    endless["self"] = endless

    for body, text in ((endless, "recursion"), ({object(): 1}, "keys")):
        with pytest.raises(MessageSerializationError, match=text) as caught:
            serialize(body, types=("Shop.Odd",))
        assert "field [" not in str(caught.value)


# ------------------------------------------------------------------------------------------------------------- reading


@every(
    "body",
    [PlaceOrder("42", 9.5), OrderPlaced("42"), OrderReceipt(order_id="42", total=9.5)],
    ids=lambda b: type(b).__name__,
)
def test_what_was_written_is_read_again(body: object) -> None:
    assert deserializer(type(body), "name")(serialize(body).body) == body


def test_nested_types_are_read_as_their_annotations_say() -> None:
    basket = Basket(UUID(int=7), datetime(2026, 4, 29, tzinfo=UTC), [Line("a", Decimal("1.10"))])

    assert deserializer(Basket, "Basket")(serialize(basket).body) == basket


@every("kind", [PlaceOrder, OrderPlaced, OrderReceipt, dict])
def test_a_byte_order_mark_is_stripped(kind: type) -> None:
    assert deserializer(kind, "name")(b'\xef\xbb\xbf{"order_id":"42"}')


@every("kind", [PlaceOrder, OrderPlaced, OrderReceipt])
def test_fields_nobody_asked_for_are_ignored(kind: Any) -> None:  # noqa: ANN401 - three unrelated classes
    assert deserializer(kind, "name")(b'{"order_id":"42","from":"the future"}').order_id == "42"  # type: ignore[attr-defined]  # as above


def test_a_handler_of_bytes_gets_all_of_them() -> None:
    assert deserializer(bytes, "name")(b"\xef\xbb\xbf\x00") == b"\xef\xbb\xbf\x00"


def test_a_handler_of_a_dict_gets_a_dict() -> None:
    assert deserializer(dict, "name")(b'{"a":{"b":[1,null]}}') == {"a": {"b": [1, None]}}


@every("body", [b"", b"not JSON", b"[]", b"null", b"{}", b'{"order_id":7}', b'{"order_id":"\xff"}'])
@every("kind", [PlaceOrder, OrderPlaced, OrderReceipt])
def test_a_body_that_does_not_fit_says_what_it_should_have_been(kind: type, body: bytes) -> None:
    with pytest.raises(MessageDeserializationError, match=r"^The body is not a Shop\.Order: ") as caught:
        deserializer(kind, "Shop.Order")(body)
    assert caught.value.type_name == "Shop.Order"
    assert caught.value.__cause__ is not None


@every("kind", [int, str, list, None, "PlaceOrder"])
def test_what_cannot_be_a_message_is_refused(kind: object) -> None:
    with pytest.raises(
        ConfigurationError, match=r"must be a dataclass, a msgspec\.Struct, a pydantic model, dict or bytes"
    ):
        deserializer(kind, "name")


@patiently
@given(st.text(st.characters(exclude_categories=["Cs"])), st.floats(allow_nan=False, allow_infinity=False))
def test_every_order_survives_the_wire(order_id: str, total: float) -> None:
    order = PlaceOrder(order_id, total)

    assert READ_ORDER(serialize(order).body) == order


READ_ORDER = deserializer(PlaceOrder, "Shop.PlaceOrder")


@patiently
@given(st.binary() | st.text().map(str.encode))
def test_any_body_at_all_is_an_order_or_a_deserialization_error(body: bytes) -> None:
    try:
        assert isinstance(READ_ORDER(body), PlaceOrder)
    except MessageDeserializationError as error:
        assert error.type_name == "Shop.PlaceOrder"  # noqa: PT017 - either outcome is right


@event("Shop.OrderEvent")
@dataclass
class OrderEvent:
    order_id: str


class Traced:
    """Not a message."""


@event("Shop.OrderShipped")
@dataclass
class OrderShipped(Traced, OrderEvent):
    carrier: str


@dataclass
class SentAbroad(OrderShipped):
    country: str


def test_bases_that_are_events_are_the_parents_of_an_event() -> None:
    assert contract_of(OrderShipped).types == ("Shop.OrderShipped", "Shop.OrderEvent")
    assert contract_of(SentAbroad).types[1:] == ("Shop.OrderShipped", "Shop.OrderEvent")
    assert contract_of(SentAbroad).kind is contract_of(OrderEvent).kind
    assert with_parents(["Shop.OrderShipped"]) == ("Shop.OrderShipped", "Shop.OrderEvent")

    alone = event("Shop.Alone", parents=())(type("Alone", (OrderEvent,), {}))
    assert contract_of(alone).types == ("Shop.Alone",)
    assert contract_of(command("Shop.Do")(type("Do", (OrderEvent,), {}))).types == ("Shop.Do",)
