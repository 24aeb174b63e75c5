"""A log and streams for tests that break something; one Spark session for all of them."""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.fixtures.pairs import today
from tests.spark.crash.faults import FaultySource
from tests.spark.crash.scene import Copy, Log, Stream, into_log, into_parquet, into_table

MakeStream = Callable[..., Stream]

ALL_SINKS = ("table-staged", "table-prepared", "log-staged", "log-prepared", "parquet")
CHOSEN = os.environ.get("ROWBUS_TEST_SINKS", "table-staged,parquet")
SINKS = ALL_SINKS if CHOSEN == "all" else tuple(CHOSEN.split(","))
"""Workloads that every crash is tried on; `all` takes two hours, too long for each change."""

SQL_SINKS = tuple(sink for sink in SINKS if sink != "parquet")


@pytest.fixture
def faulty_spark(spark: SparkSession) -> SparkSession:
    """Give the session, with the data source that fails where a test wants it to."""
    spark.dataSource.register(FaultySource)
    return spark


@pytest.fixture
def log(log_database: str) -> Iterator[Log]:
    """Give a log in a database of its own."""
    log = Log(log_database)
    log.create()
    yield log
    log.roll_back_prepared()


@pytest.fixture
def chance() -> random.Random:
    return random.Random(today())


def make_copy(spark: SparkSession, log: Log, sink: str, name: str, folder: Path) -> Copy:
    """Make what a stream writes to: `table-staged` and so on."""
    kind, _, how = sink.partition("-")
    if kind == "parquet":
        return into_parquet(spark, folder / name)
    return into_table(log, how, name) if kind == "table" else into_log(log, how, name)


@pytest.fixture
def make_stream(faulty_spark: SparkSession, log: Log, spark_folder: Path) -> Iterator[MakeStream]:
    """Give what makes streams; all are stopped in the end."""

    def make(sink: str = "table-staged", name: str = "copied", **source: str) -> Stream:
        copy = make_copy(faulty_spark, log, sink, name, spark_folder)
        return Stream(faulty_spark, log, copy, spark_folder / f"{name}.stream", consumer=name, source=source)

    yield make
    for query in faulty_spark.streams.active:
        query.stop()
