"""Instances of an endpoint are killed while its recurring messages are sent: each tick is there, and once.

Three workers are processes of their own, killed with SIGKILL at random moments and replaced. In the end each tick is in
one place: it was handled, or its message waits in the queue.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path

import psycopg
import pytest

from tests.fixtures.pairs import effort, today
from tests.fixtures.processes import Programs, await_that

pytestmark = [pytest.mark.one_version]

PROGRAM = Path(__file__).with_name("crash_programs") / "recurring_worker.py"
WORKERS = 3
PLACES = (
    "select due from ticked"
    " union all select (convert_from(body, 'UTF8')::jsonb ->> 'due')::timestamptz from \"Work\" order by due"
)


class Scene:
    """A database, and the instances that work on it."""

    def __init__(self, folder: Path, dsn: str) -> None:
        self.connection = psycopg.connect(dsn, autocommit=True)
        self.connection.execute(
            "create table ticked (due timestamptz, at timestamptz default clock_timestamp())"
        )
        self._programs = Programs(folder, dsn)
        self._moments = random.Random(today())

    def run(self, every: timedelta, *, kills: int, ticks: int) -> None:
        """Have three instances run; after each so many ticks kill one, in the midst of its work, and start another."""
        interval = str(every.total_seconds())
        alive = [self._programs.start(PROGRAM, interval) for _ in range(WORKERS)]
        for _ in range(kills):
            self.await_ticks(ticks, every)
            alive.pop(self._moments.randrange(WORKERS)).kill()
            alive.append(self._programs.start(PROGRAM, interval))
        self.await_ticks(ticks, every)
        for worker in alive:
            worker.kill()

    def await_ticks(self, count: int, every: timedelta) -> None:
        """Wait until so many more ticks were handled, then for a random part of the time to the next."""
        handled = self.handled()
        await_that(lambda: self.handled() >= handled + count, f"{count} ticks")
        wait = timedelta(seconds=self._moments.uniform(0, every.total_seconds()))
        self.connection.execute("select pg_sleep(%s)", (wait.total_seconds(),))

    def handled(self) -> int:
        row = self.connection.execute("select count(*) from ticked").fetchone()
        assert row is not None
        return int(row[0])

    def ticks(self) -> list[datetime]:
        """Return the ticks that were handled, or wait in the queue, in order."""
        return [due for (due,) in self.connection.execute(PLACES.encode())]

    def last_sent(self) -> datetime:
        row = self.connection.execute('select last_sent from "Work.Recurring"').fetchone()
        assert row is not None
        assert isinstance(row[0], datetime)
        return row[0]

    def end(self) -> None:
        self._programs.end()
        self.connection.close()


@pytest.fixture
def scene(database: str, tmp_path: Path) -> Iterator[Scene]:
    scene = Scene(tmp_path, database)
    yield scene
    scene.end()


def assert_each_once(scene: Scene, every: timedelta) -> int:
    ticks = scene.ticks()
    assert ticks == [ticks[0] + number * every for number in range(len(ticks))]
    assert ticks[-1] == scene.last_sent()
    assert scene.connection.execute("select count(*) from error").fetchone() == (0,)
    return len(ticks)


@pytest.mark.slow
def test_each_tick_is_sent_once_whichever_instance_is_killed(scene: Scene) -> None:
    every = timedelta(milliseconds=100)
    scene.run(every, kills=4, ticks=5)
    assert assert_each_once(scene, every) >= 25


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_each_second_is_sent_once_whichever_instance_is_killed(scene: Scene) -> None:
    every = timedelta(seconds=1)
    kills = effort(7, 40)
    scene.run(every, kills=kills, ticks=3)
    assert assert_each_once(scene, every) >= 3 * kills
