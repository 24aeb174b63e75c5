"""Handlers that take long: no transaction while they run, exactly once in the database, taken over from who is lost."""

from __future__ import annotations

import asyncio
import os
import threading
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import psycopg
import pytest

import rowbus
from rowbus.database.backends import addresses_of
from rowbus.messages.headers import Header
from rowbus.transport.long_work.table import work_status
from tests.conformance.endpoints import ERROR, Endpoints, PlaceOrder
from tests.conformance.transport import eventually, within

pytestmark = pytest.mark.only("PostgreSQL", reason="handlers that take long work on PostgreSQL alone")

RUNNING = '"Sales.Running"'
SHORT = timedelta(seconds=1)
NO_RETRIES = rowbus.Recoverability(immediate=0, delayed=0)


@rowbus.command("Shop.Messages.Report")
@dataclass
class Report:
    order_id: str = ""


async def count(endpoints: Endpoints, table: str) -> int:
    (found,) = await endpoints.backend.values(f"select count(*) from {table}")
    return int(found)


async def emptied(endpoints: Endpoints, table: str = RUNNING) -> None:
    async def is_empty() -> bool:
        return await count(endpoints, table) == 0

    await eventually(is_empty)


@pytest.mark.parametrize("is_async", [True, False])
async def test_no_transaction_is_open_while_it_runs_and_what_it_sends_leaves_at_its_end(
    endpoints: Endpoints, *, is_async: bool
) -> None:
    begun, may_end = threading.Event(), threading.Event()
    sales = endpoints.make("Sales")
    seen: list[str] = []

    def refused(context: Any) -> None:  # noqa: ANN401 - either kind
        with pytest.raises(rowbus.HandlerError, match="in no transaction while it runs"):
            _ = context.connection
        begun.set()

    async def place(message: PlaceOrder, context: rowbus.LongContext) -> None:
        await context.send("Sales", Report(message.order_id))
        refused(context)
        await asyncio.to_thread(may_end.wait)

    def place_in_thread(message: PlaceOrder, context: rowbus.SyncLongContext) -> None:
        context.send("Sales", Report(message.order_id))
        refused(context)
        may_end.wait()

    sales.handler("Shop.Messages.PlaceOrder", long=True)(place if is_async else place_in_thread)

    @sales.handler
    async def report(message: Report) -> None:
        seen.append(message.order_id)

    async def has_no_transaction() -> bool:
        here = "datname = current_database() and state = 'idle in transaction'"
        return await endpoints.backend.values(f"select 1 from pg_stat_activity where {here}") == []

    async with sales:
        try:
            await sales.send("Sales", PlaceOrder("1"))
            await eventually(begun.is_set)
            assert await count(endpoints, RUNNING) == 1
            assert await endpoints.backend.count("Sales") == 0
            await eventually(has_no_transaction)
            assert seen == []
        finally:
            may_end.set()  # or the endpoint's stop waits for it
        await eventually(lambda: seen == ["1"])
        await emptied(endpoints)


@pytest.mark.parametrize("is_async", [True, False])
async def test_a_step_commits_with_what_it_sends_or_not_at_all(
    endpoints: Endpoints, *, is_async: bool
) -> None:
    await endpoints.backend.execute("create table steps (step text)")
    sales = endpoints.make("Sales", recoverability=NO_RETRIES)
    seen: list[str] = []

    async def place(message: PlaceOrder, context: rowbus.LongContext) -> None:
        async with context.transaction() as step:
            await step.connection.execute("insert into steps values ('first')")
            await step.send("Sales", Report("first"))
        await context.progress(0.5, "half of it")
        with suppress(ValueError):
            async with context.transaction() as step:
                await step.connection.execute("insert into steps values ('second')")
                await step.send("Sales", Report("second"))
                raise ValueError("no")
        await context.send("Sales", Report("never"))
        raise ValueError("at last")

    def place_in_thread(message: PlaceOrder, context: rowbus.SyncLongContext) -> None:
        with context.transaction() as step:
            step.connection.execute("insert into steps values ('first')")
            step.send("Sales", Report("first"))
        context.progress(0.5, "half of it")
        with suppress(ValueError), context.transaction() as step:
            step.connection.execute("insert into steps values ('second')")
            step.send("Sales", Report("second"))
            raise ValueError("no")
        context.send("Sales", Report("never"))
        raise ValueError("at last")

    sales.handler("Shop.Messages.PlaceOrder", long=True)(place if is_async else place_in_thread)

    @sales.handler
    async def report(message: Report) -> None:
        seen.append(message.order_id)

    async with sales:
        await sales.send("Sales", PlaceOrder("1"))

        async def failed() -> bool:
            return await endpoints.backend.count(ERROR) == 1

        await eventually(failed)
        await eventually(lambda: seen == ["first"])
        await emptied(endpoints)
    assert await endpoints.backend.values("select step from steps") == ["first"]
    (row,) = await endpoints.backend.rows(ERROR)
    assert row.headers[Header.EXCEPTION_MESSAGE] == "at last"
    assert row.headers[Header.MESSAGE_ID]


