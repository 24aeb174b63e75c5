"""The queue source in a Spark session, and queues into lakes: end to end, with what Spark repeats after a crash."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.spark.queue.queues import Queue

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

pytestmark = [pytest.mark.one_version, pytest.mark.filterwarnings("ignore")]

Run = Callable[..., "StreamingQuery"]


@pytest.fixture
def run(spark: SparkSession, queue: Queue, spark_folder: Path) -> Run:
    """Give what receives all there is, into Parquet or a lake, and waits until it is done."""

    def receive(target: str, **given: object) -> StreamingQuery:
        options = queue.options(mode="receive", consumer="lake", maxOffsetsPerTrigger=4, **given)
        stream = spark.readStream.format("rowbus").options(**options).load()
        writer = stream.writeStream.option("checkpointLocation", str(spark_folder / "checkpoint"))
        lake = writer.format("rowbus").option("deliver", target)
        writer = writer.format("parquet") if target == "parquet" else lake
        query = writer.trigger(availableNow=True).start(str(spark_folder / target))
        query.awaitTermination()
        return query

    return receive


def lose_last_commit(folder: Path) -> None:
    """Leave the checkpoint as a crash does that comes after the sink's commit and before Spark's."""
    commits = folder / "checkpoint" / "commits"
    last = max(int(path.name) for path in commits.iterdir() if path.name.isdigit())
    (commits / str(last)).unlink()
    (commits / f".{last}.crc").unlink()


def test_a_queue_is_a_table_to_look_at(spark: SparkSession, queue: Queue) -> None:
    queue.send(*range(10))
    frame = spark.read.format("rowbus").options(**queue.options(maxBlocksPerPartition=1)).load()

    assert frame.selectExpr("count(*)", "max(get_json_object(body, '$.number'))").first() == (10, "9")
    assert frame.where("headers['NServiceBus.EnclosedMessageTypes'] = 'Shop.Work'").count() == 10
    assert frame.where("message_type = 'Shop.Work' and time_sent > timestamp'2026-01-01'").count() == 10
    assert queue.waiting() == list(range(10))


@pytest.mark.parametrize(
    "target",
    [
        "parquet",
        pytest.param("delta", marks=pytest.mark.slow),
        pytest.param("iceberg", marks=pytest.mark.slow),
    ],
)
def test_each_message_arrives_once_also_when_the_last_batch_is_replayed(
    spark: SparkSession, queue: Queue, run: Run, spark_folder: Path, target: str
) -> None:
    queue.send(*range(10))
    run(target)
    assert queue.waiting() == []
    lose_last_commit(spark_folder)
    queue.send(10, 11)
    run(target)

    assert sorted(numbers(spark, spark_folder, target)) == list(range(12))
    assert queue.ask("select distinct state from rowbus_spark.claim") == [("acked",)]


def test_a_run_that_finds_nothing_ends(run: Run) -> None:
    progress = run("parquet").lastProgress

    assert progress is not None
    assert progress["numInputRows"] == 0


def numbers(spark: SparkSession, folder: Path, target: str) -> list[int]:
    """Read the numbers of the messages that have arrived."""
    if target == "parquet":
        found = spark.read.parquet(str(folder / "parquet")).selectExpr("get_json_object(body, '$.number')")
        return [int(row[0]) for row in found.collect()]
    if target == "delta":
        from deltalake import DeltaTable  # noqa: PLC0415 - slow to import

        bodies = DeltaTable(folder / "delta").to_pyarrow_table().column("body").to_pylist()
    else:
        from pyiceberg.catalog.sql import SqlCatalog  # noqa: PLC0415 - as above

        catalog = SqlCatalog("rowbus", uri=f"sqlite:///{folder}/iceberg/catalog.db")
        bodies = catalog.load_table("lake.iceberg").scan().to_arrow().column("body").to_pylist()
    return [json.loads(str(body))["number"] for body in bodies]
