"""XML bodies: those of NServiceBus's XmlSerializer are read with the values .NET set, and ours have its form."""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import Decimal
from typing import Any
from uuid import UUID

import pydantic
import pytest

from rowbus.errors import MessageDeserializationError, MessageSerializationError
from rowbus.messages.bodies.dotnet_xml import Xml
from rowbus.messages.bodies.serializer import Serializers
from rowbus.messages.message_types import deserializer, event, serialize
from tests.fixtures.dotnet_rows import rows, scenario
from tests.fixtures.every import every
from tests.fixtures.shop_types import COMMON, Line, classes, values, values_of

XML = Serializers([Xml()])
# Left out of the body because they are null there, so that a class must have a default for them.
LEFT_OUT = {"NullText", "NullNested"}
SET = {name: known for name, known in COMMON.items() if name not in LEFT_OUT}
KINDS = ["dataclass", "struct", "pydantic"]


def body_of(name: str) -> bytes:
    body = rows(name)[0].body
    assert body is not None
    return body


@every("kind", KINDS)
def test_every_value_is_the_one_that_dotnet_set(kind: str) -> None:
    shape = classes("Shop", SET)[kind]

    message = deserializer(shape, "Shop.CommonTypes", XML)(body_of("types-xml"))

    assert values_of(message, SET) == values(SET)


@every("kind", KINDS)
def test_what_is_written_equals_what_dotnet_writes(kind: str) -> None:
    shape = classes("Shop", COMMON)[kind]
    theirs = body_of("types-xml").decode().replace("\n", "").replace("><", ">\n<").splitlines()

    ours = serialize(shape(**values(COMMON)), types=("Shop.CommonTypes",), serializer=Xml()).body

    written = ours.decode().replace("><", ">\n<").splitlines()
    differing = [line for line in theirs if line not in written]
    # 100 ns, which Python's types do not have; and an empty list over two lines, which is one here.
    assert [line.partition(">")[0] for line in differing] == [
        "<Utc",
        "<Local",
        "<DateTimeMax",
        "<SpanTick",
        "<SpanMax",
    ]


@dataclass
class PlaceOrder:
    OrderId: UUID
    Customer: str
    Total: Decimal
    Quantity: int


class PlaceOrderModel(pydantic.BaseModel):
    OrderId: UUID
    Customer: str
    Total: Decimal
    Quantity: int


ORDER: dict[str, Any] = {
    "OrderId": UUID("6f9619ff-8b86-d011-b42d-00cf4fc964ff"),
    "Customer": "Zoë",
    "Total": Decimal("19.99"),
    "Quantity": 3,
}


@every("kind", [PlaceOrder, PlaceOrderModel])
@every(
    "name, serializer", [("xml-simple", Xml()), ("xml-namespace", Xml(namespace="http://example.com/shop"))]
)
def test_an_order_is_written_byte_for_byte_as_dotnet_does_and_read(
    name: str,
    serializer: Xml,
    kind: Any,  # noqa: ANN401
) -> None:
    body = body_of(name)

    assert serialize(kind(**ORDER), types=("Shop.PlaceOrder",), serializer=serializer).body == body
    assert deserializer(kind, "Shop.PlaceOrder", XML)(body) == kind(**ORDER)


@dataclass
class Envelope:
    Content: Line


def test_a_generic_type_is_named_as_dotnet_names_it() -> None:
    envelope = Envelope(Line("A1", 2, Decimal("1.5")))
    name = "Shop.Envelope`1[[Shop.Line, Shop.Messages, Version=1.2.0.0]]"

    assert serialize(envelope, types=(name,), serializer=Xml()).body == body_of("xml-generic")
    assert deserializer(Envelope, name, XML)(body_of("xml-generic")) == envelope


@dataclass
class Animal:
    Name: str


@dataclass
class Polymorphic:
    Name: str
    Pet: Animal
    Pets: list[Animal]


