"""The flows of Spark, walked without Spark: what its driver and its tasks do, in one process and in their order."""

from __future__ import annotations

import json
import pickle
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from itertools import count as numbers
from typing import Any, cast

import psycopg
import pyarrow as pa
from deltalake import DeltaTable
from pyspark.sql.types import LongType, StringType, StructField, StructType

from rowbus.database.postgresql.database import Database
from rowbus.log.consumers.table import ConsumerTable
from rowbus.spark.datasource import RowbusDataSource
from rowbus.spark.lake.tables.writer import TablesSettings
from rowbus.spark.pipelines.lake_tables import copy_new_tables
from rowbus.spark.pipelines.replication import COLUMNS
from rowbus.spark.sink.commit.batch import Task
from rowbus.spark.sink.writer import StreamWriter
from tools.flows.step import Step, count, tick

QUERY = "6ee4b1b1-93f6-4f4c-9a52-17d3e02b1a29"
GOODS = StructType([StructField("id", LongType()), StructField("name", StringType())])


@asynccontextmanager
async def sink(dsn: str) -> AsyncIterator[Step]:
    """Write a micro-batch of one row into a table, and commit it."""
    with psycopg.connect(dsn) as connection:
        connection.execute("create table goods (id int8 primary key, name text)")
    options = {"dsn": dsn, "checkpointLocation": "/checkpoints/flows", "deliver": "table", "table": "goods"}
    yield Step(lambda: _write(options, count(dsn, "goods")), lambda: count(dsn, "goods"))


def _write(options: dict[str, str], batch: int) -> None:
    rows = pa.record_batch({"id": pa.array([batch], pa.int64()), "name": pa.array(["chair"])})
    source = RowbusDataSource(options)
    writer: Any = source.streamWriter(GOODS, overwrite=False)
    task = Task(0, batch + 1, QUERY, batch)
    message = StreamWriter(replace(writer.sink, task=lambda: task)).write(iter([rows]))
    source.streamWriter(GOODS, overwrite=False).commit([message], batch)


@asynccontextmanager
async def lake(dsn: str) -> AsyncIterator[Step]:
    """Bring a Delta table up to date with a row that was inserted into a captured table."""
    with tempfile.TemporaryDirectory() as folder, psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("create table sold (id bigint generated always as identity primary key)")
        connection.execute("select pgq.capture_table('sold', 'changes', 'json', array['backup'])")
        with Database(dsn).session() as session:
            session.run(ConsumerTable("changes", "lake").register())
        copy_new_tables(TablesSettings(folder, "changes", ("*",), dsn, "delta"), lambda _line: None)
        job = LakeJob(dsn, folder)

        def act() -> None:
            connection.execute("insert into sold default values")
            tick(dsn)
            job.run()

        try:
            yield Step(act, lambda: len(DeltaTable(f"{folder}/public.sold").to_pyarrow_table()))
        finally:
            job.reader.stop()


class LakeJob:
    """The query of `rowbus spark lake`: brings the tables of a folder up to date, a micro-batch at a time."""

    def __init__(self, dsn: str, folder: str) -> None:
        """Begin where the consumer is."""
        place = {"dsn": dsn, "log": "changes"}
        reading = {
            "consumer": "lake",
            "columns": COLUMNS,
            "startingOffsets": "committed",
            "pollIntervalMs": "0",
        }
        source = RowbusDataSource(place | reading)
        self._schema = cast("StructType", source.schema())
        self.reader: Any = source.streamReader(self._schema)
        self._sink = RowbusDataSource(place | {"deliver": "tables", "path": folder, "tables": "*"})
        self._batches = numbers()
        self._at = self.reader.initialOffset()

    def run(self) -> None:
        """Read what is new, stage it and commit it."""
        self.reader.prepareForTriggerAvailableNow()
        end = json.loads(json.dumps(self.reader.latestOffset(self._at, None)))
        messages = [self._stage(part) for part in self.reader.partitions(self._at, end)]
        self._sink.streamWriter(self._schema, overwrite=False).commit(messages, next(self._batches))
        self.reader.commit(end)
        self._at = end

    def _stage(self, part: Any) -> Any:  # noqa: ANN401 - Spark's
        """Do the work of one task, on copies."""
        writer = self._sink.streamWriter(self._schema, overwrite=False)
        reader, writer, part = pickle.loads(pickle.dumps((self.reader, writer, part)))  # noqa: S301 - our own
        return writer.stage(QUERY, "task", reader.read(part))
