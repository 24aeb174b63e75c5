"""Handlers that do all they should not: each is counted and given up on, and nothing of it reaches another message."""

from __future__ import annotations

import argparse
import asyncio
import contextvars
import decimal
import logging
import sys
import threading
from collections import Counter
from collections.abc import Awaitable, Callable, Generator
from typing import Any

import pytest
from psycopg.rows import dict_row
from psycopg.types.string import TextLoader

import rowbus
from rowbus.transport.recoverability.policy import Verdict
from tests.conformance.backend import Backend
from tests.conformance.endpoints import ERROR, NO_RETRIES, Endpoints, PlaceOrder
from tests.conformance.on_postgresql import WRITE_BUSINESS
from tests.conformance.transport import eventually, in_all_modes

pytestmark = pytest.mark.only("PostgreSQL", reason="its handlers use psycopg's streams and copies")

POLICY = rowbus.Recoverability(immediate=2, delayed=0)
ATTEMPTS = 3
GOOD = [f"{n:02}" for n in range(10)]
MANY = "select n from generate_series(1, 100000) n"
COPY = "copy business from stdin"

tenant: contextvars.ContextVar[str] = contextvars.ContextVar("tenant", default="")


class Panic(BaseException):
    """Stands for what PyO3 makes of a Rust panic."""


def _raise(error: BaseException) -> None:
    raise error


RAISES: dict[str, Callable[[], object]] = {
    "panic": lambda: _raise(Panic("a panic")),
    "generator exit": lambda: _raise(GeneratorExit()),
    "exit": lambda: sys.exit(2),
    "argparse": lambda: argparse.ArgumentParser(exit_on_error=True).parse_args(["--no-such-option"]),
    "interrupt": lambda: _raise(KeyboardInterrupt()),
    "group": lambda: _raise(BaseExceptionGroup("two", [ValueError(), KeyboardInterrupt()])),
    "cancelled": lambda: _raise(asyncio.CancelledError()),
}

STOPS = "stops its own endpoint"

left: list[object] = []  # what handlers keep a hold of


async def _cancels_itself(_context: rowbus.Context) -> None:
    task = asyncio.current_task()
    assert task is not None
    task.cancel()
    await asyncio.sleep(0)


async def _is_cancelled_by_a_timer(_context: rowbus.Context) -> None:
    task = asyncio.current_task()
    assert task is not None
    asyncio.get_running_loop().call_soon(task.cancel)
    await asyncio.Event().wait()


async def _cancels_itself_unnoticed(_context: rowbus.Context) -> None:
    task = asyncio.current_task()
    assert task is not None
    task.cancel()
    raise ValueError


async def _exits_in_a_task(_context: rowbus.Context) -> None:
    async def exits() -> None:
        sys.exit(3)

    await asyncio.gather(exits(), asyncio.sleep(0))


async def _raises_in_a_stream(context: rowbus.Context) -> None:
    rows = context.connection.cursor().stream(MANY)
    async for _row in rows:
        raise ValueError


async def _keeps_a_stream(context: rowbus.Context) -> None:
    rows = context.connection.cursor().stream(MANY)
    left.append(rows)
    await anext(rows)


async def _keeps_a_copy(context: rowbus.Context) -> None:
    copy = context.connection.cursor().copy(COPY)
    left.append(copy)
    await copy.__aenter__()
    raise ValueError


async def _leaves_long_sql(context: rowbus.Context) -> None:
    await asyncio.gather(context.connection.execute("select pg_sleep(100)"), _fail())


async def _fail() -> None:
    await asyncio.sleep(0)
    raise ValueError


ASYNC: dict[str, Callable[[rowbus.Context], Awaitable[None]]] = {
    "cancels itself": _cancels_itself,
    "cancels itself unnoticed": _cancels_itself_unnoticed,
    "timer": _is_cancelled_by_a_timer,
    "exits in a task": _exits_in_a_task,
    "stream": _raises_in_a_stream,
    "stream kept": _keeps_a_stream,
    "copy kept": _keeps_a_copy,
    "long SQL": _leaves_long_sql,
}


def _raises_in_a_sync_stream(context: rowbus.SyncContext) -> None:
    rows = context.connection.cursor().stream(MANY)
    for _row in rows:
        raise ValueError


def _keeps_a_sync_stream(context: rowbus.SyncContext) -> None:
    rows = context.connection.cursor().stream(MANY)
    left.append(rows)
    next(rows)


def _keeps_a_sync_copy(context: rowbus.SyncContext) -> None:
    copy = context.connection.cursor().copy(COPY)
    left.append(copy)
    copy.__enter__()


