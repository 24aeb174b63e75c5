"""Work of handlers on their connection: in the message's transaction, undone if they fail, never its end."""

from __future__ import annotations

import asyncio
import threading
import uuid
from collections.abc import Awaitable, Callable
from typing import Unpack

import psycopg
import pytest

import rowbus
from rowbus.messages.headers import Header
from rowbus.running import threads
from tests.conformance.backend import StoredRow
from tests.conformance.endpoints import ERROR, NO_RETRIES, Endpoints, OrderAccepted, PlaceOrder
from tests.conformance.on_postgresql import FAIL_AT_COMMIT, WRITE_BUSINESS
from tests.conformance.settings import Settings
from tests.conformance.transport import (
    NONE,
    eventually,
    in_all_modes,
    in_transaction_modes,
    in_transaction_modes_failing,
    within,
)

pytestmark = pytest.mark.only("PostgreSQL", reason="it looks into PostgreSQL's tables")

Handle = Callable[[rowbus.Context], Awaitable[None]]
SyncHandle = Callable[[rowbus.SyncContext], None]


async def process(endpoints: Endpoints, sales: rowbus.Endpoint, count: int = 1) -> list[StoredRow]:
    """Have an endpoint process some orders, and return what came into the error queue."""
    await endpoints.backend.create_business_tables()
    async with sales:
        for number in range(count):
            await sales.send("Sales", PlaceOrder(str(number)))

        async def done() -> bool:
            return await endpoints.backend.count("Sales") == 0

        await eventually(done)
    return await endpoints.backend.rows(ERROR)


def handling(endpoints: Endpoints, handle: Handle, **settings: Unpack[Settings]) -> rowbus.Endpoint:
    sales = endpoints.make("Sales", recoverability=NO_RETRIES, **settings)

    @sales.handler
    async def place(message: PlaceOrder, context: rowbus.Context) -> None:
        await handle(context)

    return sales


def handling_in_a_thread(
    endpoints: Endpoints, handle: SyncHandle, **settings: Unpack[Settings]
) -> rowbus.Endpoint:
    sales = endpoints.make("Sales", recoverability=NO_RETRIES, **settings)

    @sales.handler
    def place(message: PlaceOrder, context: rowbus.SyncContext) -> None:
        handle(context)

    return sales


# --- ways of writing


async def by_execute(context: rowbus.Context) -> None:
    await context.connection.execute(WRITE_BUSINESS, ["written"])


async def by_cursor(context: rowbus.Context) -> None:
    async with context.connection.cursor() as cursor:
        await cursor.execute(WRITE_BUSINESS, ["written"])


async def by_executemany(context: rowbus.Context) -> None:
    async with context.connection.cursor() as cursor:
        await cursor.executemany(WRITE_BUSINESS, [["written"]])


async def by_copy(context: rowbus.Context) -> None:
    async with context.connection.cursor() as cursor, cursor.copy("copy business from stdin") as copy:
        await copy.write_row(["written"])


async def by_stream(context: rowbus.Context) -> None:
    query = "insert into business values ('written') returning entry"
    assert [row async for row in context.connection.cursor().stream(query)] == [("written",)]


async def by_nested_transaction(context: rowbus.Context) -> None:
    async with context.connection.transaction():
        await context.connection.execute(WRITE_BUSINESS, ["written"])


async def by_pipeline(context: rowbus.Context) -> None:
    async with context.connection.pipeline():
        await context.connection.execute(WRITE_BUSINESS, ["written"])


async def by_another_kind_of_cursor(context: rowbus.Context) -> None:
    async with psycopg.AsyncClientCursor(context.connection) as cursor:
        await cursor.execute(WRITE_BUSINESS, ["written"])


async def after_reading_by_server_cursor(context: rowbus.Context) -> None:
    async with context.connection.cursor("named") as cursor:
        await cursor.execute("select generate_series(1, 3)")
        assert [row async for row in cursor] == [(1,), (2,), (3,)]
    await context.connection.execute(WRITE_BUSINESS, ["written"])


async def after_an_error_in_a_nested_transaction(context: rowbus.Context) -> None:
    with pytest.raises(psycopg.errors.DivisionByZero):
        async with context.connection.transaction():
            await context.connection.execute("select 1/0")
    await context.connection.execute(WRITE_BUSINESS, ["written"])


ways = pytest.mark.parametrize(
    "write",
    [
        by_execute,
        by_cursor,
        by_executemany,
        by_copy,
        by_stream,
        by_nested_transaction,
        by_pipeline,
        by_another_kind_of_cursor,
        after_reading_by_server_cursor,
        after_an_error_in_a_nested_transaction,
    ],
    ids=lambda way: str(way.__name__),
)


@ways
async def test_what_a_handler_writes_commits_with_its_message(endpoints: Endpoints, write: Handle) -> None:
    assert await process(endpoints, handling(endpoints, write), 3) == []
    assert await endpoints.backend.business() == ["written"] * 3


