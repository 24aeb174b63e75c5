"""Addresses without a schema mean the reader's own one, as in .NET."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Any

import pytest

import rowbus
from rowbus.messages.headers import Header, encode_copied_headers
from rowbus.messages.timestamps import format_timestamp
from tests.conformance.endpoints import NO_RETRIES, Endpoints, OrderAccepted
from tests.conformance.transport import eventually, within
from tests.fixtures.dotnet_rows import rows

SALES = "Sales"


class OtherSchema:
    """The endpoint Sales in a schema that is not the default one, with queues beside it."""

    def __init__(self, endpoints: Endpoints, schema: str) -> None:
        self.backend = endpoints.backend
        self.schema = schema
        self.orders: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self.endpoint = endpoints.make(SALES, schema=schema, recoverability=NO_RETRIES)

        @self.endpoint.handler("Shop.PlaceOrder")
        async def place_order(message: dict[str, Any], context: rowbus.Context) -> None:
            if context.reply_to is not None:
                await context.reply(OrderAccepted(message["OrderId"]))
            await self.orders.put(message)

    def queue(self, name: str) -> rowbus.QueueAddress:
        return self.backend.queue(name, self.schema)

    async def has_one(self, name: str) -> None:
        async def one() -> bool:
            return await self.backend.count(self.queue(name)) == 1

        await eventually(one)


@pytest.fixture
async def other(endpoints: Endpoints) -> AsyncIterator[OtherSchema]:
    other = OtherSchema(endpoints, await endpoints.backend.create_schema("nsb"))
    for name in ("Returns", "Web", "error"):
        await endpoints.backend.create_queue(other.queue(name))
    async with other.endpoint:
        yield other


def _headers(changes: dict[str, str]) -> str:
    """Return the headers of .NET's message with RouteReplyTo("Returns"), changed."""
    (sent, *_) = [row for row in rows("schema-nsb") if row.table == "Sales"]
    assert sent.headers is not None
    assert sent.headers[Header.REPLY_TO_ADDRESS] == "Returns"
    return encode_copied_headers({**sent.headers, **changes})


BODY = json.dumps({"OrderId": "6f9619ff-8b86-d011-b42d-00cf4fc964ff"}).encode()


async def test_a_reply_to_an_address_without_a_schema_goes_to_the_receivers_schema(
    other: OtherSchema,
) -> None:
    await other.backend.insert(other.queue(SALES), _headers({}), BODY)

    await other.has_one("Returns")
    assert await other.backend.count(other.queue("error")) == 0


async def test_a_delayed_message_for_an_address_without_a_schema_is_delivered_in_its_own_schema(
    other: OtherSchema,
) -> None:
    due = {
        Header.FORWARD_DESTINATION: SALES,
        Header.DELIVER_AT: format_timestamp(datetime.now(UTC)),
        Header.REPLY_TO_ADDRESS: str(other.queue("Web")),
    }
    await other.backend.insert_delayed(other.queue("Sales.Delayed"), _headers(due), BODY, due_in=0)

    assert (await within(other.orders.get()))["OrderId"] == "6f9619ff-8b86-d011-b42d-00cf4fc964ff"
    await other.has_one("Web")
    assert await other.backend.count(other.queue("error")) == 0


async def test_a_message_to_be_forwarded_to_an_address_without_a_schema_stays_in_the_receivers_schema(
    other: OtherSchema,
) -> None:
    await other.backend.insert(other.queue(SALES), _headers({Header.FORWARD_DESTINATION: "Web"}), BODY)

    await other.has_one("Web")
    (row,) = await other.backend.rows(other.queue("Web"))
    assert Header.FORWARD_DESTINATION not in row.headers
