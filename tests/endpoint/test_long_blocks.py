"""Blocks of `context.transaction()`: what is done with them by mistake is refused, and nobody waits for one of them."""

from __future__ import annotations

import asyncio
import threading
from datetime import timedelta
from typing import Any

import pytest

import rowbus
from rowbus.database.backends import open_database
from rowbus.database.sessions import ReceiveSession
from rowbus.endpoint.long_context import SESSIONS, BlockSessions
from rowbus.messages.headers import Header
from rowbus.transport.long_work.table import Cancelling, long_work_table
from tests.conformance.endpoints import ERROR, Endpoints, PlaceOrder
from tests.conformance.transport import eventually

pytestmark = pytest.mark.only("PostgreSQL", reason="handlers that take long work on PostgreSQL alone")

NO_RETRIES = rowbus.Recoverability(immediate=0, delayed=0)
left: list[Any] = []


async def opens_two(message: dict[str, Any], context: rowbus.LongContext) -> None:
    async with context.transaction(), context.transaction(finish=True):
        pass


def opens_two_in_a_thread(message: dict[str, Any], context: rowbus.SyncLongContext) -> None:
    with context.transaction(), context.transaction(finish=True):
        pass


async def leaves_one(message: dict[str, Any], context: rowbus.LongContext) -> None:
    left.append(context.transaction())
    await left[-1].__aenter__()


def leaves_one_in_a_thread(message: dict[str, Any], context: rowbus.SyncLongContext) -> None:
    left.append(context.transaction())
    left[-1].__enter__()


async def enters_none(message: dict[str, Any], context: rowbus.LongContext) -> None:
    async with context.transaction():
        pass
    context.transaction()


def enters_none_in_a_thread(message: dict[str, Any], context: rowbus.SyncLongContext) -> None:
    context.transaction(finish=True)


async def sends_too_late(message: dict[str, Any], context: rowbus.LongContext) -> None:
    async with context.transaction() as step:
        pass
    await step.send(ERROR, message, type="Shop.Order")


async def is_silent(message: dict[str, Any], context: rowbus.LongContext) -> None:
    async with context.transaction():
        await asyncio.sleep(1.1)  # long sleep: for longer than its lease


async def does_too_much(message: dict[str, Any], context: rowbus.LongContext) -> None:
    await context.progress(1.5)


def says_nothing(message: dict[str, Any], context: rowbus.SyncLongContext) -> None:
    context.progress(0.5, None)  # type: ignore[arg-type]  # the mistake


MISTAKES: dict[Any, str] = {
    opens_two: "is open already",
    opens_two_in_a_thread: "is open already",
    leaves_one: "while a block of context.transaction() was open",
    leaves_one_in_a_thread: "while a block of context.transaction() was open",
    enters_none: "never entered it, so nothing of it happened: write `async with context.transaction() as step:`",
    enters_none_in_a_thread: "write `with context.transaction() as step:`",
    sends_too_late: "The block of this context has ended",
    is_silent: "as long as a lease (0:00:01)",
    does_too_much: "a number from 0 to 1, and not 1.5",
    says_nothing: "is a str, and not None",
}


async def test_what_is_done_by_mistake_fails_its_message_at_once(endpoints: Endpoints) -> None:
    sales = endpoints.make("Sales", recoverability=NO_RETRIES, long_lease=timedelta(seconds=1))
    for handler in MISTAKES:
        sales.handler(handler.__name__, long=True)(handler)
    async with sales:
        for handler in MISTAKES:
            await sales.send("Sales", {}, type=handler.__name__)

        async def failed() -> bool:
            return await endpoints.backend.count(ERROR) == len(MISTAKES)

        await eventually(failed)
        left.clear()
    rows = await endpoints.backend.rows(ERROR)
    said = {
        row.headers[Header.ENCLOSED_MESSAGE_TYPES]: str(row.headers[Header.EXCEPTION_MESSAGE]) for row in rows
    }
    assert [name for one, text in MISTAKES.items() if text not in said[name := one.__name__]] == []


