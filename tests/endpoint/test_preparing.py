"""Preparations of an endpoint, before it receives or beside that: purging queues, looking at tables."""

from __future__ import annotations

import asyncio
import logging
from datetime import timedelta

import pytest

import rowbus
from rowbus.database.statements import Query, Statement
from rowbus.errors import ConfigurationError, QueueNotFoundError, StorageError, TransactionConflictError
from rowbus.running.critical import Alarm
from rowbus.settings import EndpointSettings
from rowbus.transport.queues.sqlserver_shape import header_warning
from rowbus.transport.queues.table import queue_table
from rowbus.transport.receiving.preparation import ExpiredPurger, prepare, purge_expired
from tests.conformance.backend import Backend
from tests.conformance.transport import eventually
from tests.fixtures.every import every

SILENT = Alarm(lambda *_: None)

PAST, FUTURE = -60.0, 3600.0


async def fill(backend: Backend, *lifetimes: float | None) -> None:
    await backend.create_queue("Sales")
    for number, lifetime in enumerate(lifetimes):
        await backend.insert("Sales", "{}", str(number).encode(), expires_in=lifetime)


async def left(backend: Backend) -> list[bytes | None]:
    return [row.body for row in await backend.rows("Sales")]


async def test_a_start_purges_what_has_expired_and_keeps_everything_else(backend: Backend) -> None:
    await fill(backend, PAST, None, FUTURE, PAST)
    settings = EndpointSettings(purge_expired_on_startup=True)

    await prepare(backend.database, [queue_table(backend.queue("Sales"))], settings)

    assert await left(backend) == [b"1", b"2"]


async def test_a_start_purges_nothing_unasked(backend: Backend) -> None:
    await fill(backend, PAST, None)

    await prepare(backend.database, [queue_table(backend.queue("Sales"))], EndpointSettings())

    assert await left(backend) == [b"0", b"1"]


async def test_a_start_purges_everything_when_that_is_asked_for(backend: Backend) -> None:
    await fill(backend, PAST, None, FUTURE)

    await prepare(
        backend.database, [queue_table(backend.queue("Sales"))], EndpointSettings(purge_on_startup=True)
    )

    assert await left(backend) == []


async def test_expired_messages_are_purged_batch_by_batch_until_one_is_short(backend: Backend) -> None:
    await fill(backend, *[PAST] * 5, None)
    session = await backend.database.connect()

    purged = await purge_expired(session, queue_table(backend.queue("Sales")), 2)
    await session.close()

    assert (purged, await left(backend)) == (5, [b"5"])


async def test_a_purger_purges_what_expires_while_it_runs_and_ends_when_it_is_stopped(
    backend: Backend,
) -> None:
    await fill(backend, FUTURE)
    pool = backend.pool()
    tables = [queue_table(backend.queue("Sales"))]
    purger = ExpiredPurger(pool, tables, SILENT, period=timedelta(milliseconds=20), batch_size=100)
    await purger.start()
    await backend.insert("Sales", "{}", b"late", expires_in=PAST)

    async def purged() -> bool:
        return await left(backend) == [b"0"]

    await eventually(purged)
    await purger.stop()
    await purger.stop()
    await pool.close()


async def test_a_missing_queue_keeps_an_endpoint_from_starting(backend: Backend) -> None:
    for settings in (
        EndpointSettings(purge_on_startup=True),
        EndpointSettings(purge_expired_on_startup=True),
    ):
        with pytest.raises(QueueNotFoundError):
            await prepare(backend.database, [queue_table(backend.queue("Missing"))], settings)


@pytest.mark.only("SQL Server", reason="PostgreSQL's queues have no index that a start looks for")
async def test_a_start_warns_of_a_queue_without_an_index(
    backend: Backend, caplog: pytest.LogCaptureFixture
) -> None:
    await fill(backend)
    address = backend.queue("Sales")
    with caplog.at_level(logging.WARNING, "rowbus.receiving"):
        await prepare(backend.database, [queue_table(address)], EndpointSettings())
    assert caplog.messages == []

    old = backend.queue("Old")
    await backend.execute(
        f"create table [{old.schema}].[Old] (Id uniqueidentifier not null, Headers varchar(255) not null)"
    )
    with caplog.at_level(logging.WARNING, "rowbus.receiving"):
        await prepare(backend.database, [queue_table(old)], EndpointSettings())

    assert caplog.messages == [
        f"Queue {old}: it has no index on RowVersion, so every receive reads all of the table",
        f"Queue {old}: {header_warning('varchar')}",
    ]


# ----------------------------------------------------------------------------------------------- what may go wrong


class FailingSession:
    """A session whose statements fail, after some that do not."""

    def __init__(self, *answers: int | Exception) -> None:
        self._answers = list(answers)

    async def run(self, _statement: Statement[int]) -> int:
        answer = self._answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer


class Table:
    """A queue that nobody looks into."""

    address = "Sales"

    def purge_expired(self, _batch_size: int) -> Statement[int]:
        return Statement(Query(b"", b"", (), "Failed"), {}, lambda _rows, count: count)


async def test_a_deadlock_with_receivers_is_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    conflict = TransactionConflictError("deadlock", sqlstate="40001", transient=True)
    session = FailingSession(2, conflict)

    with caplog.at_level(logging.WARNING, "rowbus.receiving"):
        assert await purge_expired(session, Table(), 2) == 2  # type: ignore[arg-type] # doubles

    assert "gave way to receivers" in caplog.text


async def test_a_failed_look_does_not_end_a_purger(caplog: pytest.LogCaptureFixture) -> None:
    failures = asyncio.Event()

    class Pool:
        def session(self) -> None:
            failures.set()
            raise StorageError("away", sqlstate=None, transient=True)

    purger = ExpiredPurger(Pool(), [], SILENT, period=timedelta(milliseconds=1), batch_size=10)  # type: ignore[arg-type] # a double
    with caplog.at_level(logging.INFO, "rowbus.receiving"):
        await purger.start()
        for _ in range(2):
            failures.clear()
            await asyncio.wait_for(failures.wait(), 5)
        await purger.stop()

    assert "Could not purge expired messages" in caplog.text


@every(
    "settings",
    [{"purge_expired_every": timedelta(0)}, {"purge_expired_batch_size": 0}],
)
def test_settings_that_cannot_work_are_refused(settings: dict[str, object]) -> None:
    with pytest.raises(ConfigurationError):
        EndpointSettings(**settings)  # type: ignore[arg-type] # each as its parameter has it


def test_an_endpoint_purges_periodically_only_when_asked() -> None:
    assert rowbus.EndpointSettings().purge_expired_every is None
    assert rowbus.EndpointSettings().purge_expired_on_startup is False
