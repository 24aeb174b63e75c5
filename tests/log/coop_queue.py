"""A queue "q" with a cooperative consumer "c", as its tests use it."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from contextlib import contextmanager
from typing import LiteralString

import psycopg
from psycopg.rows import scalar_row

from tests.fixtures.processes import await_blocked

NEXT: LiteralString = "select pgq_coop.next_batch('q', 'c', %s)"
TAKE_OVER: LiteralString = "select pgq_coop.next_batch('q', 'c', %s, '1 hour')"


class CoopQueue:
    """The queue, seen through one connection."""

    def __init__(self, connection: psycopg.Connection) -> None:
        self.connection = connection
        self.warnings: list[str] = []
        connection.add_notice_handler(lambda notice: self.warnings.append(notice.message_primary or ""))

    def one(self, query: LiteralString, *arguments: object) -> object:
        """Return the first column of the first row."""
        return self.connection.cursor(row_factory=scalar_row).execute(query, arguments).fetchone()

    def column(self, query: LiteralString, *arguments: object) -> list[object]:
        """Return the first column of all rows."""
        return self.connection.cursor(row_factory=scalar_row).execute(query, arguments).fetchall()

    def create(self, *members: str) -> None:
        self.one("select pgq.create_queue('q')")
        for member in members:
            assert self.register(member) == 1

    def register(self, member: str) -> object:
        return self.one("select pgq_coop.register_subconsumer('q', 'c', %s)", member)

    def unregister(self, member: str, batch_handling: int | None = 0) -> object:
        return self.one("select pgq_coop.unregister_subconsumer('q', 'c', %s, %s)", member, batch_handling)

    def fill(self, *datas: str) -> None:
        """Append one tick for each of these events."""
        for data in datas:
            self.one("select pgq.insert_event('q', 't', %s)", data)
            self.one("select pgq.force_tick('q')")
            assert self.one("select pgq.ticker('q')") is not None

    def next(self, member: str) -> int | None:
        batch = self.one(NEXT, member)
        assert batch is None or isinstance(batch, int)
        return batch

    def take_over(self, member: str) -> int | None:
        """Ask for a batch, and take that of a member that gave no sign of life for an hour."""
        batch = self.one(TAKE_OVER, member)
        assert batch is None or isinstance(batch, int)
        return batch

    def hold(self, member: str) -> int:
        """Take a batch, which there must be."""
        batch = self.next(member)
        assert batch is not None
        return batch

    def finish(self, batch: int | None) -> object:
        return self.one("select pgq_coop.finish_batch(%s)", batch)

    def touch(self, member: str) -> object:
        return self.one("select pgq_coop.touch_subconsumer('q', 'c', %s)", member)

    def datas(self, batch: int | None) -> list[object]:
        return self.column("select ev_data from pgq.get_batch_events(%s)", batch)

    def die(self, member: str) -> None:
        """Let a member have given no sign of life for longer than `take_over` waits."""
        self.connection.execute(
            "update pgq.subscription set sub_active = now() - interval '2 hours' from pgq.consumer"
            " where co_id = sub_consumer and co_name = 'c.' || %s",
            [member],
        )

    def last_seen(self, member: str) -> object:
        """Return how long ago a member gave a sign of life, in seconds."""
        return self.one(
            "select extract(epoch from last_seen)::int from pgq.get_consumer_info('q', 'c.' || %s)", member
        )

    def names(self) -> list[object]:
        """Return the names of all consumers there are, subscribed or not."""
        return self.column("select co_name from pgq.consumer order by co_name")

    def await_blocked(self, other: psycopg.Connection) -> None:
        """Wait until another session waits for a lock."""
        await_blocked(self.connection, other)


@contextmanager
def another_session(dsn: str) -> Generator[CoopQueue]:
    """Give the queue seen through a connection with transactions of its own; what is left open is rolled back."""
    with psycopg.connect(dsn) as connection:
        yield CoopQueue(connection)
        connection.rollback()


def emptied(queue: CoopQueue, member: str) -> Iterator[object]:
    """Take and finish batches until there are none; yield their events."""
    while (batch := queue.take_over(member)) is not None:
        yield from queue.datas(batch)
        assert queue.finish(batch) == 1
