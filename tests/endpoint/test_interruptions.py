"""A message that breaks its own connection is counted, put at the end of its queue, and given up on in time.

The others go on meanwhile, and a server that is away is counted against none.
"""

from __future__ import annotations

import asyncio
import os
import re
import signal
from contextlib import suppress
from typing import Any

import psycopg
import pytest

import rowbus
from rowbus.errors import HandlingInterruptedError
from rowbus.messages.headers import Header
from rowbus.running import backoff
from rowbus.transport.receiving import slot
from rowbus.transport.receiving.decisions import UNEXPLAINED
from tests.conformance.backend import Backend
from tests.conformance.endpoints import ERROR, Endpoints, PlaceOrder
from tests.conformance.on_postgresql import WRITE_BUSINESS, PostgreSQL
from tests.conformance.transport import SENDS_ATOMIC, eventually, in_transaction_modes_failing
from tests.fixtures.database import CrashableServer

pytestmark = pytest.mark.only("PostgreSQL", reason="its handlers end sessions by PostgreSQL's functions")

HEALTHY = 100
POISON = 3
SUICIDE = "select pg_terminate_backend(pg_backend_pid())"
LONG = "set local idle_in_transaction_session_timeout = '20ms'"

AT_COMMIT = "insert into fatal values (1)"
FATAL = """
create table fatal (n integer);
create function fatal() returns trigger language plpgsql as $$
begin perform pg_terminate_backend(pg_backend_pid()); return null; end $$;
create constraint trigger fatal after insert on fatal deferrable initially deferred
for each row execute function fatal()
"""


class Killers:
    """An endpoint some of whose messages lose their connection, and how often each was handled."""

    def __init__(self, endpoints: Endpoints, **settings: Any) -> None:  # noqa: ANN401 - the settings' own
        self.attempts: dict[str, int] = {}
        self.seen: list[dict[str, str | None]] = []
        self.critical: list[str] = []
        settings.setdefault("recoverability", rowbus.Recoverability(immediate=2, delayed=0))
        self.endpoint = endpoints.make(
            "Sales", on_critical_error=lambda text, _error: self.critical.append(text), **settings
        )

        @self.endpoint.handler
        async def place(message: PlaceOrder, context: rowbus.Context) -> None:
            await context.connection.execute(WRITE_BUSINESS, [message.order_id])
            self.attempts[message.order_id] = self.attempts.get(message.order_id, 0) + 1
            self.seen.append(context.headers)
            await self.work(message.order_id, context)

    @property
    def handled(self) -> int:
        return sum(self.attempts.values())

    async def work(self, order: str, context: rowbus.Context) -> None:
        if order.startswith("kill"):
            await context.connection.execute(SUICIDE)
        elif order.startswith("crash"):
            cursor = await context.connection.execute("select pg_backend_pid()")
            ((process,),) = await cursor.fetchall()
            os.kill(process, signal.SIGKILL)  # as the kernel does when memory is short: all sessions end
            await context.connection.execute("select")
        elif order.startswith("fail once") and self.attempts[order] == 1:
            raise ValueError(order)
        elif order.startswith("fail once"):
            await context.connection.execute(SUICIDE)
        elif order.startswith("commit"):
            await context.connection.execute(AT_COMMIT)
        elif order.startswith("slow"):
            await asyncio.sleep(0.02)
        elif order.startswith("idle"):
            await context.connection.execute(LONG)
            while not context.connection.closed:  # long sleep: the server's timeout is 20 ms
                await asyncio.sleep(0.04)
                await context.connection.execute("select")


async def holds(backend: Backend, queue: str, count: int) -> bool:
    return await backend.count(queue) == count


async def send(backend: Backend, *orders: str) -> None:
    await backend.client().send_many("Sales", map(PlaceOrder, orders))


async def prepare(backend: Backend, killers: Killers) -> None:
    await backend.create_business_tables()
    await killers.endpoint.install()