@ways
async def test_what_a_handler_wrote_is_undone_when_it_fails(endpoints: Endpoints, write: Handle) -> None:
    async def handle(context: rowbus.Context) -> None:
        await write(context)
        raise ValueError

    rows = await process(endpoints, handling(endpoints, handle), 3)
    assert [row.headers[Header.EXCEPTION_TYPE] for row in rows] == ["ValueError"] * 3
    assert await endpoints.backend.business() == []


@in_all_modes
async def test_what_a_handler_writes_is_there_once(endpoints: Endpoints) -> None:
    assert await process(endpoints, handling(endpoints, by_execute), 10) == []
    assert await endpoints.backend.business() == ["written"] * 10


@pytest.mark.parametrize("case", [NONE], ids=str)
async def test_without_transactions_what_a_handler_wrote_before_it_failed_stays(endpoints: Endpoints) -> None:
    async def handle(context: rowbus.Context) -> None:
        await by_execute(context)
        raise ValueError

    assert len(await process(endpoints, handling(endpoints, handle))) == 1
    assert await endpoints.backend.business() == ["written"]


@in_transaction_modes_failing
async def test_several_handlers_of_a_message_share_its_transaction(endpoints: Endpoints) -> None:
    sales = handling(endpoints, by_execute)
    attempts = []

    @sales.handler
    async def second(message: PlaceOrder) -> None:
        attempts.append(message)
        raise ValueError

    assert len(await process(endpoints, sales)) == 1
    assert len(attempts) == 1
    assert await endpoints.backend.business() == []


# --- what a handler may not do


@in_transaction_modes_failing
async def test_a_handler_that_swallows_a_database_error_has_failed(endpoints: Endpoints) -> None:
    async def handle(context: rowbus.Context) -> None:
        await by_execute(context)
        with pytest.raises(psycopg.errors.DivisionByZero):
            await context.connection.execute("select 1/0")

    (row,) = await process(endpoints, handling(endpoints, handle))
    assert row.headers[Header.EXCEPTION_TYPE] == "rowbus.errors.HandlerError"
    assert "spoilt its transaction" in str(row.headers[Header.EXCEPTION_MESSAGE])
    assert await endpoints.backend.business() == []


@in_transaction_modes
@pytest.mark.parametrize("verb", ["commit", "rollback"])
async def test_a_handler_may_not_end_the_transaction(endpoints: Endpoints, verb: str) -> None:
    async def handle(context: rowbus.Context) -> None:
        await by_execute(context)
        await getattr(context.connection, verb)()

    (row,) = await process(endpoints, handling(endpoints, handle))
    assert row.headers[Header.EXCEPTION_TYPE] == "rowbus.errors.HandlerError"
    assert "may not" in str(row.headers[Header.EXCEPTION_MESSAGE])
    assert await endpoints.backend.business() == []


@in_transaction_modes_failing
@pytest.mark.parametrize("command", ["commit", "rollback"])
async def test_a_handler_that_ends_the_transaction_in_sql_is_found_out(
    endpoints: Endpoints, command: str
) -> None:
    """The harm is done, so the least is promised: it does not loop, and the message is not silently gone."""
    attempts = []

    async def handle(context: rowbus.Context) -> None:
        attempts.append(context.message_id)
        await context.connection.execute(command.encode())

    rows = await process(endpoints, handling(endpoints, handle))
    assert len(rows) == 1 or command == "commit"
    assert len(attempts) <= 2


@in_transaction_modes_failing
async def test_a_message_in_a_transaction_that_its_handler_prepared_is_there_until_that_is_decided(
    endpoints: Endpoints,
) -> None:
    name, attempts = f"mine {uuid.uuid4()}", []

    async def handle(context: rowbus.Context) -> None:
        attempts.append(context.message_id)
        if len(attempts) == 1:
            await context.connection.execute(f"select 1; prepare transaction '{name}'".encode())

    async def roll_back() -> bool:
        connection = endpoints.backend.connection
        found = await connection.execute("select from pg_prepared_xacts where gid = %s", (name,))
        if found.rowcount:
            await connection.execute(f"rollback prepared '{name}'".encode())
        return bool(found.rowcount)

    undoing = asyncio.ensure_future(eventually(roll_back))
    rows = await process(endpoints, handling(endpoints, handle))
    await undoing
    assert (len(rows), len(attempts)) in {(0, 2), (1, 1)}


@in_transaction_modes_failing
async def test_a_handler_that_breaks_its_connection_fails_alone(endpoints: Endpoints) -> None:
    broken: list[str] = []

    async def handle(context: rowbus.Context) -> None:
        await by_execute(context)
        if not broken:
            broken.append(context.message_id)
            await context.connection.close()

    await process(endpoints, handling(endpoints, handle), 5)
    business = await endpoints.backend.business()
    assert business == ["written"] * (5 - await endpoints.backend.count(ERROR))
    assert len(business) >= 4


# --- `def` handlers


