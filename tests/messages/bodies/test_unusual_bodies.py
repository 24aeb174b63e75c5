"""Bodies that .NET's serializers write or read under other settings than the recorded ones: read, or refused.

None of them may be read with other values than .NET's in silence.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

import msgspec
import pydantic
import pytest

import rowbus
from rowbus.errors import MessageDeserializationError
from rowbus.messages.bodies.serializer import Serializers
from rowbus.messages.message_types import deserializer
from tests.fixtures.every import every

JSON, XML = "application/json", "text/xml"
BOTH = Serializers((rowbus.Json(), rowbus.Xml()))
SCHEMAS = 'xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance" xmlns="http://tempuri.net/Shop"'


@dataclass
class Line:
    Number: int


@dataclass
class Order:
    Id: str = ""
    Total: Decimal | None = None
    At: datetime | None = None
    Span: timedelta | None = None
    Tags: list[str] | None = None
    Lines: tuple[Line, ...] | None = None
    Counts: dict[int, str] | None = None


class OrderStruct(msgspec.Struct):
    Id: str = ""
    Tags: list[str] | None = None


class OrderModel(pydantic.BaseModel):
    Id: str = ""
    Tags: list[str] | None = None


def read(body: bytes, content_type: str | None = JSON, kind: Any = Order) -> Any:  # noqa: ANN401 - any class
    return deserializer(kind, "Shop.Order", BOTH)(body, content_type)


def xml(content: str, declaration: str = '<?xml version="1.0"?>') -> str:
    return f"{declaration}<Order {SCHEMAS}>{content}</Order>"


PLUS_TWO = timezone(timedelta(hours=2))
TAGS = (
    b'{"Id":"1","Tags":{"$type":"System.Collections.Generic.List`1[[System.String, x]], x","$values":["a"]}}'
)


@every(
    "body, order",
    [
        (b'\xef\xbb\xbf{"Id":"1"}', Order("1")),
        (b'\r\n {"Id":"1"} \r\n', Order("1")),
        (b'{"Id":"1","Id":"2"}', Order("2")),  # the last one, as in .NET
        (b'{"$type":"Shop.Order, Shop","Id":"1"}', Order("1")),  # never looked up
        (b'{"Id":"1","$type":"System.IO.FileInfo, mscorlib"}', Order("1")),
        (TAGS, Order("1", Tags=["a"])),
        (b'{"Id":"1","Tags":{"$id":"2","$values":["a"]}}', Order("1", Tags=["a"])),
        (b'{"Lines":{"$values":[{"$type":"Shop.Line, Shop","Number":1}]}}', Order(Lines=(Line(1),))),
        (b'{"Counts":{"$type":"x","1":"a","-2":"b"}}', Order(Counts={1: "a", -2: "b"})),
        (b'{"Id":"a\\u0000b"}', Order("a\0b")),
        (b'{"Id":"\\ud83d\\ude80"}', Order("\U0001f680")),
        (b'{"At":"0001-01-01T00:00:00"}', Order(At=datetime(1, 1, 1))),  # noqa: DTZ001 - it says no zone
        (b'{"At":"0001-01-01T00:00:00+02:00"}', Order(At=datetime(1, 1, 1, tzinfo=PLUS_TWO))),
        (b'{"At":"2026-01-02T03:04:05.1Z"}', Order(At=datetime(2026, 1, 2, 3, 4, 5, 100_000, tzinfo=UTC))),
        (b'{"Span":"10675199.02:48:05.4775807"}', Order(Span=timedelta(10675199, 10085, 477_580))),
        (b'{"Total":79228162514264337593543950335}', Order(Total=Decimal(2**96 - 1))),
        (b'{"Total":1E+2}', Order(Total=Decimal("1E+2"))),
        (b'{"Total":19.90}', Order(Total=Decimal("19.90"))),
    ],
)
def test_json_is_read_with_its_values(body: bytes, order: Order) -> None:
    found = read(body)
    assert found == order
    assert str(found.Total) == str(order.Total)


@every("kind", [Order, OrderStruct, OrderModel])
def test_a_list_that_may_be_missing_is_read_with_newtonsofts_type_names(kind: type) -> None:
    found = read(TAGS, kind=kind)
    assert (found.Id, found.Tags) == ("1", ["a"])


@every(
    "body, reason",
    [
        ('\ufeff{"Id":"1"}'.encode("utf-16-le"), "JSON"),  # System.Text.Json reads UTF-8 alone
        ('{"Id":"ż"}'.encode("iso-8859-2"), "utf-8"),
        (b"null", "null"),
        (b'[{"Id":"1"}]', "array"),
        (b'"x"', "str"),
        (b"   ", "truncated"),
        (b'{"Id":"1"/*x*/}', "malformed"),
        (b"{'Id':'1'}", "malformed"),
        (b'{"Id":"1"}\0', "trailing"),
        (b'{"Total":NaN}', "malformed"),
        (b'{"Total":"12,5"}', "Total"),  # a decimal by a culture
        (b'{"At":"23.11.2026 07:00:00"}', "At"),  # a time by a culture
        (b'{"At":"/Date(1700000000000)/"}', "At"),
        (b'{"x":' * 20_000 + b"null" + b"}" * 20_000, "recursion"),
        (b"[" * 200_000, "recursion"),
    ],
)
def test_other_json_is_refused_with_the_reason(body: bytes, reason: str) -> None:
    with pytest.raises(MessageDeserializationError, match=reason):
        read(body)


@every("encoding", ["utf-8", "utf-8-sig", "utf-16", "iso-8859-1", "windows-1252"])
def test_xml_is_read_in_the_encoding_that_it_says(encoding: str) -> None:
    declared = f'<?xml version="1.0" encoding="{encoding.removesuffix("-sig")}"?>'
    assert read(xml("<Id>é</Id>", declared).encode(encoding), XML) == Order("é")


@every(
    "content, order",
    [
        ("<Id><![CDATA[<1&2>]]></Id>", Order("<1&2>")),
        ("<!--c--><?pi x?>\n  <Id>1</Id>\n", Order("1")),
        ("<Id>  1 </Id>", Order("  1 ")),
        ('<Id>1</Id><Total xsi:nil="true"></Total>', Order("1")),
        ("<Id/><Tags/>", Order(Tags=[])),
        ("<Id>&amp;&#xE9;&#13;</Id>", Order("&é\r")),
        ("<Total>12.50</Total><Span>P1DT2H</Span>", Order(Total=Decimal("12.50"), Span=timedelta(1, 7200))),
    ],
)
def test_xml_is_read_with_its_values(content: str, order: Order) -> None:
    assert read(xml(content).encode(), XML) == order


@every("root", ["Messages", "messages"])
def test_one_message_in_a_root_for_several_is_read_and_several_are_refused(root: str) -> None:
    def body(*orders: str) -> bytes:
        return f"<{root} {SCHEMAS}>\n{''.join(orders)}</{root}>".encode()

    one = "<Order><Id>1</Id></Order>"
    assert read(body(one), XML) == Order("1")
    for several in (body(one, one), body()):
        with pytest.raises(MessageDeserializationError, match="messages, and can be one only"):
            read(several, XML)


@every(
    "body, reason",
    [
        (f'<!DOCTYPE Order [<!ENTITY a "b">]>{xml("<Id>&a;</Id>", "")}', "document type"),
        (xml("<Id>&unknown;</Id>"), "no XML"),
        (xml("<Total>12,5</Total>"), "'12,5' is no number"),
        (xml("<Total>1_000</Total>"), "'1_000' is no number"),
        (xml("<Total>NaN</Total>"), "'NaN' is no number"),
        ("<a>" * 20_000, "nested"),
        ("{}", "no XML"),
        (" ", "no XML"),
    ],
)
def test_other_xml_is_refused_with_the_reason(body: str, reason: str) -> None:
    with pytest.raises(MessageDeserializationError, match=reason):
        read(body.encode(), XML)


@every(
    "content_type",
    [
        None,
        "",
        "application/json; charset=utf-8",
        "APPLICATION/JSON",
        "text/json",
        "application/vnd.shop+json",
    ],
)
def test_a_content_type_that_is_not_known_is_read_as_the_main_one(content_type: str | None) -> None:
    assert read(b'{"Id":"1"}', content_type) == Order("1")


@every("content_type", ["text/xml", "TEXT/XML; charset=utf-8", "application/xml"])
def test_xml_is_known_in_any_spelling(content_type: str) -> None:
    assert read(xml("<Id>1</Id>").encode(), content_type) == Order("1")