async def test_what_handlers_leave_open_keeps_no_later_block_from_its_session(database: str) -> None:
    sessions = BlockSessions(open_database(database))
    async with asyncio.timeout(20):
        for _ in range(SESSIONS + 1):
            held = set[ReceiveSession]()
            await sessions.lend(held)
            assert await sessions.end_left(held) == 1
    await sessions.close()


async def test_what_comes_after_the_end_of_the_message_is_refused_and_told_of(
    endpoints: Endpoints, caplog: pytest.LogCaptureFixture
) -> None:
    sales = endpoints.make("Sales")

    @sales.handler("Shop.Messages.PlaceOrder", long=True)
    async def place(message: PlaceOrder, context: rowbus.LongContext) -> None:
        async with context.transaction(finish=True):
            pass
        await context.send(ERROR, message)

    async with sales:
        await sales.send("Sales", PlaceOrder("1"))
        await eventually(lambda: "when it had ended the message" in caplog.text)
    assert "context.transaction(finish=True) has ended the message" in caplog.text
    assert await endpoints.backend.count(ERROR) == 0


@pytest.mark.parametrize("is_async", [True, False])
async def test_an_open_block_hides_no_progress_and_is_cancelled_whatever_its_message_holds(
    endpoints: Endpoints, *, is_async: bool
) -> None:
    sales, begun = endpoints.make("Sales", recoverability=NO_RETRIES), threading.Event()

    async def place(message: PlaceOrder, context: rowbus.LongContext) -> None:
        async with context.transaction() as step:
            await context.progress(0.5, "half\0of it")
            begun.set()
            await step.connection.execute("select pg_sleep(1000)")

    def place_in_thread(message: PlaceOrder, context: rowbus.SyncLongContext) -> None:
        with context.transaction() as step:
            context.progress(0.5, "half\0of it")
            begun.set()
            step.connection.execute("select pg_sleep(1000)")

    sales.handler("Shop.Messages.PlaceOrder", long=True)(place if is_async else place_in_thread)
    async with sales:
        sent = await sales.send("Sales", PlaceOrder("1"), headers={"Note": "any\0text"})
        await eventually(begun.is_set)
        status = await sales.status("Sales", sent)
        others = [await sales.status("Sales", text) for text in ("\0", "\ud800", "none")]
        table, session = (
            long_work_table(sales.address.satellite("Running")),
            await endpoints.backend.database.connect(),
        )
        async with session.transaction():
            asked = [await session.run(table.cancel(sent, Cancelling(by, "\0"))) for by in ("ann", "bob")]
        await session.close()

        async def failed() -> bool:
            return await endpoints.backend.count(ERROR) == 1

        await eventually(failed)
    assert status is not None
    assert (status.message_id, status.fraction, status.note) == (sent, 0.5, r"half\x00of it")
    assert others == [None, None, None]
    assert asked == [["ann"], ["ann"]]
    (row,) = await endpoints.backend.rows(ERROR)
    assert row.headers["NServiceBus.ExceptionInfo.Message"] == r"Cancelled by ann: \x00"


async def test_a_thread_that_was_left_to_itself_commits_nothing_any_more(endpoints: Endpoints) -> None:
    await endpoints.backend.execute("create table steps (attempt int)")
    sales = endpoints.make("Sales", recoverability=rowbus.Recoverability(immediate=100, delayed=0))
    attempts, refused = list[int](), list[str]()
    is_left, is_refused = threading.Event(), threading.Event()

    @sales.handler("Shop.Messages.PlaceOrder", long=True, time_limit=timedelta(seconds=0.3))
    def place(message: PlaceOrder, context: rowbus.SyncLongContext) -> None:
        attempts.append(len(attempts))
        is_first = len(attempts) == 1
        if is_first:
            is_left.wait()
        else:
            is_left.set()
            is_refused.wait()
        try:
            with context.transaction() as step:
                step.connection.execute("insert into steps values (%s)", [int(is_first)])
        except rowbus.HandlerError as error:
            refused.append(str(error))
            is_refused.set()

    async def is_done() -> bool:
        return await endpoints.backend.values("select attempt from steps") == [0]

    async with sales:
        await sales.send("Sales", PlaceOrder("1"))
        await eventually(is_done)
    assert "has to end before the handler does" in refused[0]