@pytest.mark.parametrize("is_async", [True, False])
async def test_a_step_that_leaves_a_stream_open_fails_and_holds_up_nothing(
    endpoints: Endpoints, *, is_async: bool
) -> None:
    sales = endpoints.make("Sales", recoverability=NO_RETRIES)
    left: list[Any] = []

    async def place(message: PlaceOrder, context: rowbus.LongContext) -> None:
        async with context.transaction() as step:
            left.append(step.connection.cursor().stream("select 1 from generate_series(1, 3)"))
            await anext(left[0])

    def place_in_thread(message: PlaceOrder, context: rowbus.SyncLongContext) -> None:
        with context.transaction() as step:
            left.append(step.connection.cursor().stream("select 1 from generate_series(1, 3)"))
            next(left[0])

    sales.handler("Shop.Messages.PlaceOrder", long=True)(place if is_async else place_in_thread)

    async def failed() -> bool:
        return await endpoints.backend.count(ERROR) == 1

    async with sales:
        await sales.send("Sales", PlaceOrder("1"))
        await eventually(failed)
    (row,) = await endpoints.backend.rows(ERROR)
    assert "in the midst of something" in (row.headers[Header.EXCEPTION_MESSAGE] or "")


async def test_a_block_may_end_the_work_and_nothing_commits_after_that(endpoints: Endpoints) -> None:
    sales, seen = endpoints.make("Sales"), list[object]()

    @sales.handler("Shop.Messages.PlaceOrder", long=True)
    async def place(message: PlaceOrder, context: rowbus.LongContext) -> None:
        await context.send("Sales", Report("of the end"))
        async with context.transaction(finish=True) as step:
            await step.send("Sales", Report("of the block"))
        try:
            async with context.transaction():
                seen.append("never")
        except rowbus.LeaseLostError as error:
            seen.append(str(error))

    @sales.handler
    async def report(message: Report) -> None:
        seen.append(message.order_id)

    async with sales:
        await sales.send("Sales", PlaceOrder("1"))
        await eventually(lambda: len(seen) == 3)
        await emptied(endpoints)
    assert sorted(map(str, seen))[1:] == ["of the block", "of the end"]
    assert "nothing of this is committed" in min(map(str, seen))


async def test_retries_are_counted_as_those_of_any_message(endpoints: Endpoints) -> None:
    policy = rowbus.Recoverability(immediate=1, delayed=1, increase=timedelta(milliseconds=20))
    sales, retries = endpoints.make("Sales", recoverability=policy), list[object]()
    attempts: list[int] = []

    @sales.use
    async def note(context: rowbus.StepContext, proceed: rowbus.Proceed) -> None:
        attempts.append(context.attempt)
        await proceed()

    @sales.handler("Shop.Messages.PlaceOrder", long=True)
    async def place(message: PlaceOrder, context: rowbus.LongContext) -> None:
        retries.append(context.headers.get(Header.RETRIES))
        raise ValueError("no")

    async with sales:
        await sales.send("Sales", PlaceOrder("1"))

        async def failed() -> bool:
            return await endpoints.backend.count(ERROR) == 1

        await eventually(failed)
    assert retries == [None, None, "1", "1"]
    assert attempts == [1, 2, 1, 2]
    assert await count(endpoints, RUNNING) == 0


