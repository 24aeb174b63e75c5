"""Captured tables of many types, and a replica of them brought up to date without Spark: by the same steps, in turn."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
import pyarrow as pa

from rowbus.database.postgresql.connection import Session
from rowbus.database.postgresql.database import Database
from rowbus.log.consumers.table import ConsumerTable
from rowbus.log.event import Event
from rowbus.log.log import Log
from rowbus.spark.captured import COLUMNS
from rowbus.spark.pipelines.replica import ReplicaPlan, copy_tables
from rowbus.spark.schema import ensure
from rowbus.spark.sink.commit import batch_commit
from rowbus.spark.sink.commit import task as sink_task
from rowbus.spark.sink.commit.batch import BatchKey, Part, Task, new_writer
from rowbus.spark.sink.targets.changes import ChangesTarget

TABLES = """
create type mood as enum ('good', 'bad');
create domain short_text as varchar(10);
create table orders (
    id int primary key, customer text not null default 'nobody', total numeric(12, 2), at timestamptz, facts jsonb,
    tags text [], mood mood, code char(3), picture bytea, nick short_text, done boolean, span interval,
    twice int generated always as (id * 2) stored
);
create table "Line items" ("order id" bigint, "position" smallint, note text, primary key ("order id", "position"));
create table readings (value double precision);
"""
CAPTURE = """
select pgq.create_queue('changes');
select pgq.capture_table('orders', 'changes', {form!r});
select pgq.capture_table('"Line items"', 'changes', {form!r}, '{{backup}}');
select pgq.capture_table('readings', 'changes', {form!r}, '{{insert-only}}');
"""
NAMES = ("orders", '"Line items"', "readings")


DELIVERY: Any = ChangesTarget("copy")  # the protocol's `target` is a property in all that implement it
PLAN = ReplicaPlan("changes", "copier", "copy", "copy", None)


class Shop:
    """A database with captured tables, and a replica of them in the schema `copy` of the same database."""

    def __init__(self, dsn: str, connection: psycopg.Connection) -> None:
        self.dsn = dsn
        self.connection = connection
        self.batches = 0
        self.query = "q"

    def copy(self, plan: ReplicaPlan = PLAN) -> dict[str, int]:
        """Register and copy, as `replicate` does before it starts Spark's query."""
        return copy_tables(Database(self.dsn), Database(self.dsn), plan, lambda _line: None)

    def tick(self) -> int:
        self.connection.execute("select pgq.force_tick('changes')")
        self.connection.execute("select pgq.ticker('changes')")
        return int(self.one("select max(tick_id) from pgq.tick"))

    def one(self, query: str) -> Any:  # noqa: ANN401 - a value of any type
        row = self.connection.execute(query).fetchone()
        assert row is not None
        return row[0]

    @contextmanager
    def batch(self, tasks: int = 2) -> Iterator[Callable[[], bool]]:
        """Stage what the consumer has not been given, by several tasks, and give what commits it."""
        end = self.tick()
        position = self.one("select last_tick from pgq.get_consumer_info('changes', 'copier')")
        events = list(Log(self.dsn, "changes").read(position, end))
        key = BatchKey("test", "replica:copy", self.query, self.batches)
        with Database(self.dsn).session() as session:
            ensure(session)
            parts = [
                self._stage(session, key, Task(task, task), events[task::tasks]) for task in range(tasks)
            ]

            def commit() -> bool:
                done = batch_commit.commit(session, DELIVERY, key, "staged", parts)
                session.run(ConsumerTable("changes", "copier").seek(end))
                return done

            yield commit
        self.batches += 1

    def _stage(self, session: Session, key: BatchKey, task: Task, events: list[Event]) -> Part:
        rows = [(e.id, e.txid, e.type, e.data, e.extra1, e.extra2) for e in events]
        kinds = (pa.int64(), pa.int64(), *[pa.string()] * 4)
        columns = list(zip(*rows, strict=True)) or [()] * len(kinds)
        arrays = [pa.array(column, kind) for column, kind in zip(columns, kinds, strict=True)]
        found = pa.RecordBatch.from_arrays(arrays, names=list(COLUMNS))
        attempt = sink_task.TaskAttempt(DELIVERY, key, new_writer(), task)
        return sink_task.stage_rows(session, attempt, iter([found]), found.schema)

    def apply(self, tasks: int = 2) -> bool:
        """Apply what is new as one micro-batch."""
        with self.batch(tasks) as commit:
            return commit()

    def differences(self) -> list[Any]:
        """Give the rows that are in one of the two only."""
        found: list[Any] = []
        for name in NAMES:
            source, copied = (self.texts(f"{schema}.{name}") for schema in ("public", "copy"))
            found += [(name, *row) for row in source.symmetric_difference(copied)]
        return found

    def texts(self, table: str) -> set[Any]:
        return set(
            self.connection.execute(
                f"select to_jsonb(t)::text, count(*) from {table} as t group by 1"
            ).fetchall()
        )
