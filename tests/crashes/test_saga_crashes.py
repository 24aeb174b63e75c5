"""Workers are killed while sagas go on: each transition is there exactly once, none is lost, and no timeout is early.

The messages of all sagas are in the queue from the beginning, each of them twice, in random order. Four workers are
processes of their own, killed with SIGKILL at random moments of the progress and replaced. ROWBUS_TEST_SAGAS says how
many sagas there are, ROWBUS_TEST_SAGA_KILLS how many kills: 10,000 and 200 take minutes.
"""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from rowbus.messages.address import QueueAddress
from rowbus.transport.queues.postgresql import QueueTable
from tests.fixtures.processes import Programs, await_that

pytestmark = [pytest.mark.slow, pytest.mark.one_version, pytest.mark.timeout(1800)]

PROGRAM = Path(__file__).with_name("crash_programs") / "saga_worker.py"
SAGAS = int(os.environ.get("ROWBUS_TEST_SAGAS", "150"))
KILLS = int(os.environ.get("ROWBUS_TEST_SAGA_KILLS", "4"))
WORKERS = 4
STEPS = ("placed", "paid", "packed")
TABLES = (
    "create table transitions (number int, step text, asked timestamptz, at timestamptz default clock_timestamp())",
    "create table completed (number int, done text[])",
)
FILL = """
with message as materialized (
    select number, step, gen_random_uuid() as id
    from generate_series(1, %s) as number, unnest(%s::text[]) as step
)
insert into "Work" (id, headers, body)
select
    gen_random_uuid(),
    json_build_object('NServiceBus.MessageId', id, 'NServiceBus.EnclosedMessageTypes', 'Crash.Step')::text,
    convert_to(json_build_object('number', number, 'name', step)::text, 'UTF8')
from message, generate_series(1, 2)
order by random()
"""
TRANSITIONS = "select number, array_agg(step order by step) from transitions group by number order by number"
EARLY = "select * from transitions where step = 'overdue' and at < asked + interval '500 milliseconds'"
WHY = "select headers::jsonb ->> 'NServiceBus.ExceptionInfo.Message' from error"
LEFT = ("Work", "Work.Delayed", "Work.Order", "error")


class Scene:
    """A database full of messages, and the workers that are killed over them."""

    def __init__(self, folder: Path, dsn: str, batch_size: int) -> None:
        self.connection = psycopg.connect(dsn, autocommit=True)
        for statement in QueueTable(QueueAddress("public", "Work")).create():
            self.connection.execute(statement.query.text)
        for table in TABLES:
            self.connection.execute(table.encode())
        self.connection.execute(FILL, (SAGAS, list(STEPS)))
        self._programs = Programs(folder, dsn)
        self._batch_size = str(batch_size)
        self._chance = random.Random(batch_size)

    def run(self) -> None:
        """Have four workers do it all; kill one at each of so many moments of the progress, and start another."""
        workers = [self._programs.start(PROGRAM, self._batch_size) for _ in range(WORKERS)]
        for moment in sorted(self._chance.sample(range(1, SAGAS * 3), KILLS)):
            self._await_transitions(moment)
            workers.pop(self._chance.randrange(WORKERS)).kill()
            workers.append(self._programs.start(PROGRAM, self._batch_size))
        await_that(lambda: self._count("completed") >= SAGAS, "all sagas to complete", patience=900)
        await_that(lambda: self._count('"Work"') == 0, "the doubled messages to be consumed", patience=300)
        for worker in workers:
            worker.kill()

    def _await_transitions(self, count: int) -> None:
        await_that(lambda: self._count("transitions") >= count, f"{count} transitions", patience=300)

    def _count(self, table: str) -> int:
        ((count,),) = self.rows(f"select count(*) from {table}")
        assert isinstance(count, int)
        return count

    def rows(self, query: str) -> list[tuple[object, ...]]:
        return self.connection.execute(query.encode()).fetchall()

    def left(self) -> dict[str, int]:
        return {table: self._count(f'"{table}"') for table in LEFT}

    def end(self) -> None:
        self._programs.end()
        self.connection.close()


@pytest.fixture(params=[1, 20], ids=["singles", "batches"])
def scene(request: pytest.FixtureRequest, database: str, tmp_path: Path) -> Iterator[Scene]:
    scene = Scene(tmp_path, database, request.param)
    yield scene
    scene.end()


def test_each_transition_happens_once_whichever_worker_is_killed(scene: Scene) -> None:
    scene.run()
    expected = [
        (number, sorted(STEPS if number % 2 else (*STEPS, "overdue"))) for number in range(1, SAGAS + 1)
    ]
    assert scene.rows(TRANSITIONS) == expected
    assert scene.rows(EARLY) == []
    assert scene.rows("select number from completed order by number") == [(number,) for number, _ in expected]
    assert scene.rows(WHY) == []
    assert scene.left() == dict.fromkeys(LEFT, 0)
