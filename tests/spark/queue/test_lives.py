"""Each message is in the sink once in the end, whatever a query lives through.

It crashes between any two steps, loses the newest entry of its commit log in a power cut, its connection, or messages
to a rival. The engine below takes the steps that Spark takes, in Spark's order, and keeps what Spark
keeps on disk. The sink is idempotent by batch, as Rowbus's own are.
"""

from __future__ import annotations

import random
from collections import Counter

import pytest
from pyspark.sql.streaming.datasource import ReadMaxRows

from rowbus.spark.queue_source.receive import QueueStreamReader
from rowbus.transport.queues.postgresql import QueueTable
from rowbus.transport.receiving.decisions import FROM_THE_START
from tests.spark.queue.queues import Offset, Queue, batch, numbers_of

LIVES = 6


class Crash(Exception):  # noqa: N818 - it is what happens, not what is wrong
    pass


class Engine:
    """Spark's micro-batches: an offset log, a commit log, and a sink that takes each batch once."""

    def __init__(self, queue: Queue, chance: random.Random) -> None:
        self.queue = queue
        self.chance = chance
        self.offsets: list[Offset] = []
        self.commits = 0
        self.sink: dict[int, list[int]] = {}
        self.crashes = 0

    def maybe_crash(self) -> None:
        if self.chance.random() < 0.12:
            self.crashes += 1
            raise Crash
        if self.chance.random() < 0.03:
            self.queue.ask(
                "select pg_terminate_backend(pid) from pg_stat_activity where application_name like 'rowbus spark%'"
            )

    def run(self) -> None:
        """Live until there is nothing more to do, or until a crash."""
        reader = self.queue.receiver(maxRecordsPerPartition=3, pollIntervalMs=0, lockTimeoutMs=5000)
        try:
            self.replay(reader)
            while self.next(reader):
                pass
        finally:
            reader.stop()

    def start_of(self, number: int, reader: QueueStreamReader) -> Offset:
        return self.offsets[number - 1] if number else reader.initialOffset()

    def replay(self, reader: QueueStreamReader) -> None:
        if self.commits < len(self.offsets):
            start = self.start_of(self.commits, reader)
            self.process(reader, self.commits, start, self.offsets[self.commits])

    def next(self, reader: QueueStreamReader) -> bool:
        number = self.commits
        start = self.start_of(number, reader)
        self.maybe_crash()
        end = reader.latestOffset(start, ReadMaxRows(self.chance.randint(1, 10)))
        self.maybe_crash()
        if end == start:
            return False
        self.offsets.append(end)
        self.maybe_crash()
        if number and self.chance.random() < 0.5:
            reader.commit(start)
        self.process(reader, number, start, end)
        return True

    def process(self, reader: QueueStreamReader, number: int, start: Offset, end: Offset) -> None:
        found = batch(reader, start, end)
        assert len(found) == end["messages"]
        self.maybe_crash()
        self.sink.setdefault(number, found)
        assert sorted(self.sink[number]) == sorted(found), "a replay is the same batch"
        self.maybe_crash()
        self.commits = number + 1
        self.maybe_crash()

    def lose_power(self) -> None:
        """Lose the newest entry of the commit log, if it is the newest batch's, as a disk may."""
        if self.commits and self.commits == len(self.offsets) and self.chance.random() < 0.3:
            self.commits -= 1


@pytest.mark.slow
@pytest.mark.timeout(240)
def test_whatever_happens_each_message_is_delivered_once(queue: Queue) -> None:
    for life in range(LIVES):
        one_life(queue, life)


def one_life(queue: Queue, seed: int) -> None:
    chance = random.Random(seed)
    queue.ask('truncate "Work"')
    queue.ask("drop schema if exists rowbus_spark cascade")
    engine = Engine(queue, chance)
    sent, rivals = 0, list[int]()
    for _ in range(8):
        sent = send(queue, sent, chance)
        try:
            engine.run()
        except Crash:
            engine.lose_power()
        rivals += rival(queue, chance)
    engine.chance = random.Random(seed)
    engine.maybe_crash = lambda: None  # type: ignore[method-assign]  # the end is peaceful
    engine.run()

    delivered = [number for rows in engine.sink.values() for number in rows] + rivals
    assert Counter(delivered) == Counter(range(sent)), f"seed {seed}"


def send(queue: Queue, sent: int, chance: random.Random) -> int:
    more = chance.randint(0, 20)
    queue.send(*range(sent, sent + more))
    return sent + more


def rival(queue: Queue, chance: random.Random) -> list[int]:
    """Receive some messages as an endpoint does."""
    with queue.session() as session:
        rows = session.run(QueueTable(queue.address).receive(chance.randint(1, 4), FROM_THE_START))
    return numbers_of(row.body for row in rows)
