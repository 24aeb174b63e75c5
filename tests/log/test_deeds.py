"""Deeds of strangers' code fail by themselves, wherever it is called, and leave nothing for what comes next.

Each place is one endpoint or log with one slot, so that what comes next has the same connection. Between two deeds a
good message looks around.
"""

from __future__ import annotations

import argparse
import asyncio
import contextvars
import decimal
import inspect
import json
import logging
import sys
import warnings
from collections.abc import Awaitable, Callable, Generator, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

import pytest

import rowbus
from rowbus.running.waiting import cancel
from tests.conformance.endpoints import NO_RETRIES
from tests.conformance.transport import eventually
from tests.fixtures.strangers import Panic, stranger
from tests.log.orders import QUICK, Orders

pytestmark = pytest.mark.one_version

tenant: contextvars.ContextVar[str] = contextvars.ContextVar("tenant", default="")
left: list[object] = []  # what was left open


@pytest.fixture(autouse=True)
def _keep_nothing() -> Generator[None]:
    yield
    left.clear()


def _raise(error: BaseException) -> None:
    raise error


def _circular() -> None:
    first, second = ValueError("first"), ValueError("second")
    first.__cause__, second.__cause__ = second, first
    raise first


class NotPickledError(ValueError):
    def __reduce__(self) -> Any:  # noqa: ANN401 - the protocol's
        raise TypeError("not pickled")


def _set_variables() -> None:
    tenant.set("of a stranger")
    decimal.getcontext().prec = 4


def _leave_a_block(connection: Any) -> Any:  # noqa: ANN401 - of either kind
    block = connection.transaction()
    left.append(block)
    return block.__aenter__() if hasattr(block, "__aenter__") else block.__enter__()


def _set_autocommit(connection: Any) -> Any:  # noqa: ANN401 - of either kind
    return connection.set_autocommit(True)


Step = str | Callable[[], object]
OnConnection = Callable[[Any], object]

RAISES: dict[str, Callable[[], object]] = {
    "panic": lambda: _raise(Panic("a panic")),
    "generator exit": lambda: _raise(GeneratorExit()),
    "exit": lambda: sys.exit(2),
    "argparse": lambda: argparse.ArgumentParser().parse_args(["--no-such-option"]),
    "interrupt": lambda: _raise(KeyboardInterrupt()),
    "group": lambda: _raise(BaseExceptionGroup("two", [ValueError(), KeyboardInterrupt()])),
    "cancelled": lambda: _raise(asyncio.CancelledError()),
    "stop iteration": lambda: _raise(StopIteration()),
    "stop async iteration": lambda: _raise(StopAsyncIteration()),
    "a cause that is its own": _circular,
    "no text": lambda: _raise(stranger("__str__")("out of stock")),
    "no cause": lambda: _raise(stranger("__cause__")("out of stock")),
    "not pickled": lambda: _raise(NotPickledError("out of stock")),
    "a warning": lambda: warnings.warn("an error here", stacklevel=1),
    "recursion": lambda: _raise(RecursionError("too deep")),
    "no memory": lambda: _raise(MemoryError()),
}
"""Calls that fail, anywhere."""

FAILS: dict[str, str | OnConnection] = {
    "commit": "commit",
    "commit work": "  COMMIT work",
    "roll back": "rollback",
    "prepare": "prepare transaction 'stranger'",
    "commit, and begin again": "commit; begin; select refused",
    "close": lambda connection: connection.close(),
    "commit by a method": lambda connection: connection.commit(),
    "autocommit": _set_autocommit,
    "a block left open": _leave_a_block,
    "role, and an error": "set role stranger; select refused",
    "release our savepoint": "release savepoint rowbus_message; select refused",
}
"""Deeds on the connection that fail."""

PASSES: dict[str, str | OnConnection] = {
    "role": "set role stranger",
    "role, until the commit": "set local role stranger",
    "role, by a function": "select set_config('role', 'stranger', false)",
    "authorization": "set session authorization stranger",
    "timeout": "set statement_timeout = '1min'",
    "read only": "set default_transaction_read_only = on",
    "characteristics": "set session characteristics as transaction isolation level serializable",
    "search path": "set search_path = nowhere",
    "listen": "listen stranger",
    "prepared statement": "prepare stranger as select 1",
    "temporary table": "create temp table stranger (n int)",
    "advisory lock": "select pg_advisory_lock(4242)",
    "cursor with hold": "declare stranger cursor with hold for select 1",
    "savepoint": "savepoint stranger",
    "back to our savepoint": "rollback to savepoint rowbus_message",
    "deallocate": "deallocate all",
    "begin": "begin",
    "variables": lambda _connection: _set_variables(),
}
"""Deeds on the connection that pass, and are there for nobody else."""