async def test_work_of_a_process_that_is_lost_is_taken_over_and_who_was_late_commits_nothing(
    endpoints: Endpoints,
) -> None:
    await endpoints.backend.execute("create table steps (step text)")
    sales, begun, lost = endpoints.make("Sales", long_lease=SHORT), list[str](), list[str]()
    held = asyncio.Event()

    @sales.handler("Shop.Messages.PlaceOrder", long=True)
    async def place(message: PlaceOrder, context: rowbus.LongContext) -> None:
        begun.append(str(len(begun)))
        if len(begun) == 1:
            await held.wait()
        try:
            async with context.transaction(finish=True) as step:
                await step.connection.execute(f"insert into steps values ('{len(begun)}')")
        except rowbus.LeaseLostError:
            lost.append("late")

    async with sales:
        await sales.send("Sales", PlaceOrder("1"))
        await eventually(lambda: len(begun) == 1)
        # As if another process had taken it, whose lease is over at once.
        await endpoints.backend.execute(
            f"update {RUNNING} set epoch = epoch + 1, lease = now() - interval '1 minute', process = 'another'"
        )
        await eventually(lambda: len(begun) == 2)
        held.set()
        await emptied(endpoints)
    assert await endpoints.backend.values("select step from steps") == ["2"]


async def test_a_stop_hands_back_what_is_not_done_and_counts_nothing(endpoints: Endpoints) -> None:
    first, second = endpoints.make("Sales"), endpoints.make("Sales")
    begun: list[str] = []

    def serve(sales: rowbus.Endpoint, name: str, *, hangs: bool) -> None:
        @sales.handler("Shop.Messages.PlaceOrder", long=True)
        async def place(message: PlaceOrder) -> None:
            begun.append(name)
            if hangs:
                await asyncio.Event().wait()

    serve(first, "first", hangs=True)
    serve(second, "second", hangs=False)
    await first.start()
    await first.send("Sales", PlaceOrder("1"))
    await eventually(lambda: begun == ["first"])
    await first.stop(timeout=0)
    assert await endpoints.backend.values(f"select failures from {RUNNING} where lease is null") == [0]
    async with second:
        await eventually(lambda: begun == ["first", "second"])
        await emptied(endpoints)


async def test_work_is_cancelled_from_outside_and_says_by_whom(endpoints: Endpoints) -> None:
    sales, begun = endpoints.make("Sales"), list[str]()

    @sales.handler("Shop.Messages.PlaceOrder", long=True)
    async def place(message: PlaceOrder, context: rowbus.LongContext) -> None:
        begun.append(context.message_id)
        await asyncio.Event().wait()

    async with sales:
        await sales.send("Sales", PlaceOrder("1"))
        await eventually(lambda: len(begun) == 1)
        await endpoints.backend.execute(
            f"update {RUNNING} set cancelled_by = 'ann', cancelled_why = 'a typo'"
        )

        async def failed() -> bool:
            return await endpoints.backend.count(ERROR) == 1

        await eventually(failed)
    (row,) = await endpoints.backend.rows(ERROR)
    assert row.headers[Header.EXCEPTION_MESSAGE] == "Cancelled by ann: a typo"
    assert await count(endpoints, RUNNING) == 0


async def test_a_client_and_an_endpoint_tell_how_far_it_is_until_it_is_done_by_the_right_to_read_alone(
    endpoints: Endpoints,
) -> None:
    sales, backend = endpoints.make("Sales", recoverability=NO_RETRIES), endpoints.backend
    told, may_end = asyncio.Event(), asyncio.Event()
    client = backend.client()

    @sales.handler("Shop.Messages.PlaceOrder", long=True)
    async def place(message: PlaceOrder, context: rowbus.LongContext) -> None:
        await context.progress(0.4, "page 12 of 30")
        told.set()
        await may_end.wait()

    with pytest.raises(rowbus.StorageError, match=r"Sales.Running.*starting an endpoint with a handler"):
        await client.status("Sales", "none")
    async with sales:
        try:
            first = await sales.send("Sales", PlaceOrder("1"))
            await within(told.wait())
            told.clear()
            await sales.send("Sales", PlaceOrder("2"))
            await within(told.wait())
            async with backend.transaction(force_rollback=True):
                await backend.execute("create role rowbus_test_reader")
                await backend.execute(f"grant select on {RUNNING} to rowbus_test_reader")
                await backend.execute("set local role rowbus_test_reader")
                found, other = await client.status("Sales", first), await client.status("Sales", "none")
            blocking = await asyncio.to_thread(_ask, backend.dsn, first)
            own = await sales.status("Sales", first)
        finally:
            may_end.set()  # or the endpoint's stop waits for it
        await emptied(endpoints)
        after = await client.status("Sales", first)

    assert found is not None
    assert found.since is not None
    assert found.since.tzinfo is not None
    assert found == blocking == own
    assert found._replace(process=None, since=None) == rowbus.WorkStatus(
        "Sales", first, "Shop.Messages.PlaceOrder", None, None, 0, 0.4, "page 12 of 30", None
    )
    assert found.process is not None
    assert found.process.endswith(f"/{os.getpid()}")
    assert (other, after) == (None, None)


