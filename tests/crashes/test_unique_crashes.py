"""Senders of unique messages and their receivers are killed and frozen: each key's last number is looked at.

Who changes a number has it looked at by a message that exists once, and does not go on sometimes before it was. So a
number that nobody looks at would be a message that was kept away though none waited, or one that waited and was lost.
"""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import psycopg
import pytest

from tests.fixtures.pairs import effort
from tests.fixtures.processes import Program, Programs, await_that

pytestmark = [pytest.mark.one_version, pytest.mark.timeout(300)]

FOLDER = Path(__file__).with_name("crash_programs")
SENDER, WORKER = FOLDER / "unique_sender.py", FOLDER / "unique_worker.py"
KEYS = [f"key-{number}" for number in range(3)]
SEEN_BETWEEN_FAULTS = 100
WAITING = 'select (select count(*) from "Work") + (select count(*) from "Work.Delayed")'
UNSEEN = """
select key, number, (select max(seen.number) from seen where seen.key = numbers.key)
from numbers
where number > 0 and number is distinct from (select max(seen.number) from seen where seen.key = numbers.key)
"""


def run(folder: Path, dsn: str, faults: int) -> None:
    programs, frozen = Programs(folder, dsn), list[Program]()
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("create table numbers (key text primary key, number integer not null)")
        connection.execute("create table seen (id bigserial, key text, number integer)")
        connection.execute("insert into numbers select unnest(%s::text[]), 0", (KEYS,))
        try:
            workers = [programs.start(WORKER) for _ in range(2)]
            for worker in workers:
                worker.await_line("Endpoint Work is receiving")
            senders = {key: programs.start(SENDER, key) for key in KEYS}
            for fault in range(faults):
                await_seen(connection, (fault + 1) * SEEN_BETWEEN_FAULTS)
                key = KEYS[fault % len(KEYS)]
                senders[key].kill()
                senders[key] = programs.start(SENDER, key)
                hit = workers.pop(0)
                if fault % 2:
                    os.kill(hit.pid, signal.SIGSTOP)
                    frozen.append(hit)
                else:
                    hit.kill()
                workers.append(programs.start(WORKER))
            for sender in senders.values():
                sender.kill()
            for worker in frozen:
                os.kill(worker.pid, signal.SIGCONT)
            await_that(lambda: connection.execute(WAITING).fetchone() == (0,), "the queue to be empty")
            await_that(lambda: not connection.execute(UNSEEN).fetchall(), "the last numbers to be seen")
        finally:
            programs.end()
        assert connection.execute("select count(*) from error").fetchone() == (0,)
        assert connection.execute("select count(*) from numbers where number > 0").fetchone() == (len(KEYS),)


def await_seen(connection: psycopg.Connection[Any], count: int) -> None:
    def is_done() -> bool:
        row = connection.execute("select count(*) from seen").fetchone()
        assert row is not None
        return int(row[0]) >= count

    await_that(is_done, f"{count} numbers to be seen")


@pytest.mark.slow
def test_the_last_change_is_looked_at_whoever_is_killed_or_frozen(database: str, tmp_path: Path) -> None:
    run(tmp_path, database, 2)


@pytest.mark.slow
def test_the_last_change_is_looked_at_through_many_kills(database: str, tmp_path: Path) -> None:
    run(tmp_path, database, effort(6, 60))
