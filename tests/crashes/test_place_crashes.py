"""Processes with a limit of concurrency are killed: never are more of a key in hand than it says, and none is lost."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import psycopg
import pytest

import rowbus
from tests.fixtures.pairs import effort
from tests.fixtures.processes import Programs, await_that

pytestmark = [pytest.mark.one_version, pytest.mark.timeout(300)]

PROGRAM = Path(__file__).with_name("crash_programs") / "place_worker.py"
CUSTOMERS = 4
MOST = 2
AT_ONCE = """
select coalesce(max(together), 0) from (
    select sum(step) over (partition by customer order by at, step) as together
    from (
        select customer, began as at, 1 as step from spans
        union all
        select customer, ended, -1 from spans
    ) as steps
) as counted
"""


def run(folder: Path, dsn: str, kills: int, steps: int, batch_size: int) -> None:
    programs = Programs(folder, dsn)
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("create table done (customer integer, number integer)")
        connection.execute(
            "create table spans (id bigserial, customer integer, process integer, began timestamptz, "
            "ended timestamptz)"
        )
        try:
            alive = [programs.start(PROGRAM, str(batch_size)) for _ in range(2)]
            for worker in alive:
                worker.await_line("Endpoint Work is receiving")
            for kill in range(kills):
                send(connection, range(kill * steps, (kill + 1) * steps))
                await_handled(connection, (kill + 0.3) * steps * CUSTOMERS)
                hit = alive.pop(0)
                killed = connection.execute("select clock_timestamp()").fetchone()
                assert killed is not None
                hit.kill()
                connection.execute(
                    "update spans set ended = greatest(began, %s) where process = %s and ended is null",
                    (*killed, hit.pid),
                )
                alive.append(programs.start(PROGRAM, str(batch_size)))
            await_handled(connection, kills * steps * CUSTOMERS)
        finally:
            programs.end()
        done = connection.execute("select customer, number from done order by 1, 2").fetchall()
        assert done == [
            (customer, number) for customer in range(CUSTOMERS) for number in range(kills * steps)
        ]
        assert connection.execute("select count(*) from error").fetchone() == (0,)
        assert connection.execute(AT_ONCE).fetchone() == (MOST,)


def send(connection: psycopg.Connection[Any], numbers: range) -> None:
    client = rowbus.Client(connection)
    for number in numbers:
        with connection.transaction():
            for customer in range(CUSTOMERS):
                client.send("Work", {"customer": customer, "number": number}, type="Places.Step")


def await_handled(connection: psycopg.Connection[Any], count: float) -> None:
    def is_done() -> bool:
        row = connection.execute("select count(*) from done").fetchone()
        assert row is not None
        return int(row[0]) >= count

    await_that(is_done, f"{count:.0f} messages to be handled")


@pytest.mark.slow
@pytest.mark.parametrize("batch_size", [1, 5])
def test_no_key_has_more_in_hand_whoever_is_killed(database: str, tmp_path: Path, batch_size: int) -> None:
    run(tmp_path, database, 2, 30, batch_size)


@pytest.mark.slow
def test_no_key_has_more_in_hand_through_many_kills(database: str, tmp_path: Path) -> None:
    run(tmp_path, database, effort(6, 60), 40, 1)
