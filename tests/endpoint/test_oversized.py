"""Rows too large to be received: they reach the error queue without being fetched, and stop nobody."""

from __future__ import annotations

import logging
from typing import Unpack

import psycopg
import pytest

import rowbus
from rowbus.messages.headers import Header
from rowbus.transport.recoverability.failure_headers import LONGEST_RAW_HEADERS, RAW_HEADERS
from tests.conformance.endpoints import ERROR, Endpoints, PlaceOrder
from tests.conformance.settings import Settings
from tests.conformance.transport import SENDS_ATOMIC, eventually, headers_text, in_all_modes_failing

GOOD = headers_text(NServiceBus__EnclosedMessageTypes="Shop.Messages.PlaceOrder")
LIMIT = 10_000
LARGE = b"x" * LIMIT
MEASURE = {  # two bytes a character on SQL Server, which Babelfish counts as PostgreSQL does
    "PostgreSQL": "select octet_length('{}')",
    "SQL Server": "select datalength(cast(N'{}' as nvarchar(max)))",
}
HUGE, LARGER = 560 * 1024 * 1024, 100 * 1024 * 1024

in_one_mode = pytest.mark.parametrize("case", [SENDS_ATOMIC], ids=str)


def make_sales(endpoints: Endpoints, handled: list[str], **settings: Unpack[Settings]) -> rowbus.Endpoint:
    chosen: Settings = {"max_message_size": LIMIT}
    chosen.update(settings)
    sales = endpoints.make("Sales", **chosen)

    @sales.handler
    async def place(message: PlaceOrder) -> None:
        handled.append(message.order_id)

    return sales


def errors_in(caplog: pytest.LogCaptureFixture) -> list[logging.LogRecord]:
    return [record for record in caplog.records if record.levelno >= logging.ERROR]


def order(number: int) -> bytes:
    return b'{"order_id":"%d"}' % number


@in_all_modes_failing
@pytest.mark.parametrize("batch_size", [1, 10])
async def test_a_row_that_is_too_large_reaches_the_error_queue_and_the_others_are_handled(
    endpoints: Endpoints, batch_size: int
) -> None:
    handled: list[str] = []
    sales = make_sales(endpoints, handled, batch_size=batch_size)
    await sales.install()
    row_id = await endpoints.backend.insert(sales.address, GOOD, LARGE, expires_in=60)
    for number in range(5):
        await endpoints.backend.insert(sales.address, GOOD, order(number))

    async with sales:
        await eventually(lambda: len(handled) == 5)
        await eventually(lambda: is_moved(endpoints))

    (row,) = await endpoints.backend.rows(ERROR)
    assert row.body == LARGE
    assert row.expires_in is None
    assert row.headers[Header.ENCLOSED_MESSAGE_TYPES] == "Shop.Messages.PlaceOrder"
    assert row.headers[Header.MESSAGE_ID] == row_id
    assert row.headers[Header.FAILED_QUEUE] == sales.address.canonical
    assert row.headers[Header.EXCEPTION_TYPE] == "rowbus.errors.MessageTooLargeError"
    assert "max_message_size" in str(row.headers[Header.EXCEPTION_MESSAGE])


async def is_moved(endpoints: Endpoints) -> bool:
    return await endpoints.backend.count("Sales") == 0 and await endpoints.backend.count(ERROR) == 1


@in_one_mode
async def test_headers_that_are_too_large_are_cut_in_the_copy(endpoints: Endpoints) -> None:
    handled: list[str] = []
    text = '{"a":"' + "y" * 3_000_000 + '"}'
    async with make_sales(endpoints, handled, concurrency=1) as sales:
        row_id = await endpoints.backend.insert(sales.address, text, b"body")
        await endpoints.backend.insert(sales.address, GOOD, order(1))
        await eventually(lambda: handled == ["1"])
        await eventually(lambda: is_moved(endpoints))

    (row,) = await endpoints.backend.rows(ERROR)
    assert row.body == b"body"
    assert row.headers[Header.MESSAGE_ID] == row_id
    raw = str(row.headers[RAW_HEADERS])
    assert raw.startswith('{"a":"yyy')
    assert len(raw) == LONGEST_RAW_HEADERS