OF_SAGAS = ["role", "role, until the commit", "role, by a function", "authorization", "back to our savepoint"]
"""Deeds that fail in a saga too: its state is written by the role, and on what is there, after its method."""

PASS_OUTSIDE = ["autocommit", "commit", "commit work", "prepare", "roll back"]
FAIL_OUTSIDE = ["begin", "savepoint", "back to our savepoint"]
"""Deeds that pass, and that fail, where there is no transaction."""

DEEDS = {**FAILS, **PASSES}
MAKE = "create table business (entry text); create role stranger; grant all on business to stranger"
FORGET = "drop owned by stranger; drop role stranger"

LOOK = """
    select current_user, session_user, current_setting('search_path'), current_setting('statement_timeout'),
        current_setting('default_transaction_read_only'), current_setting('default_transaction_isolation'),
        (select count(*) from pg_listening_channels()),
        (select count(*) from pg_prepared_statements where name = 'stranger'),
        (select count(*) from pg_cursors where name = 'stranger'),
        to_regclass('pg_temp.stranger')
"""
LOCK = "select pg_try_advisory_lock(4242)"
WRITE = "insert into business values (%s)"


@dataclass
class Deed:
    """The deed of its handler."""

    name: str


@rowbus.command("Shop.Deed")
@dataclass
class Command(Deed): ...


class Witness:
    """Things that good messages saw."""

    def __init__(self) -> None:
        self.all = list[tuple[str, tuple[object, ...]]]()
        self.last = ""

    async def handle(self, name: str, connection: Any) -> None:  # noqa: ANN401 - any of ours
        await connection.execute(WRITE, [name])
        if name in DEEDS:
            self.last = name
            what = DEEDS[name]
            done = connection.execute(what) if isinstance(what, str) else what(connection)
            if inspect.isawaitable(done):
                await done
        elif name in RAISES:
            self.last = name
            RAISES[name]()
        else:
            async with connection.transaction():
                found = await (await connection.execute(LOOK)).fetchone()
            self.all.append((self.last, (*found, tenant.get(), decimal.getcontext().prec)))

    def handle_blocking(self, name: str, connection: Any) -> None:  # noqa: ANN401 - any of ours
        connection.execute(WRITE, [name])
        if name in DEEDS:
            self.last = name
            what = DEEDS[name]
            connection.execute(what) if isinstance(what, str) else what(connection)
        elif name in RAISES:
            self.last = name
            RAISES[name]()
        else:
            with connection.transaction():
                found = connection.execute(LOOK).fetchone()
            self.all.append((self.last, (*found, tenant.get(), decimal.getcontext().prec)))

    def check(self, good: Sequence[str]) -> None:
        """Fail for each deed after which a good message saw something else than the first."""
        assert len(self.all) >= len(good)
        expected = self.all[0][1]
        assert {last: seen for last, seen in self.all if seen != expected} == {}


NAMES = [*RAISES, *DEEDS]


