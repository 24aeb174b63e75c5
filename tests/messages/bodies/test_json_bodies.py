"""JSON bodies: .NET's are read with the values that .NET set, and ours keep to the forms that .NET reads."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from enum import IntEnum
from typing import Any

import msgspec
import pydantic
import pytest

import rowbus
from rowbus.errors import ConfigurationError, MessageDeserializationError, MessageSerializationError
from rowbus.messages.bodies.json_bodies import Json
from rowbus.messages.bodies.serializer import Serializers
from rowbus.messages.message_types import command, deserializer, serialize
from tests.fixtures.dotnet_rows import rows, scenario
from tests.fixtures.every import every
from tests.fixtures.shop_types import ALL, COMMON, Colour, Days, classes, values, values_of

KINDS = ["dataclass", "struct", "pydantic"]


def body_of(name: str) -> bytes:
    body = rows(name)[0].body
    assert body is not None
    return body


@every("kind", KINDS)
@every(
    "name, properties",
    [
        ("types-systemjson", ALL),
        ("common-systemjson", COMMON),
        ("types-newtonsoft", ALL),
        ("common-newtonsoft", COMMON),
    ],
)
def test_every_value_is_the_one_that_dotnet_set(name: str, properties: dict[str, Any], kind: str) -> None:
    shape = classes("Shop", properties)[kind]

    message = deserializer(shape, "Shop")(body_of(name))

    assert values_of(message, properties) == values(properties)


@every("kind", KINDS)
def test_names_are_found_whatever_their_case_if_so_asked(kind: str) -> None:
    shape = classes("Shop", COMMON)[kind]
    anyhow = Serializers([Json(ignore_case=True)])

    message = deserializer(shape, "Shop", anyhow)(body_of("camel-case"))

    assert values_of(message, COMMON) == values(COMMON)
    with pytest.raises(MessageDeserializationError):
        deserializer(shape, "Shop")(body_of("camel-case"))


@every("kind", KINDS)
def test_what_is_written_equals_what_dotnet_writes(kind: str) -> None:
    shape = classes("Shop", COMMON)[kind]
    theirs = json.loads(body_of("common-systemjson"), parse_float=Decimal)

    ours = json.loads(serialize(shape(**values(COMMON))).body, parse_float=Decimal)

    differing = {name for name in theirs if ours[name] != theirs[name]}
    # Python's types have no 100 ns, and we write UTC as Z.
    assert differing == {"Utc", "Local", "DateTimeMax", "SpanTick", "SpanMax", "OffsetUtc"}
    digits = {name for name in theirs if str(ours[name]) != str(theirs[name])} - differing
    assert digits <= {"E20", "Tiny", "Whole", "FloatMax", "DoubleMax", "NegativeZero", "DecimalTiny"}


# ------------------------------------------------------------------------------------------------------------- numbers


@dataclass
class Priced:
    total: Decimal


class PricedStruct(msgspec.Struct):
    total: Decimal


class PricedModel(pydantic.BaseModel):
    total: Decimal


class PricedStrictly(PricedModel):
    model_config = pydantic.ConfigDict(strict=True)


PRICED = every("kind", [Priced, PricedStruct, PricedModel, PricedStrictly])


@PRICED
@every("digits", ["10.00", "0.1234567890123456789012345678", "-0.50", "7", "1E+2"])
def test_a_decimal_is_a_number_with_all_its_digits_and_comes_back_so(kind: Any, digits: str) -> None:  # noqa: ANN401
    body = serialize(kind(total=Decimal(digits))).body

    assert body == f'{{"total":{digits}}}'.encode()
    assert str(deserializer(kind, "Priced")(body).total) == digits  # type: ignore[attr-defined]


@PRICED
@every("number", ["NaN", "Infinity", "-Infinity"])
def test_a_decimal_that_is_no_number_is_refused(kind: Any, number: str) -> None:  # noqa: ANN401
    message = (
        kind.model_construct(total=Decimal(number))
        if issubclass(kind, PricedModel)
        else kind(Decimal(number))
    )

    with pytest.raises(MessageSerializationError, match="no number that JSON can hold"):
        serialize(message)


@dataclass
class Measured:
    value: float | None
    note: str | None = None


class MeasuredModel(pydantic.BaseModel):
    value: float | None
    note: str | None = None


@every("message", [Measured, MeasuredModel, dict])
@every("number", [math.nan, math.inf, -math.inf])
def test_what_is_no_number_is_refused_and_never_null(message: Any, number: float) -> None:  # noqa: ANN401
    with pytest.raises(MessageSerializationError, match="no number that JSON can hold"):
        serialize(message(value=number), types=("Shop.Measured",))

    assert b'"value":null' in serialize(message(value=None), types=("Shop.Measured",)).body


@dataclass
class Numbers:
    Value: float
    Single: float
    Infinity: float


def test_newtonsofts_names_of_what_is_no_number_are_read() -> None:
    message = deserializer(Numbers, "Shop.NotANumber")(body_of("nan-newtonsoft"))

    assert isinstance(message, Numbers)
    assert math.isnan(message.Value)
    assert (message.Single, message.Infinity) == (-math.inf, math.inf)


@dataclass
class Counted:
    count: int


@every("written", ["5.0", "5.00", "5e0", "50E-1"])
def test_a_whole_decimal_is_an_integer(written: str) -> None:
    assert deserializer(Counted, "C")(f'{{"count":{written}}}'.encode()) == Counted(5)


@every("written", ["5.5", '"5"', "1e400000", "true", "NaN"])
def test_what_is_no_integer_is_refused(written: str) -> None:
    with pytest.raises(MessageDeserializationError):
        deserializer(Counted, "C")(f'{{"count":{written}}}'.encode())


# --------------------------------------------------------------------------------------------------------------- times


@dataclass
class Timed:
    span: timedelta = timedelta()
    at: datetime | None = None


class TimedModel(pydantic.BaseModel):
    span: timedelta = timedelta()
    at: datetime | None = None


TIMED = every("kind", [Timed, TimedModel])


@TIMED
@every(
    "text, span",
    [
        ("1.02:03:04", timedelta(days=1, hours=2, minutes=3, seconds=4)),
        ("-00:01:30", -timedelta(seconds=90)),
        ("00:00:01.5000000", timedelta(seconds=1.5)),
        ("00:00:00", timedelta()),
    ],
)
def test_a_span_is_dotnets_text(kind: Any, text: str, span: timedelta) -> None:  # noqa: ANN401
    timed = kind(span=span, at=datetime(2026, 1, 1, tzinfo=UTC))  # no null, which would be looked at anyway
    body = serialize(timed).body

    assert json.loads(body)["span"] == text
    assert deserializer(kind, "T")(body) == timed


@TIMED
def test_a_span_in_iso_8601_is_still_read(kind: Any) -> None:  # noqa: ANN401
    assert deserializer(kind, "T")(b'{"span":"P1DT2H"}') == kind(span=timedelta(days=1, hours=2))


@every("text", ["26:00:00", "1 day, 1:00:00", "a"])
def test_another_span_is_refused(text: str) -> None:
    with pytest.raises(MessageDeserializationError, match="span"):
        deserializer(Timed, "T")(json.dumps({"span": text}).encode())


@TIMED
@every("digits, kept", [("9999999", 999999), ("4567899", 456789), ("123456", 123456)])
def test_the_seventh_digit_is_cut(kind: Any, digits: str, kept: int) -> None:  # noqa: ANN401
    body = f'{{"at":"9999-12-31T23:59:59.{digits}Z"}}'.encode()

    assert deserializer(kind, "T")(body) == kind(at=datetime(9999, 12, 31, 23, 59, 59, kept, UTC))


# --------------------------------------------------------------------------------------------------------------- enums


class Closed(IntEnum):
    RED = 0


@dataclass
class Painted:
    colour: Closed = Closed.RED
    open: Colour = Colour.Red
    days: Days = Days.Monday


class PaintedModel(pydantic.BaseModel):
    colour: Closed = Closed.RED
    open: Colour = Colour.Red
    days: Days = Days.Monday


PAINTED = every("kind", [Painted, PaintedModel])


@PAINTED
def test_a_number_that_an_enum_does_not_define_is_refused(kind: Any) -> None:  # noqa: ANN401
    with pytest.raises(MessageDeserializationError, match=r"42|enum"):
        deserializer(kind, "P")(b'{"colour":42}')


@PAINTED
def test_an_open_enum_keeps_such_a_number(kind: Any) -> None:  # noqa: ANN401
    message: Any = deserializer(kind, "P")(b'{"open":42}')

    assert isinstance(message.open, Colour)
    assert message.open == 42
    assert json.loads(serialize(message).body)["open"] == 42
    assert 42 not in list(Colour)


def test_an_open_enum_takes_integers_only() -> None:
    with pytest.raises(ValueError, match="green"):
        Colour("green")  # type: ignore[arg-type]


@PAINTED
def test_names_of_enums_and_flags_are_read(kind: Any) -> None:  # noqa: ANN401
    message = deserializer(kind, "P")(b'{"open":"Blue","days":"Monday, Sunday"}')

    assert message == kind(open=Colour.Blue, days=Days.Monday | Days.Sunday)


# --------------------------------------------------------------------------------------------------------------- names


@dataclass
class Item:
    unit_price: Decimal


@command("Shop.Order", rename="pascal")
@dataclass
class Order:
    order_id: str
    all_items: list[Item] = field(default_factory=list)
    note: str | None = None


class Own(msgspec.Struct, rename={"order_id": "ID"}):
    order_id: str
    line_count: int = 0


class OwnModel(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(populate_by_name=True, serialize_by_alias=True)
    order_id: str = pydantic.Field(alias="ID")
    line_count: int = 0


ORDER = Order("1", [Item(Decimal("1.50"))])
IN_PASCAL = b'{"OrderId":"1","AllItems":[{"UnitPrice":1.50}],"Note":null}'


def test_a_type_is_written_and_read_with_names_by_its_convention() -> None:
    assert serialize(ORDER).body == IN_PASCAL
    assert deserializer(Order, "Shop.Order")(IN_PASCAL) == ORDER


@every("kind", [Own, OwnModel])
def test_a_serializers_convention_leaves_names_that_a_class_gives_itself(kind: Any) -> None:  # noqa: ANN401
    camel = Json(rename="camel")
    message = kind(order_id="1", line_count=2)

    body = serialize(message, serializer=camel).body

    assert json.loads(body) == {"ID": "1", "lineCount": 2}
    assert deserializer(kind, "K", Serializers([camel]))(body) == message


def test_a_types_convention_wins_over_the_serializers() -> None:
    assert serialize(ORDER, serializer=Json(rename="camel")).body == IN_PASCAL


@every("rename", ["kebab", "", 1])
def test_another_convention_is_refused(rename: Any) -> None:  # noqa: ANN401
    with pytest.raises(ConfigurationError, match="convention"):
        Json(rename=rename)
    with pytest.raises(ConfigurationError, match="convention"):
        command("Shop.Order", rename=rename)


# --------------------------------------------------------------------------------------------- what .NET reads, and not


@dataclass
class Animal:
    Name: str


@dataclass
class Polymorphic:
    Pet: Animal
    Pets: list[Animal]


@dataclass
class Picture:
    bits: bytes


class PictureModel(pydantic.BaseModel):
    bits: bytes


def test_our_bytes_are_the_base64_that_dotnet_reads() -> None:
    for kind in (Picture, PictureModel):
        body = serialize(kind(bits=b"\xfb\xff")).body
        assert body == b'{"bits":"+/8="}'
        assert deserializer(kind, "P")(body) == kind(bits=b"\xfb\xff")


@every("name", ["newtonsoft-typenames", "newtonsoft-all-typenames"])
def test_type_names_in_a_body_are_ignored(name: str) -> None:
    message = deserializer(Polymorphic, "Shop.Polymorphic")(body_of(name))

    assert message == Polymorphic(Animal("Rex"), [Animal("Tom"), Animal("Rex")])


@every("name", ["unicode-systemjson", "unicode-newtonsoft", "unicode-newtonsoft-surrogate"])
def test_every_character_arrives(name: str) -> None:
    message: Any = deserializer(dict, "Shop.UnicodeText")(body_of(name))

    assert message == scenario(name)["facts"]["values_read_by_dotnet"]


def test_the_facade_has_them() -> None:
    assert rowbus.Json is Json
