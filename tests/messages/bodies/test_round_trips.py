"""Bodies are read back as they were written, or their class is refused: classes are drawn from a grammar of types.

Invariant: whatever a class holds, each serializer reads an equal object, of equal types, or names the field at fault.
"""

from __future__ import annotations

import dataclasses
import itertools
import re
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from typing import Any, Final, Literal, Union
from uuid import UUID

import msgspec
import pydantic
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

import rowbus
from rowbus.errors import ConfigurationError
from tests.fixtures.every import every
from tests.fixtures.message_classes import (
    ATTRIBUTES,
    MESSAGES,
    Bits,
    Box,
    BoxStruct,
    Make,
    Number,
    Parts,
    Shape,
    Word,
    data_class,
    messages,
    model,
    of,
    struct,
)
from tests.fixtures.pairs import effort

SERIALIZERS: Final[list[rowbus.Serializer]] = [
    rowbus.Json(),
    rowbus.Json(rename="pascal"),
    rowbus.Json(rename="camel", ignore_case=True),
    rowbus.Xml(),
    rowbus.Xml(rename="pascal"),
    rowbus.MessagePack(),
]


# -------------------------------------------------------------------------------------------------------------- tests


def same(one: Any, other: Any) -> bool:  # noqa: ANN401 - any value of a body
    """Say whether two values are equal, and of equal types."""
    if type(one) is not type(other):
        return False
    if isinstance(one, (list, tuple)):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, dict):
        pairs = zip(sorted(one.items(), key=repr), sorted(other.items(), key=repr), strict=False)
        return len(one) == len(other) and all(same(*pair) for pair in pairs)
    names = getattr(one, "__struct_fields__", None) or getattr(one, "__dict__", None)
    if names and not isinstance(one, Enum):
        return all(same(getattr(one, name), getattr(other, name)) for name in names)
    return bool(one == other)


def trip(message: object, serializer: rowbus.Serializer) -> None:
    """Read a message back; raises ConfigurationError."""
    read = serializer.reader(type(message))
    body = serializer.write(message, ("Shop.Message",))
    found = read(body)
    assert same(found, message), (serializer, body, found)


def check(message: object) -> None:
    named = re.compile("|".join((*ATTRIBUTES, "inside")))
    for serializer in SERIALIZERS:
        try:
            trip(message, serializer)
        except ConfigurationError as error:
            if named.search(str(error)) is None:
                raise AssertionError("the refusal names no field") from error


CHECKS: Final = list(HealthCheck)


@given(messages())
@settings(
    max_examples=50, deadline=None, suppress_health_check=CHECKS, phases=[Phase.explicit, Phase.generate]
)
def test_a_body_is_read_back_or_its_class_is_refused(message: object) -> None:
    check(message)


@pytest.mark.slow
@pytest.mark.timeout(7_200)
@given(messages())
@settings(max_examples=effort(500, 20_000), deadline=None, suppress_health_check=CHECKS)
def test_bodies_of_many_classes_are_read_back_or_refused(message: object) -> None:
    check(message)


MEMBERS: Final[dict[type, tuple[Any, ...]]] = {
    Bits: (Bits.A, Bits.A | Bits.B),
    Word: tuple(Word),
    Number: tuple(Number),
    timedelta: (timedelta(days=1), timedelta(microseconds=1), timedelta()),
    Decimal: (Decimal("1.5"), Decimal(5)),
    bytes: (b"\xff\x00",),
    UUID: (UUID(int=7),),
    datetime: (datetime(2020, 1, 1, tzinfo=UTC),),
    date: (date(2020, 1, 1),),
    time: (time(1, 2),),
    str: ("x", ""),
    int: (3,),
    float: (1.5, 2.0),
    bool: (True,),
}


def test_a_value_of_each_union_of_two_types_is_read_back_or_its_class_refused() -> None:
    for one, other in itertools.permutations(MEMBERS, 2):
        fields = {"first": Shape(of(Union, one, other), st.nothing())}
        for make in MESSAGES:
            kind = make("Union", Parts(fields)).annotation
            for value in (*MEMBERS[one], *MEMBERS[other]):
                check(kind(first=value))