def _ask(dsn: str, message_id: str) -> rowbus.WorkStatus | None:
    with psycopg.connect(dsn) as connection:
        return rowbus.Client(connection).status("Sales", message_id)


async def test_duplicates_are_found_and_a_message_in_the_error_queue_may_come_again(
    endpoints: Endpoints,
) -> None:
    sales = endpoints.make("Sales", recoverability=NO_RETRIES, deduplicate_for=timedelta(hours=1))
    calls: list[str] = []

    @sales.handler("Shop.Messages.PlaceOrder", long=True)
    async def place(message: PlaceOrder) -> None:
        calls.append(message.order_id)
        if len(calls) == 1:
            raise ValueError("no")

    async with sales:
        for expected in (1, 2, 2):
            await sales.send("Sales", PlaceOrder("1"), headers={Header.MESSAGE_ID: "the same"})

            async def handled(expected: int = expected) -> bool:
                queued = await endpoints.backend.count("Sales") + await count(endpoints, RUNNING)
                return queued == 0 and len(calls) == expected

            await eventually(handled)
    assert calls == ["1", "1"]


async def test_a_copy_that_comes_while_the_first_is_still_handled_is_a_duplicate(
    endpoints: Endpoints,
) -> None:
    sales = endpoints.make("Sales", deduplicate_for=timedelta(hours=1))
    calls, may_end = list[str](), asyncio.Event()

    @sales.handler("Shop.Messages.PlaceOrder", long=True)
    async def place(message: PlaceOrder) -> None:
        calls.append(message.order_id)
        await may_end.wait()

    async def is_queue_empty() -> bool:
        return await endpoints.backend.count("Sales") == 0

    async with sales:
        try:
            for order_id in ("first", "copy"):
                await sales.send("Sales", PlaceOrder(order_id), headers={Header.MESSAGE_ID: "the same"})
                await eventually(lambda: bool(calls))
            await eventually(is_queue_empty)
            assert await count(endpoints, RUNNING) == 1
        finally:
            may_end.set()  # or the endpoint's stop waits for it
        await emptied(endpoints)
    assert calls == ["first"]


def test_settings_and_handlers_that_cannot_work_are_refused() -> None:
    wrong: list[dict[str, Any]]
    wrong = [{"long_concurrency": 0}, {"long_lease": timedelta(0)}, {"long_lease": timedelta.max}]
    for options in wrong:
        with pytest.raises(rowbus.ConfigurationError, match="it must be at"):
            rowbus.EndpointSettings(**options)
    sales = rowbus.Endpoint("Sales")
    sales.handler("A")(_take)
    with pytest.raises(rowbus.ConfigurationError, match="must be the only one"):
        sales.handler("A", long=True)(_take)
    sales.handler(long=True)(_report)
    with pytest.raises(rowbus.ConfigurationError, match="must be the only one"):
        sales.add(ReportSaga)


class ReportSaga(rowbus.Saga[Report]):
    @rowbus.starts(Report, by=lambda message: message.order_id)
    async def begin(self, message: Report) -> None: ...


async def _report(message: Report) -> None: ...


async def _take(message: dict[str, Any]) -> None:
    pass


def test_sql_server_has_no_work_to_ask_about() -> None:
    with pytest.raises(rowbus.ConfigurationError, match="work on PostgreSQL alone"):
        work_status(addresses_of("mssql://server/shop").for_endpoint("Sales"), "1")


def test_mode_none_has_no_handlers_that_take_long() -> None:
    settings = rowbus.EndpointSettings(transaction_mode=rowbus.TransactionMode.NONE)
    with pytest.raises(rowbus.ConfigurationError, match="no long handlers"):
        rowbus.Endpoint("Sales", settings=settings).handler("A", long=True)
