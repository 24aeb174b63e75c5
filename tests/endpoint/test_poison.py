"""Rows that cannot be read: each ends in the error queue, complete enough for ServiceControl, and none ever loops."""

from __future__ import annotations

import json
import logging
import re
from typing import Unpack

import pytest

import rowbus
from rowbus.messages.headers import Header
from rowbus.transport.recoverability.failure_headers import RAW_HEADERS
from tests.conformance.backend import StoredRow
from tests.conformance.endpoints import ERROR, Endpoints, PlaceOrder
from tests.conformance.settings import Settings
from tests.conformance.transport import eventually, headers_text

pytestmark = pytest.mark.only("PostgreSQL", reason="it looks into PostgreSQL's tables")

UNREADABLE = {
    "not JSON": "<xml/>",
    "cut off": '{"NServiceBus.MessageId":"1',
    "JSON null": "null",
    "array": '["NServiceBus.MessageId"]',
    "string": '"text"',
    "number": "42",
    "number as value": '{"NServiceBus.MessageId":"1","a":1}',
    "boolean as value": '{"NServiceBus.MessageId":"1","a":true}',
    "object as value": '{"NServiceBus.MessageId":"1","a":{"b":"c"}}',
    "half a surrogate pair": r'{"NServiceBus.MessageId":"1","a":"\ud800"}',
    "half a surrogate pair in a name": r'{"NServiceBus.MessageId":"1","\udc00":"a"}',
    "text after it": '{"NServiceBus.MessageId":"1"}{}',
    "nested deeply": "[" * 60_000,
    "large": "x" * 60_000,
    "a byte order mark": '\ufeff{"NServiceBus.MessageId":"1"}',
    "only space": " ",
}
TIMESTAMP = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d:\d{6} Z")
GOOD = headers_text(NServiceBus__EnclosedMessageTypes="Shop.Messages.PlaceOrder")


def make_sales(endpoints: Endpoints, handled: list[str], **settings: Unpack[Settings]) -> rowbus.Endpoint:
    sales = endpoints.make("Sales", **settings)

    @sales.handler
    async def place(message: PlaceOrder) -> None:
        handled.append(message.order_id)

    return sales


async def wait_until_moved(endpoints: Endpoints, count: int = 1) -> list[StoredRow]:
    async def moved() -> bool:
        waiting = await endpoints.backend.count("Sales")
        return waiting == 0 and await endpoints.backend.count(ERROR) >= count

    await eventually(moved)
    rows = await endpoints.backend.rows(ERROR)
    assert len(rows) == count
    return rows


def assert_that_servicecontrol_can_import(row: StoredRow, message_id: str) -> None:
    headers = row.headers
    assert headers[Header.MESSAGE_ID] == message_id
    assert headers[Header.FAILED_QUEUE] == '"public"."Sales"'
    assert TIMESTAMP.fullmatch(str(headers[Header.TIME_OF_FAILURE]))
    for name in (Header.EXCEPTION_TYPE, Header.EXCEPTION_MESSAGE, Header.EXCEPTION_STACK_TRACE):
        assert headers[name]
    assert headers[Header.PROCESSING_ENDPOINT] == "Sales"
    assert row.expires_in is None


async def test_rows_with_unreadable_headers_are_moved_with_their_text_and_their_body(
    endpoints: Endpoints,
) -> None:
    handled: list[str] = []
    ids = {}
    async with make_sales(endpoints, handled) as sales:
        for kind, text in UNREADABLE.items():
            ids[kind] = await endpoints.backend.insert(
                sales.address, text, f"\0{kind}".encode(), expires_in=60
            )
        await endpoints.backend.insert(sales.address, GOOD, b'{"order_id":"next"}')
        moved = {row.body: row for row in await wait_until_moved(endpoints, len(UNREADABLE))}
        await eventually(lambda: handled == ["next"])

    for kind, text in UNREADABLE.items():
        row = moved[f"\0{kind}".encode()]
        assert_that_servicecontrol_can_import(row, ids[kind])
        assert row.headers[RAW_HEADERS] == text, kind
        assert row.headers[Header.EXCEPTION_TYPE] == "rowbus.errors.MalformedHeadersError", kind


@pytest.mark.parametrize(
    "headers",
    [
        {"NServiceBus__MessageId": "mine", "Shop__Note": "kept"},
        {"NServiceBus__MessageId": None, "Shop__Note": "kept"},
        {"NServiceBus__MessageId": "", "Shop__Note": "kept"},
        {"Shop__Note": "kept"},
    ],
    ids=str,
)
async def test_a_row_with_a_null_body_is_moved_with_its_headers(
    endpoints: Endpoints, headers: dict[str, str | None]
) -> None:
    async with make_sales(endpoints, []) as sales:
        row_id = await endpoints.backend.insert(sales.address, headers_text(**headers), None)
        (row,) = await wait_until_moved(endpoints)

    assert_that_servicecontrol_can_import(row, headers.get("NServiceBus__MessageId") or row_id)
    assert row.headers["Shop.Note"] == "kept"
    assert "NULL" in str(row.headers[Header.EXCEPTION_MESSAGE])
    assert row.body == b""


async def test_a_row_with_neither_headers_nor_a_body_is_moved(endpoints: Endpoints) -> None:
    async with make_sales(endpoints, []) as sales:
        row_id = await endpoints.backend.insert(sales.address, "", None)
        (row,) = await wait_until_moved(endpoints)
    assert_that_servicecontrol_can_import(row, row_id)


async def test_each_is_logged_once_as_the_original_does(
    endpoints: Endpoints, caplog: pytest.LogCaptureFixture
) -> None:
    async with make_sales(endpoints, []) as sales:
        await endpoints.backend.insert(sales.address, "null")
        await wait_until_moved(endpoints)
    (record,) = [record for record in caplog.records if record.levelno >= logging.WARNING]
    assert record.getMessage().startswith(
        "Error receiving message. Probable message metadata corruption. Moving to error queue."
    )
    assert "null instead of an object" in record.getMessage()


async def test_an_unreadable_time_to_be_received_row_that_expired_is_moved_all_the_same(
    endpoints: Endpoints,
) -> None:
    """Whether it may be forgotten is for a person to say: nobody could read what it was."""
    async with make_sales(endpoints, []) as sales:
        await endpoints.backend.insert(sales.address, "null", expires_in=-1)
        await wait_until_moved(endpoints)


async def test_the_copy_itself_can_be_read(endpoints: Endpoints) -> None:
    """Put back into the queue by hand, it ends in the error queue as a message of unknown type, and does not loop."""
    async with make_sales(endpoints, []) as sales:
        await endpoints.backend.insert(sales.address, UNREADABLE["half a surrogate pair"])
        (row,) = await wait_until_moved(endpoints)
        await endpoints.backend.insert(sales.address, row.headers_text, b"{}")
        (_, again) = await wait_until_moved(endpoints, 2)
    assert again.headers[Header.EXCEPTION_TYPE] == "rowbus.errors.UnknownMessageTypeError"
    assert again.headers[RAW_HEADERS] == row.headers[RAW_HEADERS] == UNREADABLE["half a surrogate pair"]
    assert json.loads(again.headers_text)