def test_lists_of_objects_are_read_and_written() -> None:
    message = Polymorphic("p", Animal("Rex"), [Animal("Tom"), Animal("Rex")])
    body = body_of("xml-polymorphic")

    assert deserializer(Polymorphic, "Shop.PolymorphicXml", XML)(body) == message
    assert serialize(message, types=("Shop.PolymorphicXml",), serializer=Xml()).body == body


@dataclass
class Numbers:
    Value: float
    Single: float
    Infinity: float


def test_what_is_no_number_has_a_name_in_xml() -> None:
    body = body_of("nan-xml")
    message = deserializer(Numbers, "Shop.NotANumber", XML)(body)

    assert isinstance(message, Numbers)
    assert math.isnan(message.Value)
    assert (message.Single, message.Infinity) == (-math.inf, math.inf)
    assert serialize(message, types=("Shop.NotANumber",), serializer=Xml()).body == body


def test_every_character_that_xml_can_hold_arrives() -> None:
    message: Any = deserializer(dict, "Shop.UnicodeXml", XML)(body_of("unicode-xml"))

    assert message == scenario("unicode-xml")["facts"]["values"]


@every("text", ["\0", "\x1f", "\ud83d", "\ufffe"])
def test_a_character_that_xml_cannot_hold_is_refused(text: str) -> None:
    with pytest.raises(MessageSerializationError, match="XML cannot hold the character"):
        serialize({"Text": text}, types=("Shop.UnicodeText",), serializer=Xml())


@dataclass
class Raw:
    Document: str


@every("name", ["xml-raw", "xml-raw-unwrapped"])
def test_elements_where_a_value_should_be_are_refused(name: str) -> None:
    with pytest.raises(MessageDeserializationError, match="Document holds elements, not a value"):
        deserializer(Raw, "Shop.RawXml", XML)(body_of(name))


@event("Shop.OrderShipped", parents=("Shop.OrderEvent", "Shop.IOrderEvent"))
@dataclass
class OrderShipped:
    Carrier: str
    OrderId: UUID


def test_an_event_names_its_parents_as_dotnet_does() -> None:
    (theirs, *_) = [
        row.body
        for row in rows("interfaces-by-serializer")
        if row.content_type == "text/xml" and row.body and b"<OrderShipped" in row.body
    ]

    shipped = OrderShipped("DHL", ORDER["OrderId"])
    assert serialize(shipped, serializer=Xml()).body == theirs
    assert deserializer(OrderShipped, "Shop.OrderShipped", XML)(theirs) == shipped


LAUGHS = b"""<?xml version="1.0"?><!DOCTYPE a [<!ENTITY b "lol"><!ENTITY c "&b;&b;&b;&b;">]><a><Name>&c;</Name></a>"""
OUTSIDE = b"""<!DOCTYPE a [<!ENTITY b SYSTEM "file:///etc/passwd">]><a><Name>&b;</Name></a>"""
DTD = b"""<!DOCTYPE a SYSTEM "http://example.com/a.dtd"><a><Name>x</Name></a>"""


@every("body", [LAUGHS, OUTSIDE, DTD])
def test_a_document_type_declaration_is_refused(body: bytes) -> None:
    with pytest.raises(MessageDeserializationError, match="document type declaration"):
        deserializer(Animal, "Shop.Animal", XML)(body)


@every("body", [b"", b"{}", b"<a>", b"<a><Name>&x;</Name></a>", b"<a>" * 300 + b"</a>" * 300, b"\xff\xfe<"])
def test_what_is_no_xml_is_refused(body: bytes) -> None:
    with pytest.raises(MessageDeserializationError):
        deserializer(Animal, "Shop.Animal", XML)(body)


@every("body", [b"<a><Quantity>x</Quantity></a>", b"<a><Quantity>1.5</Quantity></a>", b"<a/>"])
def test_a_body_that_does_not_fit_is_refused(body: bytes) -> None:
    with pytest.raises(MessageDeserializationError):
        deserializer(PlaceOrder, "Shop.PlaceOrder", XML)(body)
