"""Consumers, tickers and the server of a log are killed at random, fifty times altogether: nothing is lost or doubled.

All of them are processes of their own. Each consumer writes into the log's own database, in the transaction that moves
its position, so each event has to be there exactly once for each of them: for one with a second process standing by,
one that takes batches, one with several workers by key, and a pair that cooperates. Some events fail at first and are
retried. The log rotates all the while.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, LiteralString

import psycopg
import pytest

from rowbus.database.postgresql.database import Database
from rowbus.log.schema.installer import install_now
from tests.fixtures.database import CrashableServer
from tests.fixtures.pairs import effort, today
from tests.fixtures.processes import Program, Programs, await_that

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]

PROGRAMS = Path(__file__).with_name("log_crash_programs")
PRODUCER = Path(__file__).with_name("crash_programs") / "producer.py"
EVENTS = effort(600, 3_000)
KILLS = effort(8, 40)
SERVER_KILLS = effort(3, 10)

CONSUMERS: dict[str, list[dict[str, Any]]] = {
    "single": [{}, {}],  # the second stands by
    "batches": [{"batch": True}],
    "keyed": [{"workers": 2}],
    "pair": [{"subconsumer": "x"}, {"subconsumer": "y"}],
}

TABLES: LiteralString = """
    create table sent (number integer not null);
    create table done (consumer text not null, number integer not null, pid integer not null, at bigserial);
    create table consumer (name text primary key);
    create view progress as
        select
            name as consumer,
            (select count(*) from done where done.consumer = name) as done,
            (select count(*) from sent) - (select count(*) from done where done.consumer = name) as behind
        from consumer
"""

WRONG: LiteralString = """
    with due as (
        select name as consumer, number from consumer cross join sent
    ), had as (
        select consumer, number, count(*) as times from done group by consumer, number
    )
    select due.consumer, due.number, coalesce(had.times, 0)
    from due
    full join had using (consumer, number)
    where coalesce(had.times, 0) <> 1 or due.number is null
    order by due.consumer, due.number
