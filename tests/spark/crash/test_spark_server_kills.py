"""PostgreSQL is killed and started again while a stream reads, writes or commits: nothing is lost or doubled.

What a crash does to a server's tables is what makes this another matter than a lost connection: those that are
unlogged are empty afterwards.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from rowbus.database.embedded import Cluster, find_binaries
from tests.fixtures.database import PREPARED, CrashableServer, Server, _place, joined, run_directory
from tests.fixtures.pairs import today, turn
from tests.fixtures.processes import await_that
from tests.spark.crash.conftest import SINKS, make_copy
from tests.spark.crash.faults import Plan, has_fired, release
from tests.spark.crash.scene import Log, Stream

pytestmark = [
    pytest.mark.slow,
    pytest.mark.turns("kills with Spark", 3),
    pytest.mark.spark,
    pytest.mark.timeout(300),
]

MOMENTS = [
    Plan("source.initial", "after"),
    Plan("source.latest", "after"),
    Plan("source.read.rows"),
    Plan("sink.write"),
    Plan("sink.write", "after"),  # what is staged is in the database, and not yet published
    Plan("sink.commit"),
    Plan("sink.commit", "after"),
    Plan("source.commit"),
]


@pytest.fixture
def prepared_server() -> Iterator[CrashableServer]:
    """Give a running server of this test's own that allows prepared transactions, on disk, with fsync."""
    with run_directory(_place(Server("pg18", durable=True))) as directory:
        cluster = Cluster(find_binaries(), directory / "server", settings=PREPARED)
        with joined(cluster):
            yield CrashableServer(cluster)


def survive(query_of: Stream, server: CrashableServer) -> None:
    """Kill the server when the planned moment comes, let the query end as it can, and start it again."""
    query = query_of.start()
    await_that(lambda: has_fired(query_of.faults), "the planned moment")
    server.kill()
    server.start()
    release(query_of.faults)
    try:
        query.awaitTermination(60)
    except PySparkException:
        pass
    finally:
        query.stop()
    query_of.run()


@pytest.mark.parametrize("sink", SINKS)
def test_when_the_server_is_killed_each_event_is_copied_once(
    faulty_spark: SparkSession, prepared_server: CrashableServer, spark_folder: Path, sink: str
) -> None:
    chance = random.Random(today())
    log = Log(prepared_server.dsn)
    log.install()
    moments = [moment for moment in MOMENTS if sink != "parquet" or moment.point.startswith("source")]
    for number, moment in enumerate(turn(moments, 3)):
        begin = log.begin_anew()
        log.fill(100, chance, ticks=3)
        name = f"copy_{number}"
        copy = make_copy(faulty_spark, log, sink, name, spark_folder)
        source = {"startingOffsets": begin, "maxTicksPerTrigger": "2"}
        stream = Stream(
            faulty_spark, log, copy, spark_folder / f"{name}.stream", consumer=name, source=source
        )
        moment._replace(action="wait").write(stream.faults)

        survive(stream, prepared_server)

        assert stream.wrong() == {}, moment