DEF: dict[str, Callable[[rowbus.SyncContext], None]] = {
    "stream": _raises_in_a_sync_stream,
    "stream kept": _keeps_a_sync_stream,
    "copy kept": _keeps_a_sync_copy,
}


@pytest.fixture(autouse=True)
def _keep_nothing() -> Generator[None]:
    yield
    left.clear()


class Strangers:
    """An endpoint whose handler does what its message names, and how often it did so."""

    def __init__(self, endpoints: Endpoints, kind: str, **settings: Any) -> None:  # noqa: ANN401 - the settings' own
        self.attempts: Counter[str] = Counter()
        self.critical: list[str] = []
        self.endpoint = endpoints.make(
            "Sales",
            concurrency=2,
            recoverability=POLICY,
            on_critical_error=lambda text, _error: self.critical.append(text),
            **settings,
        )
        self.orders = [*RAISES, *(ASYNC if kind == "async def" else DEF), STOPS]
        self.loop = asyncio.get_running_loop()
        self.endpoint.handler(self.place if kind == "async def" else self.place_blocking)

    async def place(self, message: PlaceOrder, context: rowbus.Context) -> None:
        await context.connection.execute(WRITE_BUSINESS, [message.order_id])
        self.attempts[message.order_id] += 1
        if message.order_id in RAISES:
            RAISES[message.order_id]()
        elif message.order_id in ASYNC:
            await ASYNC[message.order_id](context)
        elif message.order_id == STOPS:
            await self.endpoint.stop()

    def place_blocking(self, message: PlaceOrder, context: rowbus.SyncContext) -> None:
        context.connection.execute(WRITE_BUSINESS, [message.order_id])
        self.attempts[message.order_id] += 1
        if message.order_id in RAISES:
            RAISES[message.order_id]()
        elif message.order_id in DEF:
            DEF[message.order_id](context)
        elif message.order_id == STOPS:
            asyncio.run_coroutine_threadsafe(self.endpoint.stop(), self.loop).result()


async def holds(backend: Backend, queue: str, count: int) -> bool:
    return await backend.count(queue) == count


@pytest.mark.parametrize("kind", ["async def", "def"])
@pytest.mark.parametrize("batch_size", [1, 10])
async def test_whatever_a_handler_does_counts_and_ends_nothing(
    endpoints: Endpoints, kind: str, batch_size: int, caplog: pytest.LogCaptureFixture
) -> None:
    backend, strangers = endpoints.backend, Strangers(endpoints, kind, batch_size=batch_size)
    await backend.create_business_tables()
    await strangers.endpoint.install()
    await backend.client().send_many("Sales", map(PlaceOrder, [*strangers.orders, *GOOD]))

    async with strangers.endpoint:
        await eventually(lambda: holds(backend, ERROR, len(strangers.orders)))
        await eventually(lambda: holds(backend, "Sales", 0))

    assert sorted(await backend.business()) == GOOD
    tried = {order: strangers.attempts[order] for order in strangers.orders}
    assert batch_size > 1 or tried == dict.fromkeys(strangers.orders, ATTEMPTS)
    assert min(tried.values()) >= ATTEMPTS
    assert strangers.critical == []
    assert not [record for record in caplog.records if record.levelno >= logging.CRITICAL]


@pytest.mark.parametrize("does", [_keeps_a_stream, _keeps_a_copy, _raises_in_a_stream])
async def test_nobody_waits_for_what_an_earlier_handler_of_the_message_left_open(
    endpoints: Endpoints, does: Callable[[rowbus.Context], Awaitable[None]]
) -> None:
    backend = endpoints.backend
    await backend.create_business_tables()
    sales = endpoints.make("Sales", concurrency=1, recoverability=POLICY)

    @sales.handler
    async def first(message: PlaceOrder, context: rowbus.Context) -> None:
        if message.order_id == "bad":
            await does(context)

    @sales.handler
    async def second(message: PlaceOrder, context: rowbus.Context) -> None:
        await _write(context, message.order_id)

    async def step(context: rowbus.StepContext, proceed: rowbus.Proceed) -> None:
        try:
            await proceed()
        finally:
            await context.connection.execute(WRITE_BUSINESS, ["step"])

    for own_step in (None, step):
        if own_step is not None:
            sales.use(own_step)
        async with sales:
            await backend.client().send_many("Sales", map(PlaceOrder, ["bad", "good"]))
            await eventually(lambda: holds(backend, "Sales", 0))
    assert await backend.count(ERROR) == 2
    assert sorted(await backend.business()) == ["good", "good", "step"]