"""


class Crew:
    """The programs at work on a log, and what can be asked of the database about them."""

    def __init__(self, folder: Path, dsn: str) -> None:
        self._dsn = dsn
        self._programs = Programs(folder, dsn)
        self._consumers: list[tuple[str, dict[str, Any], Program]] = []
        self._tickers: list[Program] = []

    def install(self) -> None:
        """Make the log, its consumers and the tables."""
        with Database(self._dsn).session() as session:
            install_now(session)
        with psycopg.connect(self._dsn, autocommit=True) as connection:
            connection.execute(TABLES)
            connection.execute("select pgq.create_queue('crash')")
            connection.execute("select pgq.set_queue_config('crash', 'rotation_period', '0')")
            for name in CONSUMERS:
                connection.execute("select pgq.register_consumer('crash', %s)", (name,))
                connection.execute("insert into consumer values (%s)", (name,))

    def begin(self) -> None:
        """Start two tickers and all consumers."""
        self._tickers = [self._start_ticker() for _ in range(2)]
        for name, processes in CONSUMERS.items():
            for settings in processes:
                self._start_consumer(name, settings)

    def start_producer(self, seed: int) -> Program:
        return self._programs.start(PRODUCER, "events", str(EVENTS), str(seed))

    def _start_ticker(self) -> Program:
        return self._programs.start(PROGRAMS / "ticker.py")

    def _start_consumer(self, name: str, settings: dict[str, Any]) -> None:
        program = self._programs.start(PROGRAMS / "consumer.py", json.dumps({"name": name, **settings}))
        self._consumers.append((name, settings, program))

    def kill_one(self, chance: random.Random) -> None:
        """Kill a consumer at work or a ticker, and start another in its place."""
        if chance.random() < 0.25:
            self._tickers.pop(chance.randrange(len(self._tickers))).kill()
            self._tickers.append(self._start_ticker())
            return
        at_work = [consumer for consumer in self._consumers if consumer[2].pid in self._pids()]
        killed = chance.choice(at_work or self._consumers)
        self._consumers.remove(killed)
        killed[2].kill()
        self._start_consumer(killed[0], killed[1])

    def everyone_lives(self) -> bool:
        return all(program.is_running for program in (*self._tickers, *(c[2] for c in self._consumers)))

    def drain(self) -> None:
        """Tell everybody to end, and check that they do."""
        programs = [*self._tickers, *(program for _, _, program in self._consumers)]
        for program in programs:
            program.drain()
        assert {program.wait() for program in programs} == {0}

    def end(self) -> None:
        self._programs.end()

    # --- the database

    def ask(self, query: LiteralString) -> list[tuple[Any, ...]]:
        with psycopg.connect(self._dsn, autocommit=True) as connection:
            return connection.execute(query).fetchall()

    def progress(self) -> int:
        """Give how many events all consumers together have done."""
        return int(self.ask("select count(*) from done")[0][0])

    def await_progress(self, count: int) -> None:
        await_that(lambda: self.progress() >= count, f"{count} rows")

    def behind(self) -> int:
        """Give how many events the slowest consumer has still to do."""
        return int(self.ask("select max(behind) from progress")[0][0])

    def doubled(self) -> list[tuple[Any, ...]]:
        return self.ask("select consumer, number from done group by consumer, number having count(*) > 1")

    def undone(self) -> int:
        """Give how many rows of handlers were written and rolled back: they leave gaps in the sequence."""
        return int(
            self.ask("select (select last_value from done_at_seq) - (select count(*) from done)")[0][0]
        )

    def _pids(self) -> set[int]:
        return {pid for (pid,) in self.ask("select distinct pid from done")}


@contextmanager
def crew(folder: Path, dsn: str) -> Iterator[Crew]:
    crew = Crew(folder, dsn)
    try:
        crew.install()
        crew.begin()
        yield crew
    finally:
        crew.end()


def moments(chance: random.Random, count: int) -> list[int]:
    """Choose at which progress the kills come."""
    whole = EVENTS * len(CONSUMERS)
    return sorted(chance.sample(range(whole // 20, whole * 9 // 10), count))


def finish(workers: Crew, producer: Program) -> None:
    """Wait for the end of it, and check that each consumer did each event once."""
    assert producer.wait() == 0
    await_that(lambda: workers.behind() <= 0, "all consumers to be done", patience=120)
    workers.drain()
    confirmed = {int(number) for line in producer.lines for number in line.split()}
    sent = {number for (number,) in workers.ask("select number from sent")}
    assert confirmed <= sent
    assert len(confirmed) > EVENTS * 9 // 10
    assert workers.ask(WRONG) == []


@pytest.mark.one_version
def test_when_consumers_and_tickers_are_killed_each_event_is_handled_once_by_each_consumer(
    database: str, tmp_path: Path
) -> None:
    chance = random.Random(today())
    with crew(tmp_path, database) as workers:
        producer = workers.start_producer(1)
        for moment in moments(chance, KILLS):
            workers.await_progress(moment)
            workers.kill_one(chance)
            assert workers.doubled() == []
        finish(workers, producer)

        assert workers.undone() >= KILLS // 3, "too few kills hit a handler at work"


def test_when_the_server_is_killed_each_event_is_handled_once_by_each_consumer(
    crashable_server: CrashableServer, tmp_path: Path
) -> None:
    chance = random.Random(today())
    with crew(tmp_path, crashable_server.dsn) as workers:
        producer = workers.start_producer(2)
        for moment in moments(chance, SERVER_KILLS):
            workers.await_progress(moment)
            crashable_server.kill()
            crashable_server.start()
            assert workers.doubled() == []
        assert workers.everyone_lives(), "a killed server ended somebody"
        finish(workers, producer)
