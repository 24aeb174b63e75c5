"""Events whose handler fails are retried, put aside, replayed; and those beside them go on."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest

import rowbus
from rowbus.log.consumers import event_attempts
from rowbus.log.consumers.policy import judge
from rowbus.transport.recoverability.failure_headers import stack_trace
from tests.fixtures.strangers import REFUSED, stranger
from tests.log.orders import QUICK, Given, Orders, note, several, texts, times
from tests.transport.recoverability.servicecontrol_groups import group_of

NEVER = replace(QUICK, max_retries=0)


def price_of(data: str | None) -> None:
    raise KeyError(data)


@pytest.mark.parametrize("batch", [False, True])
@pytest.mark.parametrize("threaded", [False, True])
async def test_a_consumers_failures_are_named_after_the_function_that_raised(
    orders: Orders, monkeypatch: pytest.MonkeyPatch, *, threaded: bool, batch: bool
) -> None:
    errors: list[BaseException] = []

    def judged(error: BaseException, *more: Any) -> Any:  # noqa: ANN401 - as it is
        errors.append(error)
        return judge(error, *more)

    monkeypatch.setattr(event_attempts, "judge", judged)
    log = orders.log()

    async def in_turn(given: Given) -> None:
        price_of(several(given)[0].data)

    def in_a_thread(given: Given) -> None:
        price_of(several(given)[0].data)

    log.consumer("one", batch=batch, settings=NEVER)(in_a_thread if threaded else in_turn)
    async with log:
        orders.deliver(*texts(range(3)))
        await orders.finished()
    told = [stack_trace(error) for error in errors]
    assert {group_of("KeyError", one.message, one.text) for one in told} == {
        f"KeyError: {__name__}.price_of()"
    }
    assert not [one for one in told if "rowbus." in one.text]


def retry_queue(orders: Orders) -> list[Any]:
    query = """
        select ev_data, ev_retry, ceil(extract(epoch from ev_retry_after - now()))::int
        from pgq.retry_queue order by ev_retry_after
    """
    return orders.all(query)


@pytest.mark.parametrize("batch", [False, True])
async def test_an_exception_that_raises_when_it_is_looked_at_is_a_failure_as_others_are(
    orders: Orders, *, batch: bool
) -> None:
    log, handled = orders.log(), list[str | None]()

    @log.consumer("one", batch=batch, settings=NEVER)
    async def one(given: Given) -> None:
        for event in several(given):
            if event.data in REFUSED:
                raise stranger(event.data)(f"out of {event.data}")
        handled.extend(event.data for event in several(given))

    async with log:
        orders.deliver("before", *REFUSED, "after")
        await orders.finished()

    assert handled == ["before", "after"]
    assert [
        (dead.event.data, dead.reason) for dead in rowbus.Log(orders.connection, "orders").dead_letters("one")
    ] == [(refused, f"tests.fixtures.strangers.Stranger: out of {refused}") for refused in REFUSED]


@pytest.mark.parametrize("batch", [False, True])
async def test_an_event_that_fails_is_retried_alone_and_what_the_others_did_stands(
    orders: Orders, *, batch: bool
) -> None:
    log = orders.log()

    @log.consumer("one", batch=batch, settings=QUICK)
    async def one(given: Given, context: rowbus.LogContext) -> None:
        for event in several(given):
            await note(context, event)
            if event.data == "3" and event.retry is None:
                raise ValueError

    async with log:
        orders.deliver(*texts(range(7)))
        await orders.finished()
        assert orders.seen() == ["0", "1", "2", "4", "5", "6"]
        assert orders.redeliver() == 1
        await orders.finished()
    assert orders.seen() == ["0", "1", "2", "4", "5", "6", "3"]
    assert retry_queue(orders) == []


async def test_only_the_events_that_fail_are_retried_however_many(orders: Orders) -> None:
    log = orders.log()
    bad = {"0", "4", "5", "9"}

    @log.consumer("one", batch=True, settings=QUICK)
    async def one(events: list[rowbus.Event], context: rowbus.LogContext) -> None:
        await note(context, *events)
        if bad & {event.data for event in events}:
            raise ValueError

    async with log:
        orders.deliver(*texts(range(10)))
        await orders.finished()
    assert set(orders.seen()) == set(texts(range(10))) - bad
    assert {data for data, _, _ in retry_queue(orders)} == bad


async def test_retries_are_ever_further_apart(orders: Orders) -> None:
    log = orders.log()

    @log.consumer("one", settings=replace(QUICK, retry_delay=timedelta(seconds=100), max_retries=5))
    async def one(_event: rowbus.Event) -> None:
        raise ValueError

    async with log:
        orders.deliver("a")
        await orders.finished()
        ((_, count, seconds),) = retry_queue(orders)
        assert count == 1
        assert 75 <= seconds <= 120
        orders.connection.execute("update pgq.retry_queue set ev_retry_after = now()")
        orders.redeliver()
        await orders.finished()
        ((_, count, seconds),) = retry_queue(orders)
        assert count == 2
        assert 155 <= seconds <= 240


@pytest.mark.parametrize("batch", [False, True])
async def test_an_event_that_fails_too_often_becomes_a_dead_letter_with_its_reason(
    orders: Orders, *, batch: bool
) -> None:
    log = orders.log()
    tried = list[int | None]()

    @log.consumer("one", batch=batch, settings=replace(QUICK, max_retries=2))
    async def one(given: Given) -> None:
        tried.append(several(given)[0].retry)
        raise ValueError("no price")

    async with log:
        orders.deliver("a")
        for _ in range(3):
            await orders.finished()
            orders.redeliver()
        await orders.finished()
        (dead,) = log.dead_letters("one")
    assert tried == [None, 1, 2]
    assert (dead.reason, dead.event.data, dead.event.retry) == ("ValueError: no price", "a", 2)
    assert retry_queue(orders) == []


async def test_without_a_setting_the_log_says_how_often_to_retry(orders: Orders) -> None:
    log = orders.log()
    orders.connection.execute("select pgq.set_queue_option('orders', 'max_retries', '0')")

    @log.consumer("one", settings=replace(QUICK, max_retries=None))
    async def one(_event: rowbus.Event) -> None:
        raise ValueError

    async with log:
        orders.deliver("a")
        await orders.finished()
    assert len(log.dead_letters("one")) == 1


async def test_an_unrecoverable_event_is_not_retried(orders: Orders) -> None:
    log = orders.log()

    @log.consumer("one", settings=QUICK)
    async def one(_event: rowbus.Event) -> None:
        raise rowbus.Unrecoverable("no such tent")

    async with log:
        orders.deliver("a")
        await orders.finished()
    (dead,) = log.dead_letters("one")
    assert dead.reason == "rowbus.errors.Unrecoverable: no such tent"


async def test_dead_letters_are_replayed_as_if_for_the_first_time(orders: Orders) -> None:
    log = orders.log()
    broken = True

    @log.consumer("one", settings=NEVER)
    async def one(event: rowbus.Event, context: rowbus.LogContext) -> None:
        if broken:
            raise ValueError
        assert event.retry is None or event.retry == 0
        await note(context, event)

    async with log:
        orders.deliver("a", "b", "c")
        await orders.finished()
        broken = False
        first, *_ = log.dead_letters("one")
        assert log.replay("one", [first.id]) == 1
        assert log.replay("one") == 2
        assert log.replay("one") == 0
        orders.redeliver()
        await orders.finished()
    assert orders.seen() == ["a", "b", "c"]
    assert log.dead_letters("one") == []


async def test_dead_letters_are_purged_all_or_the_old_ones(orders: Orders) -> None:
    log = orders.log()

    @log.consumer("one", settings=NEVER)
    async def one(_event: rowbus.Event) -> None:
        raise ValueError

    async with log:
        orders.deliver("a", "b")
        await orders.finished()
    assert len(log.dead_letters("one", most=1)) == 1
    assert log.purge("one", before=datetime(2000, 1, 1, tzinfo=UTC)) == 0
    assert log.purge("one") == 2
    assert log.dead_letters("one") == []


async def test_a_handler_may_itself_retry_or_put_aside_single_events_of_several(orders: Orders) -> None:
    log = orders.log()

    @log.consumer("one", batch=True, settings=QUICK)
    async def one(events: list[rowbus.Event], context: rowbus.LogContext) -> None:
        await note(context, *events)
        context.retry(events[0], timedelta(seconds=49.5))
        context.dead_letter(events[1], "unwanted")

    async with log:
        orders.deliver("a", "b", "c")
        await orders.finished()
    assert orders.seen() == ["a", "b", "c"]
    assert retry_queue(orders) == [("a", 1, 50)]
    assert [(dead.event.data, dead.reason) for dead in log.dead_letters("one")] == [("b", "unwanted")]


async def test_verdicts_of_a_call_that_fails_do_not_count(orders: Orders) -> None:
    log = orders.log()

    @log.consumer("one", settings=NEVER)
    async def one(event: rowbus.Event, context: rowbus.LogContext) -> None:
        context.retry(event, timedelta(0))
        raise ValueError

    async with log:
        orders.deliver("a")
        await orders.finished()
    assert retry_queue(orders) == []
    assert len(log.dead_letters("one")) == 1


@pytest.mark.parametrize("whole", [False, True])
@pytest.mark.parametrize("batch", [False, True])
async def test_an_event_that_only_the_commit_refuses_is_found_and_put_aside(
    orders: Orders, *, batch: bool, whole: bool
) -> None:
    """A deferred constraint fails long after the handler has returned."""
    orders.connection.execute("create table ids (id text unique deferrable initially deferred)")
    orders.connection.execute("insert into ids values ('3')")
    log = orders.log()

    @log.consumer("one", batch=batch, settings=replace(NEVER, whole_batches=whole))
    async def one(given: Given, context: rowbus.LogContext) -> None:
        for event in several(given):
            await context.connection.execute("insert into ids values (%s)", [event.data])

    async with log:
        orders.deliver(*texts(range(6)))
        await orders.finished()
    assert sorted(data for (data,) in orders.all("select id from ids")) == texts(range(6))
    (dead,) = log.dead_letters("one")
    assert dead.event.data == "3"
    assert "constraint" in dead.reason


@pytest.mark.parametrize("asynchronous", [False, True])
async def test_an_event_whose_handler_ends_the_transaction_is_put_aside(
    orders: Orders, *, asynchronous: bool
) -> None:
    log = orders.log()

    async def ending(event: rowbus.Event, context: rowbus.LogContext) -> None:
        if event.data == "bad":
            await context.connection.execute("select 1; rollback")
        else:
            await note(context, event)

    def ending_in_a_thread(event: rowbus.Event, context: rowbus.SyncLogContext) -> None:
        context.connection.execute(
            *("select 1; rollback",)
            if event.data == "bad"
            else ("insert into seen (data) values (%s)", [event.data])
        )

    log.consumer("one", settings=NEVER)(ending if asynchronous else ending_in_a_thread)
    async with log:
        orders.deliver("a", "bad", "b")
        await orders.finished()
    assert orders.seen() == ["a", "b"]
    (dead,) = log.dead_letters("one")
    assert (dead.event.data, "ended the transaction" in dead.reason) == ("bad", True)


async def test_a_handler_that_swallows_an_error_of_the_database_fails(orders: Orders) -> None:
    log = orders.log()

    @log.consumer("one", settings=NEVER)
    async def one(event: rowbus.Event, context: rowbus.LogContext) -> None:
        if event.data == "bad":
            with suppress(psycopg.Error):
                await context.connection.execute("select 1 / 0")
        else:
            await note(context, event)

    async with log:
        orders.deliver("a", "bad", "b")
        await orders.finished()
    assert orders.seen() == ["a", "b"]
    (dead,) = log.dead_letters("one")
    assert "spoilt" in dead.reason


async def test_a_failure_that_is_not_the_events_fault_is_not_counted(orders: Orders) -> None:
    log, handled, lost = orders.log(), asyncio.Semaphore(0), asyncio.Event()

    @log.consumer("one", settings=NEVER)
    async def one(event: rowbus.Event, context: rowbus.LogContext) -> None:
        handled.release()
        if not lost.is_set():
            lost.set()
            orders.end_sessions()
        await note(context, event)

    async with log:
        orders.deliver("a")
        await times(handled, 2)
        await orders.finished()
    assert orders.seen() == ["a"]
    assert log.dead_letters("one") == []


async def test_a_call_of_a_context_that_is_not_awaited_fails_the_attempt(orders: Orders) -> None:
    log = orders.log()

    @log.consumer("one", settings=replace(QUICK, max_retries=0))
    async def one(event: rowbus.Event, context: rowbus.LogContext) -> None:
        await note(context, event)
        context.send("Billing", {}, type="Shop.A")  # type: ignore[unused-coroutine]  # pyright: ignore[reportUnusedCoroutine]

    @log.consumer("two", settings=replace(QUICK, max_retries=0))
    async def two(event: rowbus.Event, context: rowbus.LogContext) -> Awaitable[None]:
        return note(context, event)

    async with log:
        orders.deliver("a")
        await orders.finished()
        await orders.finished("two")
        (forgotten,), (returned,) = log.dead_letters("one"), log.dead_letters("two")
    assert "called context.send(…) and did not await it: write `await`" in forgotten.reason
    assert "two returned an unused coroutine, of which nothing ran" in returned.reason
    assert orders.seen() == []
    assert orders.seen() == []