async def _write(context: rowbus.Context, order: str) -> None:
    await asyncio.sleep(0)
    await context.connection.execute(WRITE_BUSINESS, [order])


async def _send_at_once(context: rowbus.Context, order: str) -> None:
    await context.send("Sales", PlaceOrder(order), immediate=True)


async def _send(context: rowbus.Context, order: str) -> None:
    await context.send("Sales", PlaceOrder(order))


@pytest.mark.parametrize("fails", ["once", "always", "never"])
@pytest.mark.parametrize("does", [_write, _send, _send_at_once])
async def test_a_task_that_a_handler_leaves_is_named_and_cancelled_and_changes_nothing(
    endpoints: Endpoints,
    caplog: pytest.LogCaptureFixture,
    fails: str,
    does: Callable[[rowbus.Context, str], Awaitable[None]],
) -> None:
    backend, attempts = endpoints.backend, Counter[str]()
    await backend.create_business_tables()
    sales = endpoints.make("Sales", concurrency=1, recoverability=POLICY)

    async def linger(context: rowbus.Context, order: str) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await does(context, f"left by {order}")

    @sales.handler
    async def place(message: PlaceOrder, context: rowbus.Context) -> None:
        attempts[message.order_id] += 1
        left.append(asyncio.create_task(linger(context, message.order_id), name="lingering"))
        if fails == "always" or (fails == "once" and attempts[message.order_id] == 1):
            raise ValueError
        await context.connection.execute(WRITE_BUSINESS, [message.order_id])

    async with sales:
        await sales.send("Sales", PlaceOrder("42"))
        await eventually(lambda: holds(backend, "Sales", 0))

    assert await backend.business() == ([] if fails == "always" else ["42"])
    assert await backend.count(ERROR) == (fails == "always")
    assert all(task.done() for task in left if isinstance(task, asyncio.Task))
    named = [record.getMessage() for record in caplog.records if "left tasks running" in record.getMessage()]
    assert named
    assert all("lingering" in line and "place" in line for line in named)


async def test_a_task_may_go_on_where_the_settings_say_so_but_not_on_the_connection(
    endpoints: Endpoints,
) -> None:
    backend, go_on = endpoints.backend, asyncio.Event()
    await backend.create_business_tables()
    sales = endpoints.make("Sales", concurrency=1, recoverability=POLICY, keep_tasks=True)

    async def linger(context: rowbus.Context) -> str:
        await go_on.wait()
        with pytest.raises(rowbus.HandlerError, match="uses a connection"):
            await _write(context, "left")
        return "went on"

    tasks = list[asyncio.Task[str]]()

    @sales.handler
    async def place(_message: PlaceOrder, context: rowbus.Context) -> None:
        tasks.append(asyncio.create_task(linger(context)))

    async with sales:
        await sales.send("Sales", PlaceOrder("42"))
        await eventually(lambda: holds(backend, "Sales", 0))
        go_on.set()
        assert await asyncio.gather(*tasks) == ["went on"]
    assert await backend.business() == []


async def test_what_a_failed_attempt_started_is_written_in_no_other_transaction(endpoints: Endpoints) -> None:
    backend, attempts = endpoints.backend, Counter[str]()
    await backend.create_business_tables()
    sales = endpoints.make("Sales", concurrency=2, recoverability=POLICY)

    async def fail(order: str) -> None:
        await asyncio.sleep(0)
        attempts[order] += 1
        if attempts[order] == 1:
            raise ValueError

    @sales.handler
    async def place(message: PlaceOrder, context: rowbus.Context) -> None:
        await asyncio.gather(_write(context, message.order_id), fail(message.order_id))

    async with sales:
        for order in GOOD:
            await sales.send("Sales", PlaceOrder(order))
        await eventually(lambda: holds(backend, "Sales", 0))

    assert sorted(await backend.business()) == GOOD
    assert await backend.count(ERROR) == 0


