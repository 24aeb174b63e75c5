"""Movers and workers are killed while messages become due: each arrives, none early, none twice.

Two movers and four workers, which move as well, are processes of their own, killed with SIGKILL at random moments and
replaced. With `net`, NServiceBus's statement works on the same table all the while, as an instance of the endpoint that
runs on .NET would.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Generator, Iterator
from contextlib import contextmanager, nullcontext
from datetime import datetime, timedelta
from pathlib import Path
from typing import NamedTuple

import psycopg
import pytest

import rowbus
from tests.fixtures.pairs import effort, today
from tests.fixtures.processes import Program, Programs, await_that

pytestmark = [pytest.mark.slow, pytest.mark.one_version, pytest.mark.timeout(300)]

PROGRAMS = Path(__file__).with_name("crash_programs")
MESSAGES = effort(600, 3_000)
FOLLOWING = MESSAGES // 10  # of these a handler sends another
KILLS = effort(5, 30)
MOVERS, WORKERS = 2, 4
LEAD = effort(2.0, 5.0)  # seconds until the first is due, and the kills begin
SPREAD = effort(4.0, 20.0)  # seconds over which the messages become due
NET_MOVE = (
    'with taken as (delete from "Work.Delayed" where id in (select id from "Work.Delayed"'
    " where due < now() at time zone 'UTC' limit 10) returning id, headers, body)"
    ' insert into "Work" (id, expires, headers, body) select id, null, headers, body from taken'
)
LEFT = (
    'select (select count(*) from "Work.Delayed") + (select count(*) from "Other.Delayed")'
    ' + (select count(*) from "Work") + (select count(*) from "Other")'
)


class Arrivals(NamedTuple):
    """Figures of the rows: all, different ones, and by how many seconds the earliest came late."""

    rows: int
    numbers: int
    least_late: float


class Scene:
    """A database with the messages, and the processes that see to them."""

    def __init__(self, folder: Path, dsn: str) -> None:
        self.connection = psycopg.connect(dsn, autocommit=True)
        self.programs = Programs(folder, dsn)
        self.alive: list[tuple[str, Program]] = []

    def prepare(self) -> None:
        """Create the table of arrivals, start one worker, which creates the others, and store all messages."""
        self.connection.execute("set timezone to 'UTC'")
        self.connection.execute("create table arrived (number int, due timestamptz, at timestamptz, pid int)")
        self.hire("delayed_worker.py")
        self.alive[0][1].await_line("serving")
        (now,) = self.connection.execute("select clock_timestamp()").fetchone() or (None,)
        assert isinstance(now, datetime)
        with self.connection.transaction():
            client = rowbus.Client(self.connection, delay_through="Work")
            for number in range(MESSAGES):
                due = now + timedelta(seconds=LEAD + SPREAD * number / MESSAGES)
                message = {"number": number, "due": due.isoformat()}
                destination = "Work" if number % 3 else "Other"
                client.send(destination, message, type="Crash.Delayed", deliver_at=due)
        self.connection.execute('analyze "Work.Delayed"')

    def hire(self, program: str, count: int = 1) -> None:
        for _ in range(count):
            self.alive.append((program, self.programs.start(PROGRAMS / program)))

    def kill_one(self, moments: random.Random) -> None:
        """Kill one process at random and put another in its place."""
        program, process = self.alive.pop(moments.randrange(len(self.alive)))
        process.kill()
        self.hire(program)

    def arrivals(self) -> Arrivals:
        row = self.connection.execute(
            "select count(*), count(distinct number), min(extract(epoch from at - due))::float8 from arrived"
        ).fetchone()
        assert row is not None
        return Arrivals(*row)

    def left(self) -> int:
        row = self.connection.execute(LEFT.encode()).fetchone()
        assert row is not None
        return int(row[0])


@pytest.fixture
def scene(database: str, tmp_path: Path) -> Iterator[Scene]:
    scene = Scene(tmp_path, database)
    yield scene
    scene.programs.end()
    scene.connection.close()


@contextmanager
def net_mover(dsn: str) -> Generator[None]:
    """Have NServiceBus's statement move what is due, again and again, in a session of UTC."""
    ended = threading.Event()

    def move() -> None:
        with psycopg.connect(dsn, autocommit=True) as connection:
            connection.execute("set timezone to 'UTC'")
            while not ended.wait(0.05):
                connection.execute(NET_MOVE.encode())

    thread = threading.Thread(target=move)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


@pytest.mark.parametrize("net", [False, True], ids=["alone", "beside-net"])
def test_each_delayed_message_arrives_once_and_not_early_whoever_is_killed(
    scene: Scene, database: str, *, net: bool
) -> None:
    scene.prepare()
    scene.hire("delayed_mover.py", MOVERS)
    scene.hire("delayed_worker.py", WORKERS - 1)
    moments = random.Random(today())

    with net_mover(database) if net else nullcontext():
        await_that(lambda: scene.arrivals().numbers > 0, "the first message to arrive")
        for _ in range(KILLS):
            time.sleep(moments.uniform(0.1, 1.2) * SPREAD / KILLS)  # long sleep: kills at random moments
            scene.kill_one(moments)
        outstanding = MESSAGES - scene.arrivals().numbers
        await_that(
            lambda: scene.arrivals().numbers == MESSAGES + FOLLOWING and scene.left() == 0,
            "all messages to arrive",
            patience=120,
        )

    arrivals = scene.arrivals()
    assert outstanding < MESSAGES, "the kills came before anything was due"
    assert arrivals.rows == arrivals.numbers == MESSAGES + FOLLOWING
    assert arrivals.least_late >= 0
    assert scene.connection.execute("select count(*) from error").fetchone() == (0,)
