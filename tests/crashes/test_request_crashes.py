"""An asker is killed while it waits: another removes its queue, and nothing of it is left."""

from __future__ import annotations

import logging
from pathlib import Path

import psycopg
import pytest

from rowbus.database.backends import open_database
from rowbus.messages.address import QueueAddress
from rowbus.running.critical import Alarm, log_critical
from rowbus.transport.queues.installer import create_queue
from rowbus.transport.requests.receiver import Sweeper
from tests.conformance.transport import eventually
from tests.fixtures.processes import Programs

pytestmark = [pytest.mark.one_version]

PROGRAM = Path(__file__).with_name("crash_programs") / "asker.py"
QUEUES = "select tablename from pg_tables where tablename like '%.answers-%'"
ALARM = Alarm(log_critical(logging.getLogger("rowbus.requests")))


async def test_the_queue_of_an_asker_that_was_killed_is_removed(database: str, tmp_path: Path) -> None:
    location = open_database(database)
    session = await location.connect()
    await create_queue(session, QueueAddress("public", "Billing"))
    await session.close()
    sweeper = Sweeper(location, QueueAddress("public", "Other.answers-0123456789ab"), ALARM)
    programs = Programs(tmp_path, database)
    with psycopg.connect(database, autocommit=True) as looking:
        try:
            asker = programs.start(PROGRAM)
            asker.await_line("waits")
            await sweeper.do()
            await sweeper.do()
            assert len(looking.execute(QUEUES).fetchall()) == 1, "it lives"
            asker.kill()
        finally:
            programs.end()

        async def swept() -> bool:  # as soon as the server has noticed that the session ended
            await sweeper.do()
            return looking.execute(QUEUES).fetchall() == []

        await eventually(swept)
