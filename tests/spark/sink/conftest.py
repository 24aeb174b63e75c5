"""Fixtures of the sink's tests: databases with a log, and batches of Spark's, without Spark."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import psycopg
import pyarrow as pa
import pytest
from pyspark.sql.datasource import WriterCommitMessage
from pyspark.sql.types import StringType, StructField, StructType

from rowbus.spark.sink import writer as sink
from rowbus.spark.sink.commit.batch import Task

QUERY = "6ee4b1b1-93f6-4f4c-9a52-17d3e02b1a29"


class Writing:
    """Writes micro-batches as Spark does: a writer for the tasks, another for the commit, all of it pickled."""

    def __init__(self, dsn: str) -> None:
        self.dsn = dsn
        self.options = {"checkpointLocation": "/checkpoints/one"}
        self.query = QUERY
        self._attempt = 0

    def writer(self, columns: list[str], **options: str) -> sink.StreamWriter:
        given = {"dsn": self.dsn, **self.options, **options}
        schema = StructType([StructField(name, StringType()) for name in columns])
        return sink.stream_writer(given, schema, False)  # noqa: FBT003 - as Spark calls it

    def tasks(
        self, batch_id: int, *partitions: pa.RecordBatch, **options: str
    ) -> list[WriterCommitMessage | None]:
        """Run one task for each partition and return their messages."""
        writer = self.writer(partitions[0].schema.names if partitions else [], **options)
        return [self.task(writer, number, batch_id, rows) for number, rows in enumerate(partitions)]

    def task(
        self, writer: sink.StreamWriter, partition: int, batch_id: int, rows: pa.RecordBatch
    ) -> WriterCommitMessage:
        """Run one attempt of one task."""
        self._attempt += 1
        task = Task(partition, self._attempt, self.query, batch_id)
        copied = sink.StreamWriter(replace(writer.sink, task=lambda: task))
        return copied.write(iter([rows] if rows.num_rows else []))

    def commit(
        self, batch_id: int, messages: list[WriterCommitMessage | None], columns: list[str], **options: str
    ) -> None:
        self.writer(columns, **options).commit(messages, batch_id)

    def abort(
        self, batch_id: int, messages: list[WriterCommitMessage | None], columns: list[str], **options: str
    ) -> None:
        self.writer(columns, **options).abort(messages, batch_id)

    def batch(self, batch_id: int, *partitions: pa.RecordBatch, **options: str) -> None:
        """Write and commit a whole micro-batch."""
        messages = self.tasks(batch_id, *partitions, **options)
        columns = partitions[0].schema.names if partitions else []
        self.commit(batch_id, messages, columns, **options)


def rows(**columns: list[Any]) -> pa.RecordBatch:
    """Give rows as Spark hands them over; a column of nothing but None is one of texts."""
    arrays = {name: pa.array(values) for name, values in columns.items()}
    texts = {name: array.cast(pa.string()) for name, array in arrays.items() if array.type == pa.null()}
    return pa.record_batch(arrays | texts)


@pytest.fixture
def log_script() -> str:
    return "select pgq.create_queue('orders'); create table goods (id int8 primary key, name text)"


@pytest.fixture
def writing(log_database: str) -> Iterator[Writing]:
    """Give what writes batches into `log_database`, where there are a log "orders" and a table `goods`."""
    yield Writing(log_database)
    with psycopg.connect(log_database, autocommit=True) as connection:
        query = "select gid from pg_prepared_xacts where database = current_database()"
        for (gid,) in connection.execute(query).fetchall():
            connection.execute(f"rollback prepared '{gid}'")
