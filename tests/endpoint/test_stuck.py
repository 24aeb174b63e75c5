"""Rows whose error-queue copy is refused: they are set aside, and what waits behind them goes on."""

from __future__ import annotations

import logging
from typing import Unpack

import pytest

import rowbus
from rowbus.messages.headers import Header
from rowbus.running import backoff
from rowbus.work import book
from tests.conformance.endpoints import ERROR, NO_RETRIES, Endpoints, PlaceOrder
from tests.conformance.settings import Settings
from tests.conformance.transport import (
    NONE,
    RECEIVE_ONLY,
    RECEIVE_ONLY_ROLLBACK,
    SENDS_ATOMIC,
    SENDS_ATOMIC_ROLLBACK,
    eventually,
    headers_text,
    never,
)

pytestmark = [
    pytest.mark.only("PostgreSQL", reason="it constrains PostgreSQL's tables"),
    pytest.mark.one_version,
]

in_transaction_modes_failing = pytest.mark.parametrize(
    "case", [RECEIVE_ONLY, RECEIVE_ONLY_ROLLBACK, SENDS_ATOMIC, SENDS_ATOMIC_ROLLBACK], ids=str
)
in_one_mode = pytest.mark.parametrize("case", [SENDS_ATOMIC], ids=str)
in_mode_none = pytest.mark.parametrize("case", [NONE], ids=str)
QUICKLY = 0.02
LONG = "z" * 50_000
SHORT_HEADERS = "alter table error add check (length(headers) < 20000)"
NOTHING = "alter table error add check (false)"


