"""The log under real concurrency: everybody at once, for seconds, and every committed event counted at the end.

`test_model` knows what is committed at every moment because only one connection moves at a time; here all of them do,
so the moments within a function (a snapshot taken, a lock not yet) come into it. What is checked is what can be:
each event that was committed is given once to each consumer, and none that was rolled back.
"""

from __future__ import annotations

import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

import psycopg
import pytest

from tests.fixtures.pairs import effort

QUEUE = "crowd"
SETTINGS = "-c lock_timeout=1s -c client_min_messages=error"
WRITERS = 3
TICKERS = 3
CONSUMERS = ("a", "b")
GROUP = "group"
MEMBERS = ("x", "y")
REFUSED = (
    psycopg.errors.RaiseException,
    psycopg.errors.LockNotAvailable,
    psycopg.errors.ObjectInUse,
    psycopg.errors.SerializationFailure,
)

Connection = psycopg.Connection[Any]


@dataclass
class Crowd:
    """Threads that all work on one log until they are told to stop, and what they did."""

    dsn: str
    stop: threading.Event = field(default_factory=threading.Event)
    committed: list[int] = field(default_factory=list)
    given: dict[str, list[int]] = field(default_factory=lambda: {name: [] for name in (*CONSUMERS, GROUP)})
    problems: list[BaseException] = field(default_factory=list)
    rotations: int = 0

    @contextmanager
    def at_work(self, seed: int) -> Iterator[None]:
        """Have them all work."""
        tasks: list[tuple[Callable[..., None], object]] = [
            *((self.write, number) for number in range(WRITERS)),
            *((self.tick, number) for number in range(TICKERS)),
            *((self.consume, name) for name in CONSUMERS),
            *((self.cooperate, name) for name in MEMBERS),
            (self.rotate, None),
        ]
        threads = [
            threading.Thread(target=self._run, args=(task, argument, f"{seed} {task.__name__} {argument}"))
            for task, argument in tasks
        ]
        for thread in threads:
            thread.start()
        try:
            yield
        finally:
            self.stop.set()
            for thread in threads:
                thread.join()

    def _run(
        self, task: Callable[[Connection, random.Random, object], None], argument: object, seed: str
    ) -> None:
        chance = random.Random(seed)
        try:
            with psycopg.connect(self.dsn, autocommit=True, options=SETTINGS) as connection:
                while not self.stop.is_set():
                    task(connection, chance, argument)
        except BaseException as problem:
            self.problems.append(problem)
            self.stop.set()
            raise

    def write(self, connection: Connection, chance: random.Random, number: int) -> None:
        """Write in a transaction, sometimes under a savepoint that is rolled back, and end it somehow."""
        connection.execute("begin")
        written = [self._insert(connection, number) for _ in range(chance.randint(1, 3))]
        if chance.random() < 0.2:
            connection.execute("savepoint mark")
            self._insert(connection, number)
            connection.execute("rollback to savepoint mark")
        self._pause(chance)
        if chance.random() < 0.2:
            connection.execute("rollback")
            return
        if chance.random() < 0.2:
            name = f"w{number} {written[0]}"
            connection.execute(f"prepare transaction '{name}'".encode())
            self._pause(chance)
            connection.execute(f"commit prepared '{name}'".encode())
        else:
            connection.execute("commit")
        self.committed += written

    def _insert(self, connection: Connection, number: int) -> int:
        row = connection.execute("select pgq.insert_event(%s, %s, '')", (QUEUE, f"w{number}")).fetchone()
        assert row is not None
        return int(row[0])

    def _pause(self, chance: random.Random) -> None:
        if chance.random() < 0.3:
            self.stop.wait(chance.uniform(0, 0.01))

    def tick(self, connection: Connection, chance: random.Random, number: int) -> None:
        """Tick, sometimes in a transaction that goes on, sometimes in one that saw the world some time ago."""
        self.stop.wait(0.001)  # or there would be ticks by the thousand, and each is a batch
        isolation = " isolation level repeatable read" if chance.random() < 0.1 else ""
        with suppress(*REFUSED):
            connection.execute(f"begin{isolation}".encode())
            if chance.random() < 0.2:
                connection.execute("select pg_current_snapshot()")
                self._pause(chance)
            connection.execute("select pgq.ticker(%s)", (QUEUE,))
            self._pause(chance)
            connection.execute("commit" if chance.random() < 0.9 else "rollback")
            return
        connection.execute("rollback")

    def rotate(self, connection: Connection, chance: random.Random, _nothing: None) -> None:
        """Take a step of rotation."""
        with suppress(*REFUSED):
            connection.execute("select pgq.maint_rotate_tables_step1(%s)", (QUEUE,))
            self._pause(chance)
            connection.execute("select pgq.maint_rotate_tables_step2()")
            self.rotations += 1

    def consume(self, connection: Connection, chance: random.Random, name: str) -> None:
        """Read a batch and finish it, in one transaction; or give it up."""
        with suppress(*REFUSED):
            connection.execute("begin")
            batch = connection.execute("select pgq.next_batch(%s, %s)", (QUEUE, name)).fetchone()
            events = self._read(connection, batch)
            if batch is not None and batch[0] is not None:
                connection.execute("select pgq.finish_batch(%s)", batch)
            if chance.random() < 0.8:
                connection.execute("commit")
                self.given[name] += events
                return
        connection.execute("rollback")

    def cooperate(self, connection: Connection, chance: random.Random, name: str) -> None:
        """Take a batch of the group's, or of a member who seems dead, and finish it if it is still ours."""
        with suppress(*REFUSED):
            query = "select pgq_coop.next_batch(%s, %s, %s, '5 milliseconds')"
            batch = connection.execute(query, (QUEUE, GROUP, name)).fetchone()
            if batch is None or batch[0] is None:
                return
            self._pause(chance)
            with connection.transaction():
                events = self._read(connection, batch)
                # The lock on the member's row keeps the batch ours from here to the commit.
                finished = connection.execute("select pgq_coop.finish_batch(%s)", batch).fetchone()
            self.given[GROUP] += events if finished == (1,) else []

    @staticmethod
    def _read(connection: Connection, batch: tuple[int | None] | None) -> list[int]:
        if batch is None or batch[0] is None:
            return []
        query = "select ev_id from pgq.get_batch_events(%s)"
        return [number for (number,) in connection.execute(query, batch)]

    def settle(self) -> None:
        """Tick once more, and let everybody catch up."""
        with psycopg.connect(self.dsn, autocommit=True, options=SETTINGS) as connection:
            for _ in range(2):
                connection.execute("select pgq.ticker(%s)", (QUEUE,))
            certain = random.Random()
            certain.random = lambda: 0.5  # type: ignore[method-assign]  # commits, and pauses nowhere
            for name in CONSUMERS:
                for _ in range(self._behind(connection, name)):
                    self.consume(connection, certain, name)
            for name in MEMBERS * 2:
                for _ in range(self._behind(connection, GROUP) + 1):
                    self.cooperate(connection, certain, name)
                time.sleep(0.01)  # until whoever holds a batch counts as dead

    @staticmethod
    def _behind(connection: Connection, name: str) -> int:
        query = """
            select count(*)
            from pgq.tick
            join pgq.queue on queue_id = tick_queue and queue_name = %s
            where tick_id > (select last_tick from pgq.get_consumer_info(%s, %s))
        """
        row = connection.execute(query, (QUEUE, QUEUE, name)).fetchone()
        assert row is not None
        return int(row[0])