async def test_a_thread_that_a_handler_leaves_cannot_use_the_next_ones_transaction(
    endpoints: Endpoints,
) -> None:
    backend, go_on, refused = endpoints.backend, threading.Event(), list[str]()
    threads = list[threading.Thread]()
    await backend.create_business_tables()
    sales = endpoints.make("Sales", concurrency=1, recoverability=POLICY)

    def write(context: rowbus.SyncContext) -> None:
        go_on.wait()
        try:
            context.connection.execute(WRITE_BUSINESS, ["left"])
        except rowbus.HandlerError as error:
            refused.append(str(error))

    @sales.handler
    def place(message: PlaceOrder, context: rowbus.SyncContext) -> None:
        if message.order_id == "leaves":
            threads.append(threading.Thread(target=write, args=(context,)))
            threads[0].start()
        else:
            context.connection.execute(WRITE_BUSINESS, [message.order_id])
            go_on.set()
            threads[0].join()

    async with sales:
        await sales.send("Sales", PlaceOrder("leaves"))
        await eventually(lambda: holds(backend, "Sales", 0))
        await sales.send("Sales", PlaceOrder("next"))
        await eventually(lambda: holds(backend, "Sales", 0))

    assert await backend.business() == ["next"]
    assert len(refused) == 1


@pytest.mark.parametrize("kind", ["async def", "def"])
@pytest.mark.parametrize("batch_size", [1, 10])
async def test_a_context_variable_is_not_there_for_the_next_message_nor_attempt(
    endpoints: Endpoints, kind: str, batch_size: int
) -> None:
    backend, seen, attempts = endpoints.backend, list[tuple[str, int]](), Counter[str]()
    in_step = list[str]()
    sales = endpoints.make("Sales", concurrency=1, batch_size=batch_size, recoverability=POLICY)

    def look(order: str) -> None:
        seen.append((tenant.get(), decimal.getcontext().prec))
        tenant.set(order)
        decimal.getcontext().prec = 4
        attempts[order] += 1
        if order == "fails" and attempts[order] < ATTEMPTS:
            raise ValueError

    @sales.use
    async def keep_tenant(_context: rowbus.StepContext, proceed: rowbus.Proceed) -> None:
        in_step.append(tenant.get())
        tenant.set("of the step")
        await proceed()

    if kind == "def":

        @sales.handler
        def place(message: PlaceOrder) -> None:
            look(message.order_id)

    else:

        @sales.handler
        async def place_async(message: PlaceOrder) -> None:
            look(message.order_id)

    await sales.install()
    await backend.client().send_many("Sales", map(PlaceOrder, ["first", "fails", "second"]))
    async with sales:
        await eventually(lambda: holds(backend, "Sales", 0))

    assert set(in_step) == {""}
    assert set(seen) == {("of the step", decimal.DefaultContext.prec)}
    assert sum(attempts.values()) >= ATTEMPTS + 2


SETTINGS = {
    "role": "set role stranger",
    "authorization": "set session authorization stranger",
    "read only": "set default_transaction_read_only = on",
    "search path": "set search_path = nowhere",
    "time zone": "set timezone = 'Asia/Kolkata'",
    "timeout": "set statement_timeout = '1min'",
    "by a function": "select set_config('role', 'stranger', false)",
    "local role": "set local role stranger",
}


@in_all_modes
@pytest.mark.parametrize("batch_size", [1, 10])
async def test_a_setting_that_a_handler_changes_is_there_for_nobody_else(
    endpoints: Endpoints, batch_size: int
) -> None:
    backend, seen = endpoints.backend, set[tuple[object, ...]]()
    await backend.create_business_tables()
    await backend.connection.execute("create role stranger")
    await backend.connection.execute("grant all on all tables in schema public to stranger")
    sales = endpoints.make("Sales", concurrency=1, batch_size=batch_size, recoverability=NO_RETRIES)
    await sales.install()
    await backend.connection.execute('revoke all on "Sales", error from stranger')

    @sales.handler
    async def place(message: PlaceOrder, context: rowbus.Context) -> None:
        current = "select current_user, " + ", ".join(
            f"current_setting('{name}')"
            for name in ("default_transaction_read_only", "search_path", "timezone", "statement_timeout")
        )
        seen.update(await (await context.connection.execute(current)).fetchall())
        await context.connection.execute(WRITE_BUSINESS, [message.order_id])
        if message.order_id in SETTINGS:
            await context.connection.execute(SETTINGS[message.order_id])
            await context.send("Sales", PlaceOrder(f"after {message.order_id}"))

    await backend.client().send_many("Sales", map(PlaceOrder, SETTINGS))
    async with sales:
        await eventually(lambda: holds(backend, "Sales", 0))

    assert len(seen) == 1
    assert await backend.count(ERROR) == 0
    assert sorted(await backend.business()) == sorted([*SETTINGS, *(f"after {order}" for order in SETTINGS)])