@pytest.fixture(autouse=True)
def quick_breakers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have a failure wait 20 ms instead of 1 s, and 10 s once critical."""
    monkeypatch.setattr(backoff, "WAIT_WHEN_ARMED", QUICKLY)
    monkeypatch.setattr(backoff, "WAIT_WHEN_TRIGGERED", QUICKLY)


def make_sales(
    endpoints: Endpoints, handled: list[str], critical: list[str] | None = None, **settings: Unpack[Settings]
) -> rowbus.Endpoint:
    chosen: Settings = {"concurrency": 1}
    chosen.update(settings)
    told = [] if critical is None else critical
    sales = endpoints.make(
        "Sales",
        recoverability=NO_RETRIES,
        on_critical_error=lambda text, _error: told.append(text),
        **chosen,
    )

    @sales.handler
    async def place(message: PlaceOrder) -> None:
        if message.order_id == "bad":
            raise ValueError("no such order")
        handled.append(message.order_id)

    return sales


def order_headers(**more: str) -> str:
    return headers_text(NServiceBus__EnclosedMessageTypes="Shop.Messages.PlaceOrder", **more)


async def insert_bad_before_good(endpoints: Endpoints, sales: rowbus.Endpoint, bad: str) -> str:
    row_id = await endpoints.backend.insert(sales.address, bad, b'{"order_id":"bad"}')
    for number in range(5):
        await endpoints.backend.insert(sales.address, order_headers(), b'{"order_id":"%d"}' % number)
    return row_id


@in_transaction_modes_failing
@pytest.mark.parametrize("batch_size", [1, 10])
async def test_a_row_whose_copy_is_refused_leaves_with_few_headers_and_the_others_are_handled(
    endpoints: Endpoints, batch_size: int
) -> None:
    handled: list[str] = []
    sales = make_sales(endpoints, handled, batch_size=batch_size)
    await sales.install()
    await endpoints.backend.execute(SHORT_HEADERS)
    row_id = await insert_bad_before_good(
        endpoints, sales, order_headers(Shop__Long=LONG, Shop__Short="kept")
    )

    async def moved() -> bool:
        return await endpoints.backend.count("Sales") == 0 and await endpoints.backend.count(ERROR) == 1

    async with sales:
        await eventually(lambda: sorted(handled) == list("01234"))
        await eventually(moved)

    (row,) = await endpoints.backend.rows(ERROR)
    assert row.body == b'{"order_id":"bad"}'
    assert row.headers[Header.MESSAGE_ID] == row_id
    assert row.headers[Header.FAILED_QUEUE] == '"public"."Sales"'
    assert row.headers[Header.EXCEPTION_TYPE] == "rowbus.errors.StuckMessageError"
    assert row.headers[Header.ENCLOSED_MESSAGE_TYPES] == "Shop.Messages.PlaceOrder"
    assert row.headers["Shop.Short"] == "kept"
    assert "Shop.Long" not in row.headers


@in_one_mode
async def test_a_header_that_the_error_queue_cannot_hold_is_left_out(endpoints: Endpoints) -> None:
    """JSON may hold NUL as an escape; `jsonb` refuses it, and so does whoever made the error queue check for it."""
    handled: list[str] = []
    sales = make_sales(endpoints, handled)
    await sales.install()
    await endpoints.backend.execute("alter table error add check (headers::jsonb is not null)")
    await insert_bad_before_good(endpoints, sales, order_headers(Shop__Nul="a\0b"))

    async def moved() -> bool:
        return await endpoints.backend.count(ERROR) == 1

    async with sales:
        await eventually(moved)
        await eventually(lambda: sorted(handled) == list("01234"))


@in_transaction_modes_failing
async def test_a_row_that_the_error_queue_refuses_altogether_stays_and_the_others_are_handled(
    endpoints: Endpoints, caplog: pytest.LogCaptureFixture
) -> None:
    handled: list[str] = []
    critical: list[str] = []
    sales = make_sales(endpoints, handled, critical)
    await sales.install()
    await endpoints.backend.execute(NOTHING)
    row_id = await insert_bad_before_good(endpoints, sales, order_headers())

    async with sales:
        await eventually(lambda: sorted(handled) == list("01234"))
        await eventually(lambda: any(row_id in text for text in critical))

    assert [row.id for row in await endpoints.backend.rows("Sales")] == [row_id]
    assert any(
        row_id in record.getMessage() and "passed over" in record.getMessage()
        for record in caplog.records
        if record.levelno >= logging.ERROR
    )


@in_one_mode
async def test_it_is_tried_again_after_a_while(endpoints: Endpoints, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(book, "FIRST_PAUSE", 0.1)
    handled: list[str] = []
    sales = make_sales(endpoints, handled)
    await sales.install()
    await endpoints.backend.execute("alter table error add constraint nothing check (false)")
    await insert_bad_before_good(endpoints, sales, order_headers())

    async def moved() -> bool:
        return await endpoints.backend.count(ERROR) == 1 and await endpoints.backend.count("Sales") == 0

    async with sales:
        await eventually(lambda: len(handled) == 5)
        await endpoints.backend.execute("alter table error drop constraint nothing")
        await eventually(moved)


@in_one_mode
async def test_while_it_is_passed_over_it_is_not_tried(endpoints: Endpoints) -> None:
    critical: list[str] = []
    sales = make_sales(endpoints, [], critical)
    await sales.install()
    await endpoints.backend.execute(NOTHING)
    row_id = await insert_bad_before_good(endpoints, sales, order_headers())

    async with sales:
        await eventually(lambda: any(row_id in text for text in critical))
        await never(lambda: sum(row_id in text for text in critical) > 1, 0.5)


@in_one_mode
async def test_an_oversized_row_that_the_error_queue_refuses_is_passed_over(endpoints: Endpoints) -> None:
    handled: list[str] = []
    critical: list[str] = []
    sales = make_sales(endpoints, handled, critical, max_message_size=10_000)
    await sales.install()
    await endpoints.backend.execute(NOTHING)
    row_id = await insert_bad_before_good(endpoints, sales, order_headers(Shop__Long=LONG))

    async with sales:
        await eventually(lambda: sorted(handled) == list("01234"))
        await eventually(lambda: any(row_id in text for text in critical))
    assert [row.id for row in await endpoints.backend.rows("Sales")] == [row_id]


@in_mode_none
async def test_in_mode_none_a_brief_copy_is_sent_when_the_whole_is_refused(endpoints: Endpoints) -> None:
    handled: list[str] = []
    sales = make_sales(endpoints, handled)
    await sales.install()
    await endpoints.backend.execute(SHORT_HEADERS)
    await insert_bad_before_good(endpoints, sales, order_headers(Shop__Long=LONG))

    async def moved() -> bool:
        return await endpoints.backend.count(ERROR) == 1

    async with sales:
        await eventually(moved)
        await eventually(lambda: sorted(handled) == list("01234"))
    (row,) = await endpoints.backend.rows(ERROR)
    assert row.body == b'{"order_id":"bad"}'
