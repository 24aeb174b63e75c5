"""Forms of rows that no recorded row has, by what .NET endpoints were seen to do with them.

Source: docs/wire-format.md#message-types, docs/wire-format.md#headers.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from typing import Any, Final

import pytest

import rowbus
from rowbus.messages.headers import Header
from tests.conformance.endpoints import ERROR, NO_RETRIES, Endpoints
from tests.conformance.transport import eventually, within

pytestmark = pytest.mark.one_version

ORDER: Final = "Shop.Messages.PlaceOrder"
BASE: Final = "Shop.Messages.OrderBase"
NAMED: Final = {Header.ENCLOSED_MESSAGE_TYPES: ORDER}
BODY: Final = b'{"OrderId":"1"}'
VERSIONED: Final = f"{ORDER}, Shop.Messages, Version=2.3.4.5, Culture=neutral, PublicKeyToken=null"

Headers = dict[str, str | None]


class Reader:
    """An endpoint with a handler of a type, one of its base, and no retries."""

    def __init__(self, endpoints: Endpoints) -> None:
        self.backend = endpoints.backend
        self.endpoint = endpoints.make("Reader", recoverability=NO_RETRIES)
        self.handled: asyncio.Queue[tuple[str, dict[str, Any], rowbus.Context]] = asyncio.Queue()

        @self.endpoint.handler(ORDER)
        async def order(message: dict[str, Any], context: rowbus.Context) -> None:
            await self.handled.put((ORDER, message, context))

        @self.endpoint.handler(BASE)
        async def base(message: dict[str, Any], context: rowbus.Context) -> None:
            await self.handled.put((BASE, message, context))

    async def read(self, headers: Mapping[str, str | None] | str, body: bytes = BODY) -> list[str]:
        """Return whose handlers a row reached."""
        text = headers if isinstance(headers, str) else json.dumps(headers)
        await self.backend.insert(self.endpoint.address, text, body)

        async def done() -> bool:
            return await self.backend.count(self.endpoint.address) == 0

        await eventually(done)
        self.seen = [self.handled.get_nowait() for _ in range(self.handled.qsize())]
        return [type for type, _, _ in self.seen]

    async def reason(self) -> str:
        """Return why the latest failure has failed."""
        rows = await self.backend.rows(ERROR)
        return str(rows[-1].headers[Header.EXCEPTION_MESSAGE])


@pytest.fixture
async def reader(endpoints: Endpoints) -> AsyncIterator[Reader]:
    reader = Reader(endpoints)
    async with reader.endpoint:
        yield reader


TYPES: Final = [
    (VERSIONED, [ORDER]),
    (f"  {ORDER} , Other.Assembly ", [ORDER]),
    (f"{VERSIONED};{BASE}, Shop", [ORDER, BASE]),
    (f"{BASE};{ORDER}", [BASE, ORDER]),
    (f"Shop.Unknown, Shop;{ORDER}", [ORDER]),
    (f"{ORDER};Shop.Unknown, Shop", [ORDER]),
    (f"{ORDER}__impl, __dynamic;{ORDER}", [ORDER]),
]


async def test_a_type_is_known_by_its_full_name(reader: Reader) -> None:
    for types, handlers in TYPES:
        assert sorted(await reader.read({Header.ENCLOSED_MESSAGE_TYPES: types})) == sorted(handlers), types
    assert await reader.backend.count(ERROR) == 0


NO_TYPES: Final[dict[str | None, str]] = {
    ORDER.lower(): "No handler for",
    "PlaceOrder": "No handler for",
    f"{ORDER}.Nested": "No handler for",
    "Shop.Unknown, Shop": "No handler for",
    "": "does not say what it is",
    ";;": "has an empty name among its types",
    f"{ORDER};": "has an empty name among its types",
    None: "does not say what it is",
}


async def test_a_type_that_is_not_known_is_refused_with_the_reason(reader: Reader) -> None:
    for types, reason in NO_TYPES.items():
        assert await reader.read({Header.ENCLOSED_MESSAGE_TYPES: types}) == []
        assert reason in await reader.reason(), types


ODD: Final[list[Headers]] = [
    {Header.MESSAGE_INTENT: "publish"},
    {Header.MESSAGE_INTENT: "nonsense"},
    {Header.MESSAGE_INTENT: None},
    {Header.MESSAGE_ID: ""},
    {Header.MESSAGE_ID: "m" * 250},  # which .NET's own outbox could not keep
    {Header.MESSAGE_ID: 'Żółw / "1" \'; drop table \U0001f680'},
    {Header.TIME_SENT: "23.11.2026 07:00:00"},
    {Header.TIME_SENT: "11/23/2026 7:00:00 AM"},
    {Header.TIME_SENT: "2026-11-23T07:00:00Z"},
    {Header.TIME_SENT: ""},
    {Header.TIME_TO_BE_RECEIVED: "a while"},
    {Header.CONTROL_MESSAGE: "False"},
    {Header.CONTENT_TYPE: ""},
    {Header.CONTENT_TYPE: "application/json; charset=utf-8"},
    {Header.REPLY_TO_ADDRESS: "Nobody@[x"},
    {Header.CONVERSATION_ID: "x" * 100_000},
    {"NServiceBus.NonDurableMessage": "True", "NServiceBus.FLRetries": "3", "WinIdName": "DOMAIN\\user"},
    {"NServiceBus.DataBus.key": "key", "NServiceBus.DataBusConfig.ContentType": "application/json"},
    {"NServiceBus.OriginatingSagaId": "{6F9619FF-8B86-D011-B42D-00CF4FC964FF}"},
    {"": "no name", "Ż \t\n": "\u0000\u001f\u2028\ufeff\U0001f680", "empty": "", "null": None},
    {f"header {number}": "x" for number in range(2_000)},
]


async def test_headers_that_are_odd_stop_no_message_and_arrive_as_they_were(reader: Reader) -> None:
    for headers in ODD:
        sent = {Header.MESSAGE_ID: "1", **NAMED, **headers}
        assert await reader.read(sent) == [ORDER]
        (_, message, context) = reader.seen[0]
        assert message == {"OrderId": "1"}
        assert dict(context.headers) == {
            **sent,
            Header.MESSAGE_ID: sent[Header.MESSAGE_ID] or context.message_id,
        }


async def test_names_of_headers_that_differ_in_case_are_different_ones(reader: Reader) -> None:
    sent = {
        **NAMED,
        Header.MESSAGE_ID: "1",
        Header.MESSAGE_ID.lower(): "2",
        "NSERVICEBUS.CONTROLMESSAGE": "True",
    }
    assert await reader.read(sent) == [ORDER]
    (_, _, context) = reader.seen[0]
    assert context.message_id == "1"
    assert dict(context.headers) == sent


async def test_of_a_header_that_is_there_twice_the_last_counts(reader: Reader) -> None:
    text = (
        f'{{"{Header.MESSAGE_ID}":"1","{Header.ENCLOSED_MESSAGE_TYPES}":"{ORDER}","{Header.MESSAGE_ID}":"2"}}'
    )
    assert await reader.read(text) == [ORDER]
    assert reader.seen[0][2].message_id == "2"


NO_HEADERS: Final = [
    "null",
    "[]",
    '{"a":1}',
    '{"a":{}}',
    '\ufeff{"a":"1"}',
    '{"a":"1"',
    '{"a":"\\ud800"}',
    "{'a':'1'}",
]


async def test_what_is_no_headers_goes_to_the_error_queue_and_the_next_message_is_handled(
    reader: Reader,
) -> None:
    for text in NO_HEADERS:
        assert await reader.read(text) == []
        assert "Not the headers of a message" in await reader.reason(), text
        assert await reader.read(NAMED) == [ORDER]


async def test_an_empty_body_is_consumed_whatever_it_says_it_is(reader: Reader) -> None:
    for content_type in ("application/json", "text/xml", "application/x-msgpack", None):
        for control in ("True", "true", None):
            headers = {**NAMED, Header.CONTENT_TYPE: content_type, Header.CONTROL_MESSAGE: control}
            assert await reader.read(headers, b"") == []
    assert await reader.backend.count(ERROR) == 0


async def test_a_property_in_the_claim_check_is_seen_as_its_key(reader: Reader) -> None:
    body = b'{"Large":{"Key":"2026-11-23_07/k","HasValue":true}}'
    assert await reader.read({**NAMED, "NServiceBus.DataBus.2026-11-23_07/k": "2026-11-23_07/k"}, body) == [
        ORDER
    ]
    assert reader.seen[0][1] == {"Large": {"Key": "2026-11-23_07/k", "HasValue": True}}


async def test_a_reply_to_a_saga_has_its_id_in_whatever_form_it_came(endpoints: Endpoints) -> None:
    await endpoints.backend.create_queue("Web")
    sales = endpoints.make("Sales")

    @sales.handler(ORDER)
    async def answer(message: dict[str, Any], context: rowbus.Context) -> None:
        await context.reply({"Done": True}, type="Shop.Messages.Done")

    saga = {
        "NServiceBus.OriginatingSagaId": "6F9619FF8B86D011B42D00CF4FC964FF",
        "NServiceBus.OriginatingSagaType": "",
    }
    headers = {**NAMED, **saga, Header.REPLY_TO_ADDRESS: endpoints.queue("Web").canonical}
    async with sales:
        await endpoints.backend.insert(sales.address, json.dumps(headers), BODY)

        async def replied() -> bool:
            return await endpoints.backend.count("Web") == 1

        await within(eventually(replied))
    (row,) = await endpoints.backend.rows("Web")
    assert row.headers["NServiceBus.SagaId"] == saga["NServiceBus.OriginatingSagaId"]
