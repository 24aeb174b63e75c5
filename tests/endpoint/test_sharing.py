"""Many endpoints in one process: they share what listens and looks, and give back the connections they do not use."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import psycopg
import pytest

import rowbus
from rowbus.database.embedded import Cluster, find_binaries
from rowbus.database.postgresql.connection import AsyncSession
from rowbus.transport.queues import lookout
from rowbus.transport.queues.lookout import QueueWatch
from rowbus.transport.queues.postgresql import QueueTable
from rowbus.transport.receiving.decisions import FROM_THE_START
from tests.conformance.backend import Backend
from tests.conformance.endpoints import Endpoints, PlaceOrder
from tests.conformance.transport import eventually, within
from tests.fixtures.database import joined, run_directory

pytestmark = [
    pytest.mark.only("PostgreSQL", reason="other databases do not notify"),
    pytest.mark.one_version,
]

MANY = 12
CONNECTIONS = "select count(*) from pg_stat_activity where application_name like 'rowbus Sales%'"


class Handled:
    """Messages that the endpoints of a test have handled."""

    def __init__(self) -> None:
        self.ids: list[str] = []

    def by(self, endpoint: rowbus.Endpoint) -> rowbus.Endpoint:
        @endpoint.handler
        async def handle(message: PlaceOrder) -> None:
            self.ids.append(message.order_id)

        return endpoint


@asynccontextmanager
async def started(endpoints: list[rowbus.Endpoint]) -> AsyncIterator[None]:
    async with AsyncExitStack() as stack:
        for endpoint in endpoints:
            await stack.enter_async_context(endpoint)
        yield


async def connections(dsn: str) -> int:
    async with await psycopg.AsyncConnection.connect(dsn) as connection:
        row = await (await connection.execute(CONNECTIONS)).fetchone()
        assert row is not None
        return int(row[0])


async def send_to_all(dsn: str, count: int) -> None:
    async with await psycopg.AsyncConnection.connect(dsn, autocommit=True) as connection:
        for number in range(count):
            await rowbus.AsyncClient(connection).send(f"Sales{number}", PlaceOrder(str(number)))


def make(
    endpoints: Endpoints, handled: Handled, peek_delay: timedelta = timedelta(hours=1)
) -> list[rowbus.Endpoint]:
    names = [f"Sales{number}" for number in range(MANY)]
    return [handled.by(endpoints.make(name, concurrency=1, peek_delay=peek_delay)) for name in names]


async def test_idle_endpoints_share_one_connection(endpoints: Endpoints, backend: Backend) -> None:
    async with started(make(endpoints, Handled())):
        await eventually(lambda: holds(backend.dsn, 1))


async def holds(dsn: str, count: int) -> bool:
    return await connections(dsn) == count


async def test_each_is_woken_by_a_notification_for_its_queue(endpoints: Endpoints, backend: Backend) -> None:
    handled = Handled()
    async with started(make(endpoints, handled)):
        await eventually(lambda: holds(backend.dsn, 1))
        await send_to_all(backend.dsn, MANY)

        await eventually(lambda: len(handled.ids) == MANY)

    assert sorted(handled.ids, key=int) == [str(number) for number in range(MANY)]


async def test_each_finds_what_came_without_a_notification(endpoints: Endpoints, backend: Backend) -> None:
    handled = Handled()
    async with started(make(endpoints, handled, peek_delay=timedelta(milliseconds=100))):
        async with await psycopg.AsyncConnection.connect(backend.dsn, autocommit=True) as connection:
            client = rowbus.AsyncClient(connection, notify=False)
            for number in range(MANY):
                await client.send(f"Sales{number}", PlaceOrder(str(number)))

        await eventually(lambda: len(handled.ids) == MANY)


async def test_slots_give_their_connections_back(
    endpoints: Endpoints, backend: Backend, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lookout, "PATIENCE", 0.1)
    handled = Handled()
    async with started(make(endpoints, handled)):
        for turn in (1, 2):
            await send_to_all(backend.dsn, MANY)
            await eventually(lambda turn=turn: len(handled.ids) == turn * MANY)
            await eventually(lambda: holds(backend.dsn, 1))


async def test_all_listen_again_after_the_connection_was_lost(endpoints: Endpoints, backend: Backend) -> None:
    handled = Handled()
    async with started(make(endpoints, handled)):
        await eventually(lambda: holds(backend.dsn, 1))
        async with await psycopg.AsyncConnection.connect(backend.dsn, autocommit=True) as connection:
            await connection.execute(
                CONNECTIONS.replace("count(*)", "count(pg_terminate_backend(pid, 5000))").encode()
            )
        await eventually(lambda: holds(backend.dsn, 1))
        await send_to_all(backend.dsn, MANY)

        await eventually(lambda: len(handled.ids) == MANY)


async def test_a_locked_queue_holds_up_no_other(endpoints: Endpoints, backend: Backend) -> None:
    handled = Handled()
    async with (
        started(make(endpoints, handled, peek_delay=timedelta(milliseconds=100))),
        await psycopg.AsyncConnection.connect(backend.dsn) as locking,
        await psycopg.AsyncConnection.connect(backend.dsn, autocommit=True) as connection,
    ):
        await locking.execute(f"lock table {backend.queue('Sales0')}".encode())
        await rowbus.AsyncClient(connection, notify=False).send("Sales1", PlaceOrder("1"))

        await eventually(lambda: handled.ids == ["1"])


async def test_notifications_are_heard_between_looks_into_some_of_many(
    endpoints: Endpoints, backend: Backend, monkeypatch: pytest.MonkeyPatch
) -> None:
    did: list[int] = []  # how many tables a look was into; 0: notifications were heard
    run_together: Any = AsyncSession.run_together
    heard = AsyncSession.heard

    async def looking(self: AsyncSession, statements: Any, **options: Any) -> Any:  # noqa: ANN401 - as it is
        if options.get("each"):
            did.append(len(statements))
        return await run_together(self, statements, **options)

    async def hearing(self: AsyncSession, seconds: float) -> set[str]:
        did.append(0)
        return await heard(self, seconds)

    handled = Handled()
    monkeypatch.setattr(lookout, "AT_ONCE", 5)
    async with started(make(endpoints, handled, peek_delay=timedelta(milliseconds=100))):
        await eventually(lambda: holds(backend.dsn, 1))
        monkeypatch.setattr(AsyncSession, "run_together", looking)
        monkeypatch.setattr(AsyncSession, "heard", hearing)
        await eventually(lambda: did.count(5) > 5)
        async with await psycopg.AsyncConnection.connect(backend.dsn, autocommit=True) as connection:
            client = rowbus.AsyncClient(connection, notify=False)
            for number in range(MANY):
                await client.send(f"Sales{number}", PlaceOrder(str(number)))
        await eventually(lambda: len(handled.ids) == MANY)

    assert max(did) == 5
    assert not any(first and second for first, second in pairwise(did)), did


async def test_a_queue_that_was_busy_is_listened_to_again(backend: Backend) -> None:
    await backend.create_queue("Sales")
    shared, table, woken = (
        lookout.Lookout(backend.database),
        QueueTable(backend.queue("Sales")),
        asyncio.Event(),
    )
    watch = QueueWatch(
        table,
        lambda: table.count_available(1, FROM_THE_START),
        lambda _found, _seconds: 3_600.0,
        woken,
        lambda _name, _error: 0.0,
    )
    channel = table.address.channel
    try:
        for _ in range(2):
            waiting = asyncio.create_task(shared.wait(watch, 3_600.0))
            await eventually(lambda: channel in shared._heard)
            async with await psycopg.AsyncConnection.connect(backend.dsn, autocommit=True) as connection:
                await connection.execute("select pg_notify(%s, '')", [channel])
            await within(waiting)
            woken.clear()
            shared.mute(watch)
            await eventually(lambda: channel not in shared._heard)
    finally:
        await shared.leave(watch)


async def test_after_the_last_stop_no_connection_is_left(endpoints: Endpoints, backend: Backend) -> None:
    async with started(make(endpoints, Handled())):
        await eventually(lambda: holds(backend.dsn, 1))

    await eventually(lambda: holds(backend.dsn, 0))
    assert not [task for task in asyncio.all_tasks() if task.get_name().startswith("rowbus")]


@pytest.fixture
def own_server() -> Iterator[str]:
    """Give a server that has 60 connections, three of them for superusers."""
    with run_directory(Path(tempfile.gettempdir())) as directory:
        settings = {"fsync": "off", "max_connections": "60"}
        with joined(Cluster(find_binaries(), directory / "server", settings=settings)) as dsn:
            yield dsn


@pytest.mark.slow
async def test_a_hundred_endpoints_work_on_a_server_of_sixty_connections(
    own_server: str,
) -> None:
    handled = Handled()
    endpoints = [
        handled.by(
            rowbus.Endpoint(
                f"Sales{number}", database=own_server, settings=rowbus.EndpointSettings(concurrency=1)
            )
        )
        for number in range(100)
    ]
    async with started(endpoints):
        await send_to_all(own_server, 100)

        await within(eventually(lambda: len(set(handled.ids)) == 100, 90), 100)


def test_a_loop_that_has_ended_is_forgotten(backend: Backend) -> None:
    async def use() -> None:
        assert lookout.lookout_of(backend.database) is not None

    asyncio.run(use())
    asyncio.run(use())

    ended = [loop for loop in lookout._lookouts if loop.is_closed()]
    assert len(ended) == 1  # the last, until the next asks