WAYS: dict[str, Callable[[Any], object]] = {
    "rows": lambda connection: setattr(connection, "row_factory", dict_row),
    "cursors": lambda connection: setattr(connection, "cursor_factory", object),
    "named cursors": lambda connection: setattr(connection, "server_cursor_factory", object),
    "adapters": lambda connection: connection.adapters.register_loader("int4", TextLoader),
    "notices": lambda connection: connection.add_notice_handler(left.append),
    "attributes": lambda connection: setattr(connection, "tenant", "blue"),
    "methods": lambda connection: setattr(connection, "execute", None),
}
NOTICE = "do $$ begin raise notice 'heard'; end $$"


@pytest.mark.parametrize("kind", ["async", "def"])
@pytest.mark.parametrize("batch_size", [1, 10])
async def test_what_a_handler_sets_of_its_connection_is_there_for_nobody_else(
    endpoints: Endpoints, batch_size: int, kind: str
) -> None:
    backend, seen = endpoints.backend, list[object]()
    sales = endpoints.make("Sales", concurrency=1, batch_size=batch_size, recoverability=NO_RETRIES)

    if kind == "def":

        @sales.handler
        def place(message: PlaceOrder, context: rowbus.SyncContext) -> None:
            seen.append(context.connection.execute("select 1").fetchone())
            seen.append(context.connection.server_cursor_factory is not object)
            seen.append(hasattr(context.connection, "tenant"))
            context.connection.execute(NOTICE)
            WAYS[message.order_id](context.connection)

    else:

        @sales.handler
        async def place_async(message: PlaceOrder, context: rowbus.Context) -> None:
            seen.append(await (await context.connection.execute("select 1")).fetchone())
            seen.append(context.connection.server_cursor_factory is not object)
            seen.append(hasattr(context.connection, "tenant"))
            await context.connection.execute(NOTICE)
            WAYS[message.order_id](context.connection)

    await sales.install()
    await backend.client().send_many("Sales", map(PlaceOrder, [*WAYS, *WAYS]))
    async with sales:
        await eventually(lambda: holds(backend, "Sales", 0))

    assert seen == [(1,), True, False] * 2 * len(WAYS)
    assert left == []
    assert await backend.count(ERROR) == 0


async def test_a_decimal_context_of_the_programs_own_is_there_for_each_message(endpoints: Endpoints) -> None:
    seen = list[int]()

    with decimal.localcontext(prec=50):
        sales = endpoints.make("Sales", concurrency=1)

        @sales.handler
        async def place(_message: PlaceOrder) -> None:
            seen.append(decimal.getcontext().prec)
            decimal.getcontext().prec = 4

        async with sales:
            for order in "12":
                await sales.send("Sales", PlaceOrder(order))
            await eventually(lambda: seen == [50, 50])
        assert decimal.getcontext().prec == 50


async def test_a_policy_that_panics_or_gives_no_verdict_counts_as_its_base_does(endpoints: Endpoints) -> None:
    backend = endpoints.backend
    verdicts: list[Callable[[], object]] = [*RAISES.values(), lambda: None]

    class Careless(rowbus.Recoverability):
        def decide(self, attempt: rowbus.FailedAttempt) -> Verdict:
            return verdicts[attempt.failures - 1]()  # type: ignore[return-value]  # the mistake

    critical = list[str]()
    sales = endpoints.make(
        "Sales",
        concurrency=1,
        recoverability=Careless(immediate=len(verdicts) - 1, delayed=0),
        on_critical_error=lambda text, _error: critical.append(text),
    )

    @sales.handler
    async def place(message: PlaceOrder) -> None:
        if message.order_id == "bad":
            raise ValueError

    async with sales:
        await sales.send("Sales", PlaceOrder("bad"))
        await eventually(lambda: holds(backend, ERROR, 1))
        await sales.send("Sales", PlaceOrder("good"))
        await eventually(lambda: holds(backend, "Sales", 0))
    assert len(critical) == len(verdicts)
    assert all("recoverability policy" in text for text in critical)


async def test_a_key_of_a_limit_that_panics_fails_its_message_alone(endpoints: Endpoints) -> None:
    backend = endpoints.backend
    sales = endpoints.make("Sales", concurrency=1, recoverability=NO_RETRIES)

    def key(message: PlaceOrder) -> str:
        RAISES.get(message.order_id, lambda: None)()
        return message.order_id

    @sales.handler(limit=rowbus.RateLimit("1000/second", by=key))
    async def place(message: PlaceOrder) -> None:
        pass

    async with sales:
        for order in [*RAISES, "good"]:
            await sales.send("Sales", PlaceOrder(order))
        await eventually(lambda: holds(backend, ERROR, len(RAISES)))
        await eventually(lambda: holds(backend, "Sales", 0))
