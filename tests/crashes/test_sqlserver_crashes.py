"""Workers on SQL Server are killed while messages, sagas and delays go on: nothing is lost, nothing happens twice.

It runs on the stand-in, and on the server that ROWBUS_TEST_SQLSERVER names (`make test-sqlserver`). It looks at tables
that others write to, so the catalog should have READ_COMMITTED_SNAPSHOT on.
"""

from __future__ import annotations

import asyncio
import json
import random
import time
import uuid
from collections import Counter
from pathlib import Path

import pytest

from rowbus.messages.sqlserver_address import SqlServerAddress
from rowbus.transport.queues.sqlserver import QueueTable
from tests.conformance.backend import Backend
from tests.conformance.on_sqlserver import SqlServer
from tests.fixtures.backends import Place, Standins
from tests.fixtures.pairs import effort, today
from tests.fixtures.processes import PAUSE, Program, Programs

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(1800),
    pytest.mark.only("SQL Server", reason="test_worker_crashes.py has PostgreSQL's, with many more kills"),
]

PROGRAM = Path(__file__).with_name("crash_programs") / "sqlserver_worker.py"
ROOT = Path(__file__).parents[2]
MESSAGES = effort(400, 2_000)
KILLS = effort(3, 20)
EMPTY = ("Work", "Orders", "Work.Delayed", "Orders.Delayed", "Orders.Order", "error")
LONGEST = effort(240.0, 900.0)  # seconds until what is awaited counts as never coming


class Run:
    """Two workers at a time, and what they leave behind."""

    def __init__(self, backend: SqlServer, programs: Programs, standin: str | None) -> None:
        self.backend = backend
        self.workers: list[Program] = []
        self._programs = programs
        given = {"schema": backend.schema, "root": str(ROOT), "standin": standin}
        self._given = json.dumps(given)

    async def prepare(self) -> None:
        """Create queues and tables, and send all messages."""
        for name in ("Work", "error"):
            await self.backend.create_queue(name)
        for name in ("handled", "followed", "overdue"):
            await self.backend.execute(f"create table {self.backend.table(name)} (number int not null)")
        address = self.backend.queue("Work")
        assert isinstance(address, SqlServerAddress)
        table = QueueTable(address)
        session = await self.backend.database.connect()
        await session.copy(table.copy, table.copy_rows(map(message, range(MESSAGES)), None))
        await session.close()

    def hire(self) -> None:
        self.workers.append(self._programs.start(PROGRAM, self._given))

    async def numbers(self, table: str) -> list[int]:
        return await self.backend.values(f"select number from {self.backend.table(table)}")

    async def progress(self, count: int) -> None:
        """Wait until so many messages are handled."""
        await self._until("handled", count)

    async def kill_one(self, chance: random.Random) -> None:
        """Kill a worker at work; another takes its place."""
        alive = [worker for worker in self.workers if worker.is_running]
        victim = chance.choice(alive)
        await asyncio.to_thread(victim.await_line, "serving")
        victim.kill()
        self.hire()

    async def finish(self) -> None:
        """Wait until nothing is left to do, and have the workers end."""
        await self._until("followed", MESSAGES)
        await self._until("overdue", MESSAGES // 2)
        for worker in [each for each in self.workers if each.is_running]:
            await asyncio.to_thread(worker.await_line, "serving")
            worker.drain()
            assert await asyncio.to_thread(worker.wait) == 0

    async def _until(self, table: str, count: int) -> None:
        """Look until so many messages are noted in a table; the programs are others' processes, so nothing tells."""
        deadline = time.monotonic() + LONGEST
        while len(await self.numbers(table)) < count:
            assert time.monotonic() < deadline, f"{table} never had {count} rows"
            await asyncio.to_thread(time.sleep, PAUSE)


def message(number: int) -> tuple[str, bytes]:
    headers = {
        "NServiceBus.MessageId": str(uuid.uuid4()),
        "NServiceBus.EnclosedMessageTypes": "Crash.Work",
        "NServiceBus.ContentType": "application/json",
    }
    return json.dumps(headers), json.dumps({"number": number}).encode()


async def test_when_workers_are_killed_nothing_is_lost_and_nothing_doubled(
    backend: Backend, backend_place: Place, standins: Standins, tmp_path: Path
) -> None:
    assert isinstance(backend, SqlServer)
    standin = None if backend_place.server is None else standins.on(backend_place.server).database
    programs = Programs(tmp_path, backend.dsn)
    run, chance = Run(backend, programs, standin), random.Random(today())
    try:
        await run.prepare()
        run.hire()
        run.hire()
        for moment in sorted(chance.sample(range(MESSAGES // 10, MESSAGES * 3 // 4), KILLS)):
            await run.progress(moment)
            await run.kill_one(chance)
        await run.finish()
    finally:
        programs.end()

    overdue = [number for number in range(MESSAGES) if number % 4 < 2]
    assert Counter(await run.numbers("handled")) == Counter(range(MESSAGES))
    assert Counter(await run.numbers("followed")) == Counter(range(MESSAGES))
    assert Counter(await run.numbers("overdue")) == Counter(overdue)
    assert {name: await backend.count(name) for name in EMPTY} == dict.fromkeys(EMPTY, 0)
