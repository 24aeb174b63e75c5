"""Processes that have lanes are killed and frozen, and come and go: each key's messages are handled in order, and once.

A frozen process is thawed later, in the midst of a transaction that is no more: nothing of it takes effect.
"""

from __future__ import annotations

import os
import signal
from collections import defaultdict
from pathlib import Path
from typing import Any

import psycopg
import pytest

import rowbus
from tests.fixtures.pairs import effort
from tests.fixtures.processes import Program, Programs, await_that

pytestmark = [pytest.mark.one_version, pytest.mark.timeout(300)]

PROGRAM = Path(__file__).with_name("crash_programs") / "lane_worker.py"
KEYS = 40
WORKERS = 3


def run(folder: Path, dsn: str, faults: int, steps: int) -> None:
    programs, frozen = Programs(folder, dsn), list[Program]()
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("create table done (id bigserial, key text, number integer)")
        try:
            alive = [programs.start(PROGRAM) for _ in range(WORKERS)]
            for worker in alive:
                worker.await_line("Endpoint Work is receiving")
            for fault in range(faults):
                send(connection, range(fault * steps, (fault + 1) * steps))
                await_handled(connection, (fault + 0.3) * steps * KEYS)
                hit = alive.pop(0)  # the one that has worked for longest has lanes
                if fault % 2:
                    os.kill(hit.pid, signal.SIGSTOP)
                    frozen.append(hit)
                else:
                    hit.kill()
                alive.append(programs.start(PROGRAM))
                if len(frozen) > 1:
                    os.kill(frozen.pop(0).pid, signal.SIGCONT)
            await_handled(connection, faults * steps * KEYS)
            for worker in frozen:
                os.kill(worker.pid, signal.SIGCONT)
        finally:
            programs.end()
        done = defaultdict[str, list[int]](list)
        for key, number in connection.execute("select key, number from done order by id"):
            done[key].append(number)
        assert done == {f"key-{key}": list(range(faults * steps)) for key in range(KEYS)}
        assert connection.execute("select count(*) from error").fetchone() == (0,)


def send(connection: psycopg.Connection[Any], numbers: range) -> None:
    client = rowbus.Client(connection)
    for number in numbers:
        with connection.transaction():
            for key in range(KEYS):
                message = {"key": f"key-{key}", "number": number}
                client.send("Work", message, type="Lanes.Step", key=f"key-{key}")


def await_handled(connection: psycopg.Connection[Any], count: float) -> None:
    def is_done() -> bool:
        row = connection.execute("select count(*) from done").fetchone()
        assert row is not None
        return int(row[0]) >= count

    await_that(is_done, f"{count:.0f} messages to be handled")


@pytest.mark.slow
def test_each_key_keeps_its_order_whoever_is_killed_or_frozen(database: str, tmp_path: Path) -> None:
    run(tmp_path, database, 2, 6)


@pytest.mark.slow
def test_each_key_keeps_its_order_through_many_kills(database: str, tmp_path: Path) -> None:
    run(tmp_path, database, effort(6, 60), 8)
