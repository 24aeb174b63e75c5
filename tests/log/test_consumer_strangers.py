"""Consumers' handlers that do all they should not: their events are dead letters, and the others are handled."""

from __future__ import annotations

import asyncio
import contextvars
import decimal
import sys
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import replace

import pytest

import rowbus
from tests.log.orders import QUICK, Orders, note

NEVER = replace(QUICK, max_retries=0)
MANY = "select n from generate_series(1, 100000) n"

pytestmark = pytest.mark.one_version

tenant: contextvars.ContextVar[str] = contextvars.ContextVar("tenant", default="")
left: list[object] = []


class Panic(BaseException):
    """Stands for what PyO3 makes of a Rust panic."""


def _raise(error: BaseException) -> None:
    raise error


RAISES: dict[str, Callable[[], object]] = {
    "panic": lambda: _raise(Panic("a panic")),
    "generator exit": lambda: _raise(GeneratorExit()),
    "exit": lambda: sys.exit(2),
    "interrupt": lambda: _raise(KeyboardInterrupt()),
    "cancelled": lambda: _raise(asyncio.CancelledError()),
}


async def _cancel_itself(_context: rowbus.LogContext) -> None:
    task = asyncio.current_task()
    assert task is not None
    task.cancel()
    await asyncio.sleep(0)


async def _raise_in_a_stream(context: rowbus.LogContext) -> None:
    rows = context.connection.cursor().stream(MANY)
    async for _row in rows:
        raise ValueError


async def _leave_long_sql(context: rowbus.LogContext) -> None:
    async def fail() -> None:
        await asyncio.sleep(0)
        raise ValueError

    await asyncio.gather(context.connection.execute("select pg_sleep(100)"), fail())


ASYNC: dict[str, Callable[[rowbus.LogContext], Awaitable[None]]] = {
    "cancels itself": _cancel_itself,
    "stream": _raise_in_a_stream,
    "long SQL": _leave_long_sql,
}


STOPS = "stops its own log"
BUSY = {"c", "f"}


@pytest.mark.parametrize("kind", ["async def", "def"])
async def test_whatever_a_handler_does_is_its_events_failure(orders: Orders, kind: str) -> None:
    log, loop = orders.log(), asyncio.get_running_loop()

    def look(data: str) -> None:
        assert (tenant.get(), decimal.getcontext().prec) == ("", decimal.DefaultContext.prec)
        tenant.set(data)
        decimal.getcontext().prec = 4
        RAISES.get(data, lambda: None)()

    if kind == "def":

        @log.consumer("one", settings=NEVER)
        def one(event: rowbus.Event, context: rowbus.SyncLogContext) -> None:
            context.connection.execute("insert into seen (data) values (%s)", [event.data])
            look(str(event.data))
            if event.data == STOPS:
                asyncio.run_coroutine_threadsafe(log.stop(), loop).result()

    else:

        @log.consumer("one", settings=NEVER)
        async def one_async(event: rowbus.Event, context: rowbus.LogContext) -> None:
            await note(context, event)
            look(str(event.data))
            if event.data in ASYNC:
                await ASYNC[event.data](context)
            elif event.data == STOPS:
                await log.stop()

    bad = [*RAISES, *(ASYNC if kind == "async def" else ()), STOPS]
    async with log:
        orders.deliver("first", *bad, "last")
        await orders.finished()
        dead = [letter.event.data for letter in log.dead_letters("one")]
    assert orders.seen() == ["first", "last"]
    assert dead == bad


async def test_an_event_that_leaves_its_connection_busy_costs_the_others_one_more_call(
    orders: Orders,
) -> None:
    log, calls = orders.log(), Counter[str]()

    @log.consumer("one", settings=NEVER)
    async def one(event: rowbus.Event, context: rowbus.LogContext) -> None:
        calls[str(event.data)] += 1
        await note(context, event)
        if event.data in BUSY:
            await _raise_in_a_stream(context)

    async with log:
        orders.deliver(*"abcdefgh")
        await orders.finished()
        dead = {letter.event.data: letter.reason for letter in log.dead_letters("one")}
    assert orders.seen() == [*"abdegh"]
    assert dead.keys() == BUSY
    assert all("in the midst of something" in reason for reason in dead.values())
    assert calls == Counter("abcdefgh") + Counter("abde")


async def test_a_task_that_a_handler_leaves_writes_in_no_other_transaction(
    orders: Orders, caplog: pytest.LogCaptureFixture
) -> None:
    log = orders.log()

    async def linger(context: rowbus.LogContext, event: rowbus.Event) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await note(context, event)

    @log.consumer("one", settings=NEVER)
    async def one(event: rowbus.Event, context: rowbus.LogContext) -> None:
        left.append(asyncio.create_task(linger(context, event), name="lingering"))
        if event.data == "fails":
            raise ValueError

    async with log:
        orders.deliver("first", "fails", "last")
        await orders.finished()
    assert orders.seen() == []
    told = [each.getMessage() for each in caplog.records if "left tasks running" in each.getMessage()]
    assert len(told) == 3
    assert told[0].startswith("The handler of one of log orders, with batch ")
    left.clear()
