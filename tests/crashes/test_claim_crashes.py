"""Workers are killed while messages with values in the table go through: none is without its value, no value alone."""

from __future__ import annotations

import json
from pathlib import Path

import psycopg
import pytest

import rowbus
from rowbus.database.backends import open_database
from rowbus.messages.address import QueueAddress
from rowbus.transport.claims.claim_table import value_id_of
from rowbus.transport.claims.table import claimed_values
from rowbus.transport.queues.installer import create_queue, create_table
from tests.fixtures.pairs import effort
from tests.fixtures.processes import Programs, await_that

pytestmark = [pytest.mark.slow, pytest.mark.one_version, pytest.mark.timeout(300)]

PROGRAM = Path(__file__).with_name("crash_programs") / "claiming_worker.py"
VALUES = QueueAddress("public", "ClaimedValues")
CHECK = rowbus.ClaimCheck(properties={"Crash.Scan": ["Scan"]})
MESSAGES = effort(500, 1_200)
KILLS = effort(3, 6)


async def test_no_message_without_its_value_and_no_value_without_its_message(
    database: str, tmp_path: Path
) -> None:
    session = await open_database(database).connect()
    for queue in ("Sales", "Archive"):
        await create_queue(session, QueueAddress("public", queue))
    await create_table(session, claimed_values(VALUES), "the table")
    await session.close()
    programs = Programs(tmp_path, database)
    with psycopg.connect(database, autocommit=True) as connection:
        scans = ({"Number": number, "Scan": f"{number:06}" * 500} for number in range(MESSAGES))
        rowbus.Client(connection, mutators=[CHECK]).send_many("Sales", scans, type="Crash.Scan")

        def archived() -> int:
            return int((connection.execute('select count(*) from "Archive"').fetchone() or (0,))[0])

        try:
            for kill in range(1, KILLS + 1):
                worker, before = programs.start(PROGRAM), archived()
                await_that(lambda before=before: archived() > before, "a worker at work")  # type: ignore[misc] # bound
                if kill < KILLS:
                    worker.kill()
            await_that(lambda: archived() == MESSAGES, "every message")
        finally:
            programs.end()

        rows = connection.execute('select headers, body from "Archive"').fetchall()
        contents: dict[str, bytes] = dict(
            connection.execute('select id::text, content from "ClaimedValues"').fetchall()
        )
        assert len(contents) == 2 * MESSAGES, "one of each message received, one of each sent on"
        for headers, body in rows:
            (key,) = (
                value
                for name, value in json.loads(headers).items()
                if name.startswith("NServiceBus.DataBus.")
            )
            number = json.loads(bytes(body))["Number"]
            assert json.loads(bytes(contents[value_id_of(key, VALUES)])) == (f"{number:06}" * 500)[::-1]