@in_transaction_modes_failing
async def test_what_a_def_handler_writes_and_sends_commits_with_its_message(endpoints: Endpoints) -> None:
    await endpoints.backend.create_queue("Billing")
    threads = set()

    def handle(context: rowbus.SyncContext) -> None:
        threads.add(threading.current_thread())
        context.connection.execute(WRITE_BUSINESS, ["written"])
        context.send("Billing", OrderAccepted("1"))
        context.reply(OrderAccepted("2"))

    sales = handling_in_a_thread(endpoints, handle)

    @sales.handler
    async def accepted(message: OrderAccepted) -> None:
        assert message.order_id == "2"

    assert await process(endpoints, sales, 5) == []
    assert await endpoints.backend.business() == ["written"] * 5
    assert await endpoints.backend.count("Billing") == 5
    assert threading.main_thread() not in threads


@in_transaction_modes_failing
async def test_what_a_def_handler_did_is_undone_when_it_fails_except_for_immediate_sends(
    endpoints: Endpoints,
) -> None:
    for name in ("Billing", "Audit"):
        await endpoints.backend.create_queue(name)

    def handle(context: rowbus.SyncContext) -> None:
        context.connection.execute(WRITE_BUSINESS, ["written"])
        context.send("Billing", OrderAccepted("1"))
        context.reply(OrderAccepted("1"), to="Billing")
        context.send("Audit", OrderAccepted("1"), immediate=True)
        raise ValueError("no")

    (row,) = await process(endpoints, handling_in_a_thread(endpoints, handle))
    assert row.headers[Header.EXCEPTION_TYPE] == "ValueError"
    assert await endpoints.backend.business() == []
    assert await endpoints.backend.count("Billing") == 0
    assert await endpoints.backend.count("Audit") == 1


@in_transaction_modes
@pytest.mark.parametrize("verb", ["commit", "rollback", "close"])
async def test_a_def_handler_may_not_end_the_transaction(endpoints: Endpoints, verb: str) -> None:
    def handle(context: rowbus.SyncContext) -> None:
        getattr(context.connection, verb)()

    (row,) = await process(endpoints, handling_in_a_thread(endpoints, handle))
    assert row.headers[Header.EXCEPTION_TYPE] == "rowbus.errors.HandlerError"


@in_transaction_modes_failing
async def test_a_def_handler_whose_commit_fails_has_failed(endpoints: Endpoints) -> None:
    def handle(context: rowbus.SyncContext) -> None:
        context.connection.execute(FAIL_AT_COMMIT)

    (row,) = await process(endpoints, handling_in_a_thread(endpoints, handle))
    assert "foreign key" in str(row.headers[Header.EXCEPTION_MESSAGE])


async def test_def_handlers_run_side_by_side(endpoints: Endpoints) -> None:
    together = threading.Barrier(4, timeout=20)

    def handle(context: rowbus.SyncContext) -> None:
        together.wait()

    assert await process(endpoints, handling_in_a_thread(endpoints, handle, concurrency=4), 8) == []


async def test_a_def_handler_holds_nobody_up(endpoints: Endpoints) -> None:
    release = threading.Event()
    passed = []
    sales = endpoints.make("Sales", concurrency=2)

    @sales.handler
    def place(message: PlaceOrder) -> None:
        assert release.wait(20)

    @sales.handler
    async def accepted(message: OrderAccepted) -> None:
        passed.append(message.order_id)

    async with sales:
        await sales.send("Sales", PlaceOrder("slow"))
        await sales.send("Sales", OrderAccepted("quick"))
        await eventually(lambda: passed == ["quick"])
        release.set()


@in_transaction_modes
async def test_a_def_handler_that_never_ends_holds_up_no_stop_and_its_message_goes_back(
    endpoints: Endpoints, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(threads, "PATIENCE", 0.05)
    await endpoints.backend.create_business_tables()
    entered, release, left = threading.Event(), threading.Event(), threading.Event()
    refused: list[Exception] = []

    def stay(context: rowbus.SyncContext) -> None:
        context.connection.execute(WRITE_BUSINESS, ["undone"])
        entered.set()
        assert release.wait(60)
        try:
            context.connection.execute(WRITE_BUSINESS, ["too late"])
        except Exception as error:  # noqa: BLE001 - each driver has its own
            refused.append(error)
        left.set()

    async def is_empty() -> bool:
        return await endpoints.backend.count("Sales") == 0

    async def handle(context: rowbus.Context) -> None:
        await context.connection.execute(WRITE_BUSINESS, ["done"])

    stuck = handling_in_a_thread(endpoints, stay)
    await stuck.start()
    await stuck.send("Sales", PlaceOrder("1"))
    await eventually(entered.is_set)
    await within(stuck.stop(timeout=0))

    async with handling(endpoints, handle):
        await eventually(is_empty)
    assert await endpoints.backend.business() == ["done"]
    release.set()
    await eventually(left.is_set)
    assert len(refused) == 1
    assert await endpoints.backend.business() == ["done"]