def gather(dsn: str) -> Crowd:
    """Make the log and its consumers."""
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("select pgq.create_queue(%s)", (QUEUE,))
        for name in ("ticker_max_lag", "ticker_idle_period", "rotation_period"):
            connection.execute("select pgq.set_queue_config(%s, %s, '0')", (QUEUE, name))
        for name in CONSUMERS:
            connection.execute("select pgq.register_consumer(%s, %s)", (QUEUE, name))
        for name in MEMBERS:
            connection.execute("select pgq_coop.register_subconsumer(%s, %s, %s)", (QUEUE, GROUP, name))
    return Crowd(dsn)


def check(dsn: str, seed: int, seconds: float) -> None:
    """Have the crowd work for so long, and compare."""
    crowd = gather(dsn)
    with crowd.at_work(seed):
        crowd.stop.wait(seconds)
    crowd.settle()
    assert crowd.problems == []
    assert len(crowd.committed) > 10 * seconds
    assert crowd.rotations > 0
    for name, given in crowd.given.items():
        assert Counter(given) == Counter(crowd.committed), name


@pytest.mark.slow
def test_with_everybody_at_work_at_once_each_committed_event_is_given_once(log_database: str) -> None:
    check(log_database, seed=1, seconds=2)


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("seed", range(2, 5))
def test_with_everybody_at_work_at_once_for_long_each_committed_event_is_given_once(
    log_database: str, seed: int
) -> None:
    check(log_database, seed=seed, seconds=effort(4, 8))