@dataclasses.dataclass
class Line:
    sku: str
    price: Decimal = Decimal("1.50")
    wait: timedelta = timedelta(days=1)
    photo: bytes = b"\xff\x00"


class LineModel(pydantic.BaseModel):
    sku: str = pydantic.Field(alias="theSku")
    price: Decimal = Decimal("1.50")
    wait: timedelta = timedelta(days=1)
    photo: bytes = b"\xff\x00"


class Pause(pydantic.BaseModel):
    seconds: int = 0


class Stop(pydantic.BaseModel):
    reason: bytes


class Left(pydantic.BaseModel):
    side: Literal["left"] = "left"
    far: timedelta = timedelta(days=2)


class Right(pydantic.BaseModel):
    side: Literal["right"] = "right"
    far: Decimal = Decimal(1)


def holding(annotation: Any, make: Make = model, **parts: Any) -> Any:  # noqa: ANN401 - any type, and the class made
    return make("Order", Parts({"item": Shape(annotation, st.none())}, **parts)).annotation


ROOT: Final[Any] = pydantic.RootModel[timedelta]


@every(
    "message",
    [
        holding(Line)(item=Line("A1")),
        holding(LineModel, data_class)(item=LineModel(theSku="A1")),
        holding(LineModel, struct)(item=LineModel(theSku="A1")),
        holding(of(list, Line))(item=[Line("A1")]),
        holding(of(Box, LineModel), data_class)(item=Box(LineModel(theSku="A1"))),
        holding(of(dict, Decimal, int), data_class)(item={Decimal("1.50"): 1}),
        holding(of(dict, timedelta, int))(item={timedelta(days=2): 1}),
        holding(of(Union, str, None), data_class)(item=None),
        holding(of(Union, ROOT, None), data_class)(item=ROOT(timedelta(days=1))),
        holding(of(tuple, int, str), data_class)(item=(1, "a")),
        holding(of(tuple, int, str), config={"strict": True})(item=(1, "a")),
    ],
)
def test_classes_within_classes_are_read_back_whatever_library_makes_them(message: object) -> None:
    for serializer in SERIALIZERS:
        trip(message, serializer)


@every(
    "message",
    [
        holding(of(Union, Left, Right))(item=Right(far=Decimal("2.50"))),
        holding(of(Union, Left, Right))(item=Left()),
        holding(of(Union, Line, Stop))(item=Stop(reason=b"\xff\x00")),
        holding(of(Union, timedelta, int))(item=timedelta(days=3)),
        holding(of(Union, ROOT, int))(item=ROOT(timedelta(days=3))),
    ],
)
def test_a_union_is_read_back_by_what_tells_its_members_apart(message: object) -> None:
    for serializer in SERIALIZERS:
        if isinstance(serializer, rowbus.Xml):
            with pytest.raises(ConfigurationError, match=r"Order\.item is a union, and XML"):
                trip(message, serializer)
        else:
            trip(message, serializer)


def test_a_body_without_what_tells_a_unions_members_apart_is_read_as_the_one_that_knows_most_of_it() -> None:
    class Shipment(pydantic.BaseModel):
        kind: Literal["sent"] = "sent"
        the_sku: str

    class Loss(Shipment):
        kind: Literal["lost"] = "lost"  # type: ignore[assignment] # pyright: ignore[reportIncompatibleVariableOverride]
        the_reason: str = ""

    read: Any = rowbus.Json(rename="pascal").reader(holding(of(Union, Shipment, Loss)))

    assert read(b'{"Item":{"TheSku":"A1"}}').item == Shipment(the_sku="A1")
    assert read(b'{"Item":{"TheSku":"A1","TheReason":"b"}}').item == Loss(the_sku="A1", the_reason="b")


def test_a_dataclass_in_a_model_has_the_names_and_forms_that_dotnet_reads() -> None:
    body = rowbus.Json(rename="pascal").write(holding(Line)(item=Line("A1")))
    assert body == b'{"Item":{"Sku":"A1","Price":1.50,"Wait":"1.00:00:00","Photo":"/wA="}}'


