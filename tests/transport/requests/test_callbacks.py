"""Requests beside .NET's callbacks, against the rows that its endpoints wrote: all three kinds of answer, both ways."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

import pytest

import rowbus
from rowbus.messages.headers import Header, decode_headers, encode_headers
from rowbus.messages.message_types import contract_of
from tests.conformance.endpoints import NO_RETRIES, Endpoints
from tests.conformance.transport import LIMIT, eventually
from tests.fixtures.dotnet_rows import Row, rows
from tests.fixtures.shop_types import Colour
from tests.transport.requests.conftest import Clients

ASKER = "Web.web01"


@rowbus.message("Shop.StockLevel")
@dataclass
class StockLevel:
    Sku: str
    Available: int


@rowbus.command("Shop.CheckStock")
@dataclass
class CheckStock:
    Sku: str


@rowbus.command("Shop.AskNumber")
@dataclass
class AskNumber:
    Question: str


@rowbus.command("Shop.AskColour")
@dataclass
class AskColour:
    Question: str


KINDS = [
    (CheckStock("A1"), StockLevel, StockLevel("A1", 5)),
    (AskNumber("how many"), int, 42),
    (AskColour("which"), Colour, Colour.Blue),
]


def name_of(message: object) -> str:
    kind: type = type(message)
    return contract_of(kind).name


def pair(request: object) -> tuple[Row, Row]:
    """Return .NET's request of a type, and .NET's answer to it."""
    name = name_of(request)
    sent = [row for row in rows("callbacks") if row.headers]
    asked = next(row for row in sent if row.table == "Sales" and name in enclosed(row))
    assert asked.headers is not None
    asked_id = asked.headers[Header.MESSAGE_ID]
    answered = next(
        row
        for row in sent
        if row.table == ASKER and row.headers and row.headers.get(Header.CORRELATION_ID) == asked_id
    )
    return asked, answered


def enclosed(row: Row) -> str:
    return (row.headers or {}).get(Header.ENCLOSED_MESSAGE_TYPES) or ""


@pytest.mark.parametrize("request_, kind, answer", KINDS, ids=["message", "int", "enum"])
async def test_python_asks_and_takes_the_answers_of_dotnet(
    endpoints: Endpoints, clients: Clients, request_: object, kind: type[object], answer: object
) -> None:
    theirs, reply = pair(request_)
    backend = endpoints.backend
    await backend.create_queue("Sales")

    async with clients.make() as client:
        asking: asyncio.Future[object] = asyncio.ensure_future(
            client.request("Sales", request_, kind, timeout=LIMIT)
        )

        async def asked() -> bool:
            return await backend.count("Sales") == 1

        await eventually(asked)
        (ours,) = await backend.rows("Sales")
        headers = decode_headers(reply.headers_text)
        headers[Header.CORRELATION_ID] = headers[Header.RELATED_TO] = ours.headers[Header.MESSAGE_ID]
        queue = backend.read(ours.headers[Header.REPLY_TO_ADDRESS] or "")
        await backend.insert(queue, encode_headers(headers), reply.body)
        assert await asking == answer

    assert theirs.headers is not None
    assert set(ours.headers) == set(theirs.headers)
    assert ours.headers[Header.MESSAGE_INTENT] == theirs.headers[Header.MESSAGE_INTENT] == "Send"
    assert ours.headers[Header.CORRELATION_ID] == ours.headers[Header.MESSAGE_ID]


@pytest.mark.parametrize("request_, kind, answer", KINDS, ids=["message", "int", "enum"])
async def test_python_answers_the_requests_of_dotnet_as_dotnet_does(
    endpoints: Endpoints, request_: object, kind: type, answer: object
) -> None:
    asked, theirs = pair(request_)
    backend = endpoints.backend
    sales = endpoints.make("Sales", recoverability=NO_RETRIES)
    address = backend.queue(ASKER)

    @sales.handler(name_of(request_))
    async def reply(message: dict[str, Any], context: rowbus.Context) -> None:
        await context.reply(answer)

    await backend.create_queue(address)
    headers = decode_headers(asked.headers_text)
    headers[Header.REPLY_TO_ADDRESS] = str(address)
    async with sales:
        await backend.insert("Sales", encode_headers(headers), asked.body)

        async def answered() -> bool:
            return await backend.count(address) == 1

        await eventually(answered)

    (ours,) = await backend.rows(address)
    assert theirs.headers is not None
    assert set(ours.headers) == set(theirs.headers)
    assert ours.body == theirs.body
    same = (
        Header.MESSAGE_INTENT,
        Header.CORRELATION_ID,
        Header.CONVERSATION_ID,
        Header.RELATED_TO,
        Header.CONTROL_MESSAGE,
        Header.RETURN_MESSAGE_ERROR_CODE,
        Header.CONTENT_TYPE,
    )
    assert [ours.headers.get(name) for name in same] == [theirs.headers.get(name) for name in same]