@pytest.mark.parametrize("kind", ["kill", "idle"])
@pytest.mark.parametrize("batch_size", [1, 10])
@in_transaction_modes_failing
async def test_a_message_that_breaks_its_connection_is_in_the_error_queue_after_the_policys_number(
    endpoints: Endpoints, caplog: pytest.LogCaptureFixture, kind: str, batch_size: int
) -> None:
    backend = endpoints.backend
    killers = Killers(endpoints, batch_size=batch_size)
    await prepare(backend, killers)
    poison = [f"{kind}{n}" for n in range(POISON)]
    healthy = [f"{n:03}" for n in range(HEALTHY)]
    await send(backend, *poison, *healthy)

    async with killers.endpoint:
        await eventually(lambda: holds(backend, ERROR, POISON))
        await eventually(lambda: holds(backend, "Sales", 0))

    assert await backend.business() == healthy
    assert {order: killers.attempts[order] for order in poison} == dict.fromkeys(poison, 3)
    assert killers.critical == []
    for row in await backend.rows(ERROR):
        assert row.headers[Header.EXCEPTION_TYPE] == "rowbus.errors.HandlingInterruptedError"
        assert "failed 3 times" in (row.headers[Header.EXCEPTION_MESSAGE] or "")
        assert not {Header.FAILED_ATTEMPTS, Header.INTERRUPTION} & set(row.headers)
    assert not any(Header.FAILED_ATTEMPTS in headers for headers in killers.seen)
    said = "idle_in_transaction_session_timeout" if kind == "idle" else "terminating connection"
    lines = [record.getMessage() for record in caplog.records if "was interrupted" in record.getMessage()]
    assert len(lines) == 3 * POISON
    assert all(re.search("message [0-9a-f-]{36} ", line) for line in lines), lines
    assert all(said in line for line in lines), lines
    assert not any("trying again until it works" in record.getMessage() for record in caplog.records)


@pytest.mark.parametrize("batch_size", [1, 10])
async def test_a_message_that_breaks_its_connection_at_commit_is_found_out(
    endpoints: Endpoints, batch_size: int
) -> None:
    backend, killers = endpoints.backend, Killers(endpoints, batch_size=batch_size)
    await prepare(backend, killers)
    await backend.connection.execute(FATAL)
    await send(backend, "commit", *(f"{n:03}" for n in range(HEALTHY)))

    async with killers.endpoint:
        await eventually(lambda: holds(backend, ERROR, 1))
        await eventually(lambda: holds(backend, "Sales", 0))

    (row,) = await backend.rows(ERROR)
    assert "failed 3 times" in (row.headers[Header.EXCEPTION_MESSAGE] or "")
    assert len(await backend.business()) == HEALTHY
    assert killers.attempts["commit"] >= 3
    assert batch_size > 1 or killers.attempts["commit"] == 3


async def test_ordinary_failures_and_interruptions_are_counted_together(endpoints: Endpoints) -> None:
    backend, killers = endpoints.backend, Killers(endpoints)
    await prepare(backend, killers)
    await send(backend, "fail once")

    async with killers.endpoint:
        await eventually(lambda: holds(backend, ERROR, 1))

    assert killers.attempts == {"fail once": 3}


async def test_a_count_outlives_its_process(endpoints: Endpoints) -> None:
    backend = endpoints.backend
    never_gives_up = rowbus.Recoverability(immediate=100, delayed=0)  # so that the last process does
    for attempt in range(1, 4):
        killers = Killers(endpoints, concurrency=1, recoverability=never_gives_up)
        if attempt == 1:
            await prepare(backend, killers)
            await send(backend, "kill")
        killed = asyncio.Event()

        async def work(
            order: str, context: rowbus.Context, killers: Killers = killers, killed: asyncio.Event = killed
        ) -> None:
            if killers.handled > 1:
                await asyncio.Event().wait()  # until it is cancelled
            killed.set()
            await context.connection.execute(SUICIDE)

        killers.work = work  # type: ignore[method-assign]
        async with asyncio.timeout(30):
            await killers.endpoint.start()
            await killed.wait()
            await eventually(lambda count=attempt: counted(backend, count))
        await killers.endpoint.stop(0)

    last = Killers(endpoints)
    async with last.endpoint:
        await eventually(lambda: holds(backend, ERROR, 1))
    assert last.attempts == {}


async def counted(backend: Backend, count: int) -> bool:
    """Say whether the only message there is has been put back with a count."""
    rows = await backend.rows("Sales")
    return [row.headers.get(Header.FAILED_ATTEMPTS) for row in rows] == [str(count)]


async def test_an_unrecoverable_interruption_is_not_retried(endpoints: Endpoints) -> None:
    policy = rowbus.Recoverability(immediate=5, delayed=0, unrecoverable=(HandlingInterruptedError,))
    backend, killers = endpoints.backend, Killers(endpoints, recoverability=policy)
    await prepare(backend, killers)
    await send(backend, "kill")

    async with killers.endpoint:
        await eventually(lambda: holds(backend, ERROR, 1))

    assert killers.attempts == {"kill": 1}


