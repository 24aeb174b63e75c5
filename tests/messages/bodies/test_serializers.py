"""Several serializers: the content type decides, and what none is for goes to the main one."""

from __future__ import annotations

import asyncio
import pickle
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import msgspec
import pydantic
import pytest

import rowbus
from rowbus.errors import ConfigurationError, MessageDeserializationError
from rowbus.messages.bodies.serializer import Serializers, essence
from rowbus.messages.message_types import Deserializer, command, event, message, serialize
from rowbus.testing import run_handlers
from tests.fixtures.every import every

JSON, XML, PACK = rowbus.Json(), rowbus.Xml(), rowbus.MessagePack()
ALL = Serializers([JSON, XML, PACK])


@command("Shop.PlaceOrder")
@dataclass
class PlaceOrder:
    order_id: str
    total: Decimal = Decimal(0)
    wait: timedelta = timedelta()
    at: datetime | None = None


class Struct(msgspec.Struct):
    order_id: str
    total: Decimal = Decimal(0)


class Model(pydantic.BaseModel):
    order_id: str
    total: Decimal = Decimal(0)


@every(
    "content_type, chosen",
    [
        ("application/json", JSON),
        ("APPLICATION/JSON; charset=utf-8", JSON),
        ("text/xml", XML),
        ("application/xml;charset=utf-8", XML),
        ("application/x-msgpack", PACK),
        ("application/bson", JSON),
        ("", JSON),
        (None, JSON),
    ],
)
def test_the_content_type_decides_and_the_main_one_takes_the_rest(
    content_type: str | None, chosen: object
) -> None:
    assert ALL.chosen(content_type) is chosen


def test_a_content_type_without_its_parameters() -> None:
    assert essence(" Text/XML ; charset=utf-8") == "text/xml"


@every("serializers", [[], [rowbus.Json(), rowbus.Json()]])
def test_no_serializer_or_two_of_one_content_type_are_refused(serializers: Any) -> None:  # noqa: ANN401
    with pytest.raises(ConfigurationError, match="serializer"):
        rowbus.Endpoint("Sales", database="postgresql://nowhere", serializers=serializers)


ORDER = PlaceOrder("Ż", Decimal("10.00"), timedelta(days=1, seconds=1.5), datetime(2026, 1, 1, tzinfo=UTC))


@every("serializer", [JSON, XML, PACK])
@every("order", [ORDER, Struct("Ż", Decimal("10.00")), Model(order_id="Ż", total=Decimal("10.00"))])
def test_what_one_has_written_it_reads(serializer: rowbus.Serializer, order: Any) -> None:  # noqa: ANN401
    content = serialize(order, serializer=serializer)

    assert content.content_type == serializer.content_types[0]
    found = Deserializer(type(order), "Shop.PlaceOrder", ALL)(content.body, content.content_type)
    assert found == order
    assert str(found.total) == "10.00"  # type: ignore[attr-defined]


@every("body", [b"", b"\xc1", b"\x81", b"[]"])
def test_what_is_no_messagepack_is_refused(body: bytes) -> None:
    with pytest.raises(MessageDeserializationError):
        Deserializer(PlaceOrder, "Shop.PlaceOrder", ALL)(body, "application/x-msgpack")


def test_a_failure_names_a_content_type_for_which_there_is_no_serializer() -> None:
    with pytest.raises(MessageDeserializationError, match=r"text/xml.*no serializer here.*application/json"):
        Deserializer(PlaceOrder, "Shop.PlaceOrder")(b"<PlaceOrder/>", "text/xml")


def test_json_under_another_content_type_is_read_all_the_same() -> None:
    assert Deserializer(PlaceOrder, "Shop.PlaceOrder")(b'{"order_id":"1"}', "text/xml") == PlaceOrder("1")


class Pickled:
    """A serializer of a user's own; never do this: pickle executes what it reads."""

    content_types = ("application/x-pickle",)

    def write(self, message: object, types: tuple[str, ...]) -> bytes:
        return pickle.dumps((types, message))

    def reader(self, kind: type) -> Callable[[bytes], object]:
        def read(body: bytes) -> object:
            _, found = pickle.loads(body)  # noqa: S301
            assert isinstance(found, kind)
            return found

        return read


def test_a_serializer_of_ones_own_reads_and_writes() -> None:
    sales = rowbus.Endpoint("Sales", database="postgresql://nowhere", serializers=[Pickled(), JSON])
    handled: list[PlaceOrder] = []

    @sales.handler
    async def place_order(message: PlaceOrder, context: rowbus.Context) -> None:
        handled.append(message)
        await context.send("Billing", message)

    outcome = asyncio.run(run_handlers(sales, ORDER))

    assert handled == [ORDER]
    (sent,) = outcome.sends
    assert sent.headers[rowbus.Header.CONTENT_TYPE] == "application/x-pickle"
    assert pickle.loads(sent.body) == (("Shop.PlaceOrder",), ORDER)  # noqa: S301


def test_an_endpoint_sends_in_its_main_format() -> None:
    sales = rowbus.Endpoint(
        "Sales", database="postgresql://nowhere", serializers=[rowbus.Json(rename="pascal")]
    )

    @sales.handler
    async def place_order(message: PlaceOrder, context: rowbus.Context) -> None:
        await context.send("B", message)

    outcome = asyncio.run(run_handlers(sales, PlaceOrder("1")))

    assert outcome.sends[0].body.startswith(b'{"OrderId":"1","Total":0,')


@every("parent", ["NServiceBus.ICommand", "NServiceBus.IEvent", "NServiceBus.IMessage"])
@every("declare", [command, event, message])
def test_a_marker_interface_of_dotnet_is_no_parent(declare: Any, parent: str) -> None:  # noqa: ANN401
    with pytest.raises(ConfigurationError, match=f"{parent} cannot be a parent of Shop.PlaceOrder"):
        declare("Shop.PlaceOrder", parents=("Shop.IOrder", parent))
