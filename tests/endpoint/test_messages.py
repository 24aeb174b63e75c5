"""Kinds of messages that an endpoint takes from its queue, and what becomes of those that it cannot take."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

import msgspec
import pydantic
import pytest

import rowbus
from rowbus.messages.headers import Header
from tests.conformance.endpoints import ERROR, Endpoints
from tests.conformance.transport import eventually, headers_text, in_all_modes_failing, within

pytestmark = [
    pytest.mark.only("PostgreSQL", reason="it looks into PostgreSQL's tables"),
    pytest.mark.one_version,
]

NAME = "Shop.Messages.PlaceOrder"
ASSEMBLY_QUALIFIED = f"{NAME}, Shop.Messages, Version=1.0.0.0, Culture=neutral, PublicKeyToken=null"
BODY = '{"order_id":"Żółw","total":9.5,"added_later":[1,{}]}'.encode()
BOM = b"\xef\xbb\xbf"


@rowbus.command(NAME)
@dataclass
class AsDataclass:
    order_id: str
    total: float


@rowbus.command(NAME)
class AsStruct(msgspec.Struct):
    order_id: str
    total: float


@rowbus.command(NAME)
class AsModel(pydantic.BaseModel):
    order_id: str
    total: float


KINDS: dict[Any, Any] = {
    AsDataclass: AsDataclass("Żółw", 9.5),
    AsStruct: AsStruct("Żółw", 9.5),
    AsModel: AsModel(order_id="Żółw", total=9.5),
    dict: {"order_id": "Żółw", "total": 9.5, "added_later": [1, {}]},
    bytes: BODY,
}


def taking(endpoints: Endpoints, kind: type) -> tuple[rowbus.Endpoint, asyncio.Queue[Any]]:
    received: asyncio.Queue[Any] = asyncio.Queue()
    sales = endpoints.make("Sales", recoverability=rowbus.Recoverability(immediate=0, delayed=0))

    async def take(message: object) -> None:
        await received.put(message)

    take.__annotations__["message"] = kind
    sales.handler(NAME)(take)
    return sales, received


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: str(kind.__name__))
@pytest.mark.parametrize(
    "types", [NAME, ASSEMBLY_QUALIFIED, f"{NAME};Shop.Messages.IOrder"], ids=["name", "aqn", "parents"]
)
async def test_a_body_becomes_what_its_handler_asks_for(endpoints: Endpoints, kind: type, types: str) -> None:
    sales, received = taking(endpoints, kind)
    async with sales:
        await endpoints.backend.insert(
            sales.address,
            headers_text(
                NServiceBus__EnclosedMessageTypes=types, NServiceBus__ContentType="application/json"
            ),
            BODY,
        )
        message = await within(received.get())
    assert type(message) is kind
    assert message == KINDS[kind]


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: str(kind.__name__))
async def test_a_byte_order_mark_is_stripped_except_for_handlers_of_bytes(
    endpoints: Endpoints, kind: type
) -> None:
    sales, received = taking(endpoints, kind)
    async with sales:
        await endpoints.backend.insert(
            sales.address, headers_text(NServiceBus__EnclosedMessageTypes=NAME), BOM + BODY
        )
        message = await within(received.get())
    assert message == (BOM + BODY if kind is bytes else KINDS[kind])


async def moved(
    endpoints: Endpoints, sales: rowbus.Endpoint, headers: str, body: bytes
) -> dict[str, str | None]:
    """Have a row received that must fail, and return the headers of its copy in the error queue."""

    async def is_there() -> bool:
        return await endpoints.backend.count(ERROR) == 1

    async with sales:
        await endpoints.backend.insert(sales.address, headers, body)
        await eventually(is_there)
    (row,) = await endpoints.backend.rows(ERROR)
    assert row.body == body
    return row.headers


@in_all_modes_failing
async def test_an_unknown_type_goes_to_the_error_queue_with_what_is_handled_here(
    endpoints: Endpoints,
) -> None:
    sales, received = taking(endpoints, dict)
    headers = headers_text(NServiceBus__EnclosedMessageTypes="Shop.Messages.Other, Shop;Shop.Messages.IOther")

    failure = await moved(endpoints, sales, headers, BODY)

    assert failure[Header.EXCEPTION_TYPE] == "rowbus.errors.UnknownMessageTypeError"
    assert failure[Header.INNER_EXCEPTION_TYPE] == "LookupError"
    assert failure[Header.EXCEPTION_MESSAGE] == (
        "No handler for Shop.Messages.Other or Shop.Messages.IOther; handled here: Shop.Messages.PlaceOrder."
    )
    assert received.empty()


@pytest.mark.parametrize("kind", [AsDataclass, AsStruct, AsModel, dict], ids=lambda kind: str(kind.__name__))
@pytest.mark.parametrize("content_type", ["text/xml", "application/json", None])
async def test_a_body_that_is_not_json_goes_to_the_error_queue_whatever_it_says_it_is(
    endpoints: Endpoints, kind: type, content_type: str | None
) -> None:
    sales, received = taking(endpoints, kind)
    headers = headers_text(
        NServiceBus__EnclosedMessageTypes=NAME,
        **({} if content_type is None else {"NServiceBus__ContentType": content_type}),
    )

    failure = await moved(endpoints, sales, headers, b"<PlaceOrder/>")

    assert failure[Header.EXCEPTION_TYPE] == "rowbus.errors.MessageDeserializationError"
    assert str(failure[Header.EXCEPTION_MESSAGE]).startswith(f"The body is not a {NAME}")
    assert received.empty()


async def test_any_content_type_reaches_a_handler_of_bytes(endpoints: Endpoints) -> None:
    sales, received = taking(endpoints, bytes)
    async with sales:
        headers = headers_text(NServiceBus__EnclosedMessageTypes=NAME, NServiceBus__ContentType="text/xml")
        await endpoints.backend.insert(sales.address, headers, b"<PlaceOrder/>")
        assert await within(received.get()) == b"<PlaceOrder/>"


# --- handlers that cannot be


def test_a_handler_takes_a_message_and_perhaps_a_context() -> None:
    async def without() -> None: ...

    async def with_three(message: AsDataclass, context: rowbus.Context, more: int) -> None: ...

    with pytest.raises(rowbus.ConfigurationError, match=r"must take \(message\) or \(message, context\)"):
        rowbus.Endpoint("Sales").handler(without)  # type: ignore[type-var]  # pyright: ignore[reportArgumentType, reportCallIssue]
    with pytest.raises(
        rowbus.ConfigurationError, match="'more' is of type int, which the endpoint does not provide"
    ):
        rowbus.Endpoint("Sales").handler(with_three)


def test_a_handler_says_which_message_it_takes() -> None:
    async def of_a_dict(message: dict[str, Any]) -> None: ...

    async def of_bytes(message: bytes) -> None: ...

    async def of_nothing(message) -> None: ...  # type: ignore[no-untyped-def]  # noqa: ANN001 - what is refused

    for function in (of_a_dict, of_bytes, of_nothing):
        with pytest.raises(rowbus.ConfigurationError, match="say which message it takes"):
            rowbus.Endpoint("Sales").handler(function)


def test_a_handler_of_what_is_no_message_is_refused() -> None:
    async def of_a_number(message: int) -> None: ...

    with pytest.raises(rowbus.ConfigurationError, match="must be a dataclass"):
        rowbus.Endpoint("Sales").handler(of_a_number)