@pytest.mark.slow
@pytest.mark.parametrize("crash", [True, False], ids=["kill", "stop"])
async def test_a_server_that_goes_away_is_counted_against_no_message(
    crashable_server: CrashableServer, monkeypatch: pytest.MonkeyPatch, *, crash: bool
) -> None:
    monkeypatch.setattr(backoff, "WAIT_WHEN_ARMED", 0.05)
    backend = await PostgreSQL.open(crashable_server.dsn)
    endpoints = Endpoints(backend, SENDS_ATOMIC)
    policy = rowbus.Recoverability(immediate=0, delayed=0)
    killers = Killers(endpoints, concurrency=8, recoverability=policy)
    await prepare(backend, killers)
    orders = [f"slow{n:03}" for n in range(3 * HEALTHY)]
    await send(backend, *orders)
    await killers.endpoint.start()

    for step in range(1, 4):
        await eventually(lambda step=step: killers.handled >= step * 50)
        await asyncio.to_thread(crashable_server.kill if crash else crashable_server.stop)
        await asyncio.to_thread(crashable_server.start)
    await backend.close()
    backend = await PostgreSQL.open(crashable_server.dsn)
    await eventually(lambda: holds(backend, "Sales", 0))

    await endpoints.stop_all()
    assert await backend.business() == orders
    assert await backend.count(ERROR) == 0
    assert killers.handled > len(orders), "no message was in hand"
    await backend.close()


@pytest.mark.slow
async def test_a_message_that_crashes_its_server_again_and_again_is_in_the_error_queue_in_the_end(
    crashable_server: CrashableServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(backoff, "WAIT_WHEN_ARMED", 0.05)
    backend = await PostgreSQL.open(crashable_server.dsn)
    endpoints = Endpoints(backend, SENDS_ATOMIC)
    killers = Killers(endpoints, concurrency=2, recoverability=rowbus.Recoverability(immediate=3, delayed=0))
    await prepare(backend, killers)
    orders = [f"order{n:03}" for n in range(20)]
    await send(backend, "crash", *orders)
    await backend.close()

    async def is_given_up() -> bool:
        with suppress(psycopg.OperationalError, rowbus.StorageError):
            async with await psycopg.AsyncConnection.connect(crashable_server.dsn) as connection:
                cursor = await connection.execute("select count(*) from error")
                return await cursor.fetchone() == (1,)
        return False

    async with killers.endpoint:
        await eventually(is_given_up)
        await eventually(lambda: "order019" in killers.attempts)
    backend = await PostgreSQL.open(crashable_server.dsn)

    assert await backend.business() == orders
    assert killers.attempts["crash"] <= 4 * UNEXPLAINED  # each of the four that count comes after two at most
    await backend.close()


LACKING = {"disk full": "53100", "out of memory": "53200", "io error": "58030"}


@pytest.mark.parametrize("state", LACKING.values(), ids=LACKING)
@in_transaction_modes_failing
async def test_a_server_that_lacks_something_is_counted_against_no_message(
    endpoints: Endpoints, monkeypatch: pytest.MonkeyPatch, state: str
) -> None:
    monkeypatch.setattr(backoff, "WAIT_WHEN_ARMED", 0.02)
    monkeypatch.setattr(slot, "PASSED_OVER", 0.1)
    backend = endpoints.backend
    killers = Killers(endpoints, recoverability=rowbus.Recoverability(immediate=0, delayed=0))
    await prepare(backend, killers)
    await backend.connection.execute(FULL.format(state=state))
    orders = [f"{n:03}" for n in range(10)]
    await send(backend, *orders)

    async with killers.endpoint:
        await eventually(lambda: refused(backend))
        await backend.connection.execute("drop trigger full_disk on business")
        await eventually(lambda: holds(backend, "Sales", 0))

    assert await backend.business() == orders
    assert await backend.count(ERROR) == 0


FULL = """
create sequence refusals;
create function full_disk() returns trigger language plpgsql as $$
begin perform nextval('refusals'); raise 'no space' using errcode = '{state}'; end $$;
create trigger full_disk before insert on business for each row execute function full_disk()
"""


async def refused(backend: Backend) -> bool:
    (count,) = await backend.values("select last_value from refusals")
    return int(count) > 20


async def test_a_limit_that_was_configured_is_the_messages_own_affair(endpoints: Endpoints) -> None:
    backend = endpoints.backend
    killers = Killers(endpoints, recoverability=rowbus.Recoverability(immediate=0, delayed=0))
    await prepare(backend, killers)
    await backend.connection.execute(FULL.format(state="53400"))
    await send(backend, "1")

    async with killers.endpoint:
        await eventually(lambda: holds(backend, ERROR, 1))