def mixed(names: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return deeds, each before a good message, and the good ones' names."""
    good = [f"good {number:02}" for number in range(len(names) + 1)]
    return [good[0], *(one for pair in zip(names, good[1:], strict=True) for one in pair)], good


def written(good: Sequence[str], failed: Sequence[str] = ()) -> list[str]:
    passed = [name for name in PASSES if name not in {"back to our savepoint", *failed}]
    return sorted([*good, *passed])


@dataclass
class State:
    name: str = ""


def saga_of(seen: Witness) -> type[rowbus.Saga[State]]:
    class Deeds(rowbus.Saga[State], name="Shop.Deeds", correlation="name"):
        @rowbus.starts(Command, by=lambda command: command.name)
        async def do(self, message: Command, context: rowbus.SagaContext) -> None:
            await seen.handle(message.name, context.connection)
            context.complete()

    return Deeds


def handler_of(seen: Witness) -> Callable[..., Awaitable[None]]:
    async def do(message: Command, context: rowbus.Context) -> None:
        await seen.handle(message.name, context.connection)

    return do


def blocking_handler_of(seen: Witness) -> Callable[..., None]:
    def do(message: Command, context: rowbus.SyncContext) -> None:
        seen.handle_blocking(message.name, context.connection)

    return do


async def failed_of(
    orders: Orders,
    place: str,
    seen: Witness,
    names: Sequence[str],
    **settings: Any,  # noqa: ANN401 - the settings' own
) -> set[str]:
    """Have all messages handled in one slot, and return the names of those in the error queue."""
    orders.connection.execute(MAKE)
    sales = rowbus.Endpoint(
        "Sales",
        database=orders.dsn,
        settings=rowbus.EndpointSettings(concurrency=1, **settings),
        recoverability=NO_RETRIES,
        on_critical_error=lambda text, _error: left.append(text),
    )
    if place == "saga":
        sales.add(saga_of(seen))
    else:
        sales.handler(handler_of(seen) if place == "async def" else blocking_handler_of(seen))
    await sales.install()
    rowbus.Client(orders.connection).send_many("Sales", map(Command, names))
    async with sales:
        await eventually(lambda: orders.one('select count(*) = 0 from "Sales"')[0])
        await eventually(lambda: len(seen.all) > len(names) // 2)
        assert orders.one(LOCK)[0]
    orders.connection.execute(FORGET)
    assert not [one for one in left if isinstance(one, str)]
    return {body["name"] for (body,) in orders.all("select convert_from(body, 'UTF8')::json from error")}


def entries(orders: Orders) -> list[str]:
    return sorted(name for (name,) in orders.all("select entry from business"))


@pytest.mark.parametrize("batch_size", [1, 10])
@pytest.mark.parametrize("place", ["async def", "def", "saga"])
async def test_what_a_handler_does_is_there_for_no_other(
    orders: Orders, place: str, batch_size: int, caplog: pytest.LogCaptureFixture
) -> None:
    seen, (names, good) = Witness(), mixed(NAMES)
    failed = await failed_of(orders, place, seen, names, batch_size=batch_size)
    too = OF_SAGAS if place == "saga" else []
    assert failed == {*RAISES, *FAILS, *too}
    assert entries(orders) == written(good, too)
    seen.check(good)
    assert not [each for each in caplog.records if each.levelno >= logging.CRITICAL]


@pytest.mark.parametrize("place", ["async def", "def"])
async def test_nor_where_each_statement_commits_by_itself(orders: Orders, place: str) -> None:
    seen, (names, good) = Witness(), mixed(NAMES)
    failed = await failed_of(orders, place, seen, names, transaction_mode=rowbus.TransactionMode.NONE)
    assert failed == {*RAISES, *FAILS} - {*PASS_OUTSIDE} | {*FAIL_OUTSIDE}
    assert entries(orders) == sorted(names)
    seen.check(good)


@pytest.mark.parametrize("kind", ["async def", "def", "async def batch", "def batch"])
async def test_what_a_consumer_does_is_there_for_no_other(orders: Orders, kind: str) -> None:
    seen, log = Witness(), orders.log()
    orders.connection.execute(MAKE)
    settings, batch = replace(QUICK, max_retries=0), "batch" in kind

    async def each(events: Any, context: rowbus.LogContext) -> None:  # noqa: ANN401 - one or several
        for event in events if batch else [events]:
            await seen.handle(str(event.data), context.connection)

    def each_blocking(events: Any, context: rowbus.SyncLogContext) -> None:  # noqa: ANN401 - one or several
        for event in events if batch else [events]:
            seen.handle_blocking(str(event.data), context.connection)

    log.consumer("one", settings=settings, batch=batch)(each if kind.startswith("async") else each_blocking)
    names, good = mixed(NAMES)
    async with log:
        orders.deliver(*names)
        await orders.finished()
        assert orders.one(LOCK)[0]
        dead = {letter.event.data for letter in log.dead_letters("one")}
    orders.connection.execute(FORGET)
    assert dead == {*RAISES, *FAILS}
    assert entries(orders) == written(good)
    seen.check(good)


async def test_what_a_recurring_message_and_a_call_after_a_commit_do_ends_nothing(
    orders: Orders, caplog: pytest.LogCaptureFixture
) -> None:
    sales = rowbus.Endpoint("Sales", database=orders.dsn, recoverability=NO_RETRIES)
    handled, often = list[tuple[str, int]](), timedelta(milliseconds=200)
    for name, raises in RAISES.items():
        sales.every(often, name=name)(raises)

    @sales.every(often)
    def good() -> Command:
        found = (tenant.get(), decimal.getcontext().prec)
        _set_variables()
        return Command(str(found))

    @sales.handler
    def do(_message: Command, context: rowbus.SyncContext) -> None:
        handled.append((tenant.get(), decimal.getcontext().prec))
        context.on_commit(_set_variables)
        for raises in RAISES.values():
            context.on_commit(raises)

    async with sales:
        await eventually(lambda: len(handled) >= 2)
    said = [each.getMessage() for each in caplog.records]
    assert {*handled} == {("", decimal.DefaultContext.prec)}
    assert all(any(f"recurring message {name}:" in line for line in said) for name in RAISES)
    assert len([line for line in said if "A call after the commit" in line]) >= 2 * len(RAISES)
    assert not [each for each in caplog.records if each.levelno >= logging.CRITICAL]


async def test_a_handler_that_answers_and_then_fails_has_not_answered(orders: Orders) -> None:
    billing = rowbus.Endpoint("Billing", database=orders.dsn, recoverability=NO_RETRIES)

    @billing.handler
    async def answer(message: Command, context: rowbus.Context) -> None:
        await context.reply(7)
        RAISES.get(message.name, lambda: None)()

    async with billing, rowbus.AsyncRequestClient("Shop", database=orders.dsn) as client:
        asked = [asyncio.create_task(client.request("Billing", Command(name), int)) for name in RAISES]
        await eventually(lambda: orders.one("select count(*) from error") == (len(RAISES),))
        assert await client.request("Billing", Command("good"), int) == 7
        assert not any(task.done() for task in asked)
        await cancel(asked)


@rowbus.command("Shop.Around")
@dataclass
class Around:
    """Raises where it says."""

    where: str
    what: str

    def __post_init__(self) -> None:
        raised("the message", self)


def raised(where: str, message: Around) -> None:
    if message.where == where and reading.get():
        RAISES.get(message.what, lambda: None)()


reading: contextvars.ContextVar[bool] = contextvars.ContextVar("reading", default=False)
"""Whether a message is received, and not made."""


class Mutating(rowbus.Mutator):
    def incoming(self, headers: dict[str, str | None], body: bytes) -> bytes:
        reading.set(True)
        found = json.loads(body)
        if found["where"] == "a mutator":
            RAISES[found["what"]]()
        return body


PLACES = ["the message", "a mutator", "a step", "by", "a saga"]


async def test_whatever_is_raised_around_a_handler_fails_its_message_alone(
    orders: Orders, caplog: pytest.LogCaptureFixture
) -> None:
    sales = rowbus.Endpoint("Sales", database=orders.dsn, recoverability=NO_RETRIES)
    handled = list[str]()
    sales.use(Mutating())

    @sales.use
    async def step(context: rowbus.StepContext, proceed: rowbus.Proceed) -> None:
        assert isinstance(context.message, Around)
        raised("a step", context.message)
        await proceed()

    def by(message: Around) -> str:
        raised("by", message)
        return message.what

    class Raising(rowbus.Saga[State], name="Shop.Raising", correlation="name"):
        @rowbus.starts(Around, by=by)
        async def do(self, message: Around, context: rowbus.SagaContext) -> None:
            raised("a saga", message)
            handled.append(message.what)
            context.complete()

    sales.add(Raising)
    await sales.install()
    bad = [Around(place, what) for place in PLACES for what in RAISES]
    rowbus.Client(orders.connection).send_many("Sales", [*bad, Around("nowhere", "good")])
    async with sales:
        await eventually(lambda: orders.one('select count(*) = 0 from "Sales"')[0])
    bodies = [body for (body,) in orders.all("select convert_from(body, 'UTF8')::json from error")]
    failed = sorted((body["where"], body["what"]) for body in bodies)
    assert failed == sorted((one.where, one.what) for one in bad)
    assert handled == ["good"]
    assert not [each for each in caplog.records if each.levelno >= logging.CRITICAL]
