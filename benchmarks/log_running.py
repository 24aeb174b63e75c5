"""A log at work: latency from insert to handler, and the consumer's loop beside a held snapshot.

Invariant: both run what a user runs: our ticker, our consumer, one event a transaction.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import psycopg

import rowbus
from benchmarks.log_databases import CONSUMER, QUEUE, LogDatabase
from benchmarks.log_producing import DATA
from benchmarks.measuring import Side

SETTINGS = rowbus.TickerSettings(tick_period=timedelta(milliseconds=50))
RATE = 100  # events per second, at random moments


def at_random(chance: random.Random) -> float:
    """Return the seconds between two events that know nothing of each other."""
    return chance.expovariate(RATE)


class Latencies:
    """A ticker, a consumer that listens, and a producer that writes at random moments."""

    def __init__(
        self, database: LogDatabase, events: int, pause: Callable[[random.Random], float] = at_random
    ) -> None:
        """Choose how many events, and the seconds between two; the log's own settings of ticks are PgQ's defaults."""
        self._database = database
        with database.connect() as connection:
            for name, value in (("ticker_max_lag", "3 seconds"), ("ticker_idle_period", "1 minute")):
                connection.execute("select pgq.set_queue_config(%s, %s, %s)", (QUEUE, name, value))
        self._events = events
        self._pause = pause
        self.milliseconds: list[list[float]] = []

    def side(self) -> Side:
        """Return the side to be run."""
        return Side("Ticker and consumer", lambda: None, lambda: asyncio.run(self._run()))

    async def _run(self) -> int:
        seen: list[float] = []
        done = asyncio.Event()
        log = rowbus.AsyncLog(self._database.dsn, QUEUE)

        @log.consumer(CONSUMER)
        async def measure(event: rowbus.Event, _context: rowbus.LogContext) -> None:
            seen.append((datetime.now(UTC) - event.time).total_seconds() * 1_000)
            if len(seen) == self._events:
                done.set()

        async with rowbus.Ticker(self._database.dsn, settings=SETTINGS), log:
            await asyncio.gather(asyncio.to_thread(self._produce), done.wait())
        self.milliseconds.append(seen)
        return len(seen)

    def _produce(self) -> None:
        chance = random.Random(1)
        with self._database.connect() as connection:
            for _ in range(self._events):
                time.sleep(self._pause(chance))
                connection.execute("select pgq.insert_event(%s, 'order_placed', %s)", (QUEUE, DATA))


class HeldSnapshotLoop:
    """Insert, tick, batch, read, finish, over and over, while a snapshot is held from the beginning."""

    def __init__(self, database: LogDatabase, loops: int) -> None:
        """Choose how many loops."""
        self._database = database
        self._loops = loops
        self.decline: list[float] = []

    def side(self) -> Side:
        """Return the side to be run."""
        return Side(f"{self._database.name}, beside a held snapshot", self._prepare, self._work)

    def _prepare(self) -> None:
        with self._database.connect() as connection:
            connection.execute("select pgq.unregister_consumer(%s, %s)", (QUEUE, CONSUMER))
            connection.execute("vacuum analyze pgq.subscription")
            connection.execute("vacuum analyze pgq.tick")
            connection.execute("select pgq.register_consumer(%s, %s)", (QUEUE, CONSUMER))

    def _work(self) -> int:
        with psycopg.connect(self._database.dsn) as holder, self._database.connect() as connection:
            holder.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
            holder.execute("select count(*) from pg_class")
            seconds = [self._loop(connection) for _ in range(self._loops)]
        tenth = self._loops // 10
        self.decline.append(sum(seconds[:tenth]) / sum(seconds[-tenth:]))
        return self._loops

    def _loop(self, connection: psycopg.Connection[tuple[object, ...]]) -> float:
        """Run one loop and return the seconds that the consumer's part took."""
        connection.execute("select pgq.insert_event(%s, 'order_placed', %s)", (QUEUE, DATA))
        connection.execute("select pgq.ticker(%s)", (QUEUE,))
        begun = time.perf_counter()
        with connection.transaction():
            batch = connection.execute("select pgq.next_batch(%s, %s)", (QUEUE, CONSUMER)).fetchone()
            events = connection.execute("select * from pgq.get_batch_events(%s)", batch).fetchall()
            finished = connection.execute("select pgq.finish_batch(%s)", batch).fetchone()
        assert (len(events), finished) == (1, (1,))
        return time.perf_counter() - begun
