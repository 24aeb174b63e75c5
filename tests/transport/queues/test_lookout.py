"""The lookout looks into each table by itself, in one round trip."""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator
from types import NoneType

import psycopg
import pytest

from rowbus.database.postgresql.connection import Session
from rowbus.database.postgresql.database import Database
from rowbus.database.statements import control
from rowbus.errors import QueueNotFoundError, StorageError
from rowbus.messages.address import QueueAddress
from rowbus.running.telemetry.process import REFUSED_AT
from rowbus.transport.queues.catalog.postgresql import full_disks
from rowbus.transport.queues.diagnosis import diagnose_full_disk
from rowbus.transport.queues.lookout import Lookout, QueueWatch
from rowbus.transport.queues.postgresql import QueueTable
from rowbus.transport.receiving.decisions import FROM_THE_START
from tests.conformance.transport import eventually, within
from tests.fixtures.command_line import as_role
from tests.fixtures.sessions import put, run

pytestmark = pytest.mark.one_version

FULL = b"do $$ begin raise exception 'no room' using errcode = '53100'; end $$"


class Hall:
    """A lookout of a role without privileges, and those who wait there for a queue each."""

    def __init__(self, session: Session, role: str) -> None:
        self.session, self.role = session, role
        self.database = Database(as_role(session.connection.info.dsn, role))
        self.lookout = Lookout(self.database)
        self.watches: list[QueueWatch] = []
        self.seconds: list[float] = []  # how long each look took

    def queue(self, name: str) -> QueueTable:
        """Make a queue that the role may look into."""
        table = QueueTable(QueueAddress("public", name))
        self.session.run_all(table.create())
        run(self.session, f"grant select on {table.address} to {self.role}")
        return table

    async def wait(self, table: QueueTable) -> None:
        """Wait until a look has found a message, or has failed."""
        watch = QueueWatch(
            table,
            lambda: table.count_available(1, FROM_THE_START),
            self._looked,
            asyncio.Event(),
            lambda _name, _error: 0.0,
        )
        self.watches.append(watch)
        await self.lookout.wait(watch, 0.0)

    def _looked(self, _found: int, seconds: float) -> float:
        self.seconds.append(seconds)
        return 0.0


@pytest.fixture
async def hall(session: Session, role: str) -> AsyncIterator[Hall]:
    hall = Hall(session, role)
    yield hall
    for watch in hall.watches:
        await hall.lookout.leave(watch)


async def test_a_table_that_cannot_be_read_keeps_no_other_from_being_looked_into(hall: Hall) -> None:
    locked, forbidden, good = hall.queue("Locked"), hall.queue("Forbidden"), hall.queue("Good")
    missing = QueueTable(QueueAddress("public", "Missing"))
    run(hall.session, f"revoke select on {forbidden.address} from {hall.role}")
    put(hall.session, good)
    with psycopg.connect(hall.session.connection.info.dsn) as locking:
        locking.execute(f"lock table {locked.address}".encode())

        waits = [hall.wait(table) for table in (locked, missing, forbidden, good)]
        told = await within(asyncio.gather(*waits, return_exceptions=True))

    expected: tuple[type, ...] = (StorageError, QueueNotFoundError, StorageError, NoneType)
    assert all(isinstance(each, kind) for each, kind in zip(told, expected, strict=True)), told


async def test_a_look_takes_its_share_of_the_round_trip(hall: Hall) -> None:
    tables = [hall.queue(f"Sales{number}") for number in range(20)]
    for table in tables:
        put(hall.session, table)
    began = asyncio.get_running_loop().time()

    await within(asyncio.gather(*[hall.wait(table) for table in tables]))

    assert len(set(hall.seconds)) == 1
    assert sum(hall.seconds) < asyncio.get_running_loop().time() - began


async def test_a_process_that_meets_a_full_disk_is_shown_until_there_is_room_again(hall: Hall) -> None:
    def texts() -> list[str]:
        return [each.text for each in diagnose_full_disk(hall.session.run(full_disks()))]

    async def is_told() -> bool:
        return bool(texts())

    async def is_over() -> bool:
        return not texts()

    waiting = asyncio.create_task(hall.wait(hall.queue("Sales")))
    REFUSED_AT["another:5432"] = math.inf
    with pytest.raises(StorageError, match="the server's disk is full"):
        hall.session.run(control(FULL, "Failed to write"))
    await eventually(is_told)
    assert texts()[0].startswith("the server's disk is full: it refuses to write for 1 process, ")
    del REFUSED_AT[hall.database.server]
    await eventually(is_over)
    waiting.cancel()