@every(
    "kind, reason",
    [
        (holding(of(Union, Pause, Stop)), "is a union of types that look alike"),
        (holding(of(Union, timedelta, str)), "is a union of types that look alike"),
        (holding(of(Union, Pause, of(dict, str, int))), "is a union of types that look alike"),
        (holding(pydantic.SecretStr), "is a secret, which pydantic writes as asterisks"),
        (holding(pydantic.SecretBytes, data_class), "is a secret, which pydantic writes as asterisks"),
        (holding(of(dict, bytes, int)), "has keys that have no text in a body"),
        (holding(BoxStruct[int]), r"is a msgspec\.Struct in a pydantic model"),
        (holding(Line, config={"strict": True}), "is a dataclass in a strict pydantic model"),
        (holding(re.Pattern, data_class), "is a Pattern, which msgspec cannot read"),
    ],
)
def test_a_class_that_could_not_be_read_back_is_refused_with_its_field(kind: type, reason: str) -> None:
    for serializer in SERIALIZERS:
        if "union" not in reason or not isinstance(serializer, rowbus.Xml):
            with pytest.raises(ConfigurationError, match=rf"Order\.item {reason}"):
                serializer.reader(kind)


def test_a_model_that_reads_by_other_names_than_it_writes_is_refused() -> None:
    class Order(pydantic.BaseModel):
        model_config = pydantic.ConfigDict(serialize_by_alias=True)
        item: int = pydantic.Field(validation_alias="theItem", serialization_alias="anItem")

    with pytest.raises(ConfigurationError, match=r"Order\.item is written as 'anItem' and read as theItem"):
        rowbus.Json().reader(Order)


def test_keys_of_a_dictionary_are_text_in_json() -> None:
    assert rowbus.Json().write({"a": {Decimal("1.50"): [1, 2]}}) == b'{"a":{"1.50":[1,2]}}'


# ------------------------------------------------------------------------------------------- classes that have changed


def version(make: Make, **fields: Shape) -> Any:  # noqa: ANN401 - a class
    return make("Order", Parts(fields, {"note": lambda: None})).annotation


NUMBER, NOTE = Shape(int, st.none()), Shape(of(Union, str, None), st.none())


@every("make", MESSAGES)
@every("serializer", [rowbus.Json(), rowbus.Xml(), rowbus.MessagePack()])
def test_old_and_new_receivers_get_what_the_table_on_the_page_says(make: Make, serializer: Any) -> None:  # noqa: ANN401
    def becomes(message: object, kind: Any) -> Any:  # noqa: ANN401
        return serializer.reader(kind)(serializer.write(message, ("Shop.Order",)))

    bare, noted = version(make, number=NUMBER), version(make, number=NUMBER, note=NOTE)
    assert becomes(bare(number=1), noted) == noted(number=1, note=None)
    assert becomes(noted(number=1, note="x"), bare) == bare(number=1)

    optional = make("Order", Parts({"number": Shape(of(Union, int, None), st.none())})).annotation
    assert becomes(optional(number=1), bare) == bare(number=1)
    assert becomes(bare(number=1), optional) == optional(number=1)
    with pytest.raises((msgspec.ValidationError, pydantic.ValidationError)):
        becomes(optional(number=None), bare)


@every("serializer", [rowbus.Json(), rowbus.Xml(), rowbus.MessagePack()])
def test_a_renamed_field_that_keeps_its_name_in_bodies_is_read_by_both(serializer: Any) -> None:  # noqa: ANN401
    class Old(msgspec.Struct):
        total: int

    class New(msgspec.Struct):
        amount: int = msgspec.field(name="total")

    class NewModel(pydantic.BaseModel):
        amount: int = pydantic.Field(alias="total")

    for new in (New(amount=5), NewModel(total=5)):
        assert serializer.reader(Old)(serializer.write(new, ("Shop.Order",))) == Old(total=5)
        assert serializer.reader(type(new))(serializer.write(Old(total=5), ("Shop.Order",))) == new