@in_one_mode
async def test_many_of_them_at_the_head_of_a_queue_all_move(endpoints: Endpoints) -> None:
    handled: list[str] = []
    sales = make_sales(endpoints, handled, batch_size=3, concurrency=1)
    await sales.install()
    for _ in range(7):
        await endpoints.backend.insert(sales.address, GOOD, LARGE)
    await endpoints.backend.insert(sales.address, GOOD, order(1))

    async def all_moved() -> bool:
        return await endpoints.backend.count(ERROR) == 7

    async with sales:
        await eventually(lambda: handled == ["1"])
        await eventually(all_moved)


@in_one_mode
async def test_its_id_and_size_are_in_the_log(endpoints: Endpoints, caplog: pytest.LogCaptureFixture) -> None:
    async with make_sales(endpoints, []) as sales:
        row_id = await endpoints.backend.insert(sales.address, GOOD, LARGE)
        await eventually(lambda: is_moved(endpoints))
        await eventually(lambda: bool(errors_in(caplog)))  # the line follows the commit
    (record,) = errors_in(caplog)
    assert row_id in record.getMessage()
    assert "bytes" in record.getMessage()


@pytest.mark.only("PostgreSQL", reason="it locks a row with PostgreSQL's SQL")
@in_one_mode
async def test_one_that_is_in_others_hands_is_logged_when_it_has_moved(
    endpoints: Endpoints, caplog: pytest.LogCaptureFixture
) -> None:
    sales = make_sales(endpoints, [])
    await sales.install()
    held = await endpoints.backend.insert(sales.address, GOOD, LARGE)
    other = await endpoints.backend.insert(sales.address, GOOD, LARGE)

    def logged() -> list[str]:
        texts = [record.getMessage() for record in errors_in(caplog)]
        return [row_id for text in texts for row_id in (held, other) if row_id in text]

    async with await psycopg.AsyncConnection.connect(endpoints.backend.dsn) as holding:
        await holding.execute('select 1 from "Sales" where id = %s for update', [held])
        async with sales:
            await eventually(lambda: has_moved(endpoints, 1))  # the older one is tried first
            await eventually(lambda: bool(logged()))
            assert logged() == [other]
            await holding.rollback()
            await eventually(lambda: has_moved(endpoints, 2))
            await eventually(lambda: len(logged()) == 2)

    assert sorted(logged()) == sorted([held, other])


async def has_moved(endpoints: Endpoints, count: int) -> bool:
    return await endpoints.backend.count(ERROR) == count


@in_one_mode
async def test_a_message_of_just_the_size_that_is_allowed_is_handled(endpoints: Endpoints) -> None:
    handled: list[str] = []
    (size,) = await endpoints.backend.values(MEASURE[endpoints.backend.name].format(GOOD))
    size += len(order(1))
    async with make_sales(endpoints, handled, max_message_size=size) as sales:
        await endpoints.backend.insert(sales.address, GOOD, order(1))
        await eventually(lambda: handled == ["1"])
        await endpoints.backend.insert(sales.address, GOOD, order(1) + b" ")
        await eventually(lambda: is_moved(endpoints))


@in_one_mode
async def test_a_row_without_a_body_is_measured_too(endpoints: Endpoints) -> None:
    async with make_sales(endpoints, []) as sales:
        await endpoints.backend.insert(sales.address, '{"a":"' + "y" * LIMIT + '"}', None)
        await eventually(lambda: is_moved(endpoints))


@pytest.mark.slow
@pytest.mark.one_version
@pytest.mark.only("PostgreSQL", reason="it makes the row on the server")
@in_one_mode
async def test_a_row_of_560_megabytes_stops_nobody(endpoints: Endpoints) -> None:
    handled: list[str] = []
    sales = make_sales(endpoints, handled, max_message_size=64 * 1024 * 1024, concurrency=1)
    await sales.install()
    await endpoints.backend.execute(
        'insert into "Sales" (id, headers, body) '
        "select gen_random_uuid(), repeat('x', %s), convert_to(repeat('y', %s), 'UTF8')",
        HUGE,
        LARGER,
    )
    await endpoints.backend.insert(sales.address, GOOD, order(1))

    async with sales:
        await eventually(lambda: handled == ["1"], 60)
        await eventually(lambda: is_moved(endpoints), 60)

    (size,) = await endpoints.backend.values("select octet_length(body) from error")
    assert size == LARGER
