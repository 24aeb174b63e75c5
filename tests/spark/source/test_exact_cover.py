"""However a log is cut into batches and partitions: each event that is ticked is given exactly once."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any

import psycopg
import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows

from rowbus.spark.log_source.readers import LogBatchReader
from tests.log.orders import Orders
from tests.log.queue_q import Connect
from tests.spark.source.conftest import Streams
from tests.spark.source.reading import Query, Row, rows_of

SEEDS = range(3)
PADDING = "x" * 600  # a dozen events a block, so that there are blocks to cut


class Writers:
    """Transactions that overlap, end in any order, or are rolled back, with ticks in between."""

    def __init__(self, orders: Orders, connect: Connect, seed: int) -> None:
        self.random = random.Random(seed)
        self._orders = orders
        self._connect = connect
        self._open: list[psycopg.Connection[Any]] = []
        self.long = connect()

    def write(self, steps: int) -> None:
        """Do so many random things."""
        self._insert(self.long, 20)
        for _ in range(steps):
            self.random.choices([self._begin, self._end, self._orders.tick, self._vacuum], [6, 6, 2, 1])[0]()

    def finish(self) -> None:
        """End all transactions, the long one last, and tick."""
        while self._open:
            self._end()
        self._orders.tick()
        self._insert(self.long, 200)
        self.long.commit()
        self._orders.tick()

    def _begin(self) -> None:
        if len(self._open) < 5:
            self._open.append(self._connect())
        self._insert(self.random.choice(self._open), self.random.randrange(1, 60))

    def _end(self) -> None:
        if self._open:
            connection = self._open.pop(self.random.randrange(len(self._open)))
            (connection.rollback if self.random.random() < 0.2 else connection.commit)()
            connection.close()

    def _vacuum(self) -> None:
        self._orders.connection.execute("vacuum pgq.event_1_0")

    @staticmethod
    def _insert(connection: psycopg.Connection[Any], count: int) -> None:
        connection.execute(
            "select pgq.insert_event('orders', 'order', n || %s) from generate_series(1, %s) as n",
            [PADDING, count],
        )


@pytest.fixture(params=SEEDS)
def writers(request: pytest.FixtureRequest, orders: Orders, connect: Connect) -> Writers:
    return Writers(orders, connect, request.param)


@pytest.fixture(autouse=True)
def _small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have hundreds of events cut as if they were hundreds of thousands."""
    monkeypatch.setattr("rowbus.spark.log_source.decisions.RECORDS", 150)
    monkeypatch.setattr("rowbus.spark.log_source.planner.SMALL", 100)
    monkeypatch.setattr("rowbus.spark.log_source.planner.SAMPLES", 4)


def limits(rng: random.Random) -> Iterator[ReadLimit]:
    while True:
        yield rng.choice([ReadMaxRows(20), ReadMaxRows(90), ReadMaxRows(300), ReadAllAvailable()])


def expected(orders: Orders) -> Counter[tuple[int, int]]:
    """Count the events of each tick, as PgQ itself reads them: by number of the event, and the tick."""
    ticks = [tick.id for tick in orders.log().ticks()]
    found: Counter[tuple[int, int]] = Counter()
    for before, tick in pairwise(ticks):
        found.update((event.id, tick) for event in orders.log().read(before, tick))
    return found


def given(rows: list[Row]) -> Counter[tuple[int, int]]:
    return Counter((row["ev_id"], row["tick_id"]) for row in rows)


def test_batches_of_any_size_are_together_what_the_log_holds(
    orders: Orders, stream: Streams, writers: Writers
) -> None:
    query = Query(stream(minPartitions=writers.random.choice([1, 3])))
    choice = limits(writers.random)
    rows: list[Row] = []
    for _ in range(4):
        writers.write(12)
        rows += query.batch(next(choice)) or []
        if writers.random.random() < 0.5:  # a new process, which knows the checkpoint only
            query.reader.stop()
            query = Query(stream(minPartitions=2), query.at)
    writers.finish()
    while (batch := query.batch(next(choice))) is not None:
        rows += batch
    assert given(rows) == expected(orders)


def test_a_batch_read_is_what_the_log_holds(
    orders: Orders, batch: Callable[..., LogBatchReader], writers: Writers
) -> None:
    writers.write(40)
    writers.finish()
    for parts in (1, 3, 7):
        reader = batch(minPartitions=parts)
        assert given(rows_of(reader, reader.partitions())) == expected(orders)


def test_a_replayed_batch_is_the_same_batch(orders: Orders, stream: Streams, writers: Writers) -> None:
    writers.write(30)
    writers.finish()
    query = Query(stream())
    choice = limits(writers.random)
    start = query.at
    while (rows := query.batch(next(choice))) is not None:
        again = stream()
        query.reader.stop()
        assert given(rows_of(again, again.partitions(start, query.at))) == given(rows)
        query, start = Query(again, query.at), query.at
