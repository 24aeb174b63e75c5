"""The log source in a real Spark session: the few things that only Spark can show."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pyspark.errors import StreamingQueryException

import rowbus.spark
from rowbus.spark.log_source.options import COLUMNS
from rowbus.spark.log_source.read import arrow_schema
from tests.fixtures.every import every
from tests.log.orders import Orders
from tests.spark.source.reading import Options

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

pytestmark = pytest.mark.one_version


def archive(spark: SparkSession, options: dict[str, str], folder: Path) -> None:
    """Stream what is there now to Parquet, and end."""
    frame = spark.readStream.format("rowbus").options(**options).load()
    query = (
        frame.writeStream.format("parquet")
        .option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(availableNow=True)
        .start(str(folder / "events"))
    )
    query.awaitTermination()


def datas(frame: DataFrame) -> list[str]:
    return [row["ev_data"] for row in frame.orderBy("ev_id").collect()]


def test_a_log_is_streamed_to_parquet_and_on_from_where_it_was(
    spark: SparkSession, orders: Orders, options: Options, spark_folder: Path
) -> None:
    orders.deliver("a", "b")
    archive(spark, options(lockTimeoutMs="10s"), spark_folder)
    orders.deliver("c")
    orders.deliver("d")
    archive(spark, options(lockTimeoutMs="10s"), spark_folder)
    archive(spark, options(lockTimeoutMs="10s"), spark_folder)
    assert datas(spark.read.parquet(str(spark_folder / "events"))) == ["a", "b", "c", "d"]


def test_a_log_is_read_as_a_batch(spark: SparkSession, orders: Orders, options: Options) -> None:
    orders.deliver("a", "b")
    frame = spark.read.format("rowbus").options(**options(consumer=None)).load()
    assert datas(frame) == ["a", "b"]
    assert frame.count() == 2


def test_spark_has_the_same_types_in_mind(spark: SparkSession, orders: Orders, options: Options) -> None:
    from pyspark.sql.pandas.types import to_arrow_schema  # noqa: PLC0415 - Spark's own, to compare with

    columns = spark.read.format("rowbus").options(**options(consumer=None)).load().schema
    assert to_arrow_schema(columns, timezone="UTC").equals(arrow_schema(COLUMNS))


def test_several_logs_are_one_frame_and_only_the_columns_wanted_are_read(
    spark: SparkSession, orders: Orders, options: Options
) -> None:
    orders.connection.execute("select pgq.create_queue('audit')")
    orders.connection.execute("select pgq.insert_event('audit', 'kind', 'b')")
    orders.connection.execute("select pgq.force_tick('audit'), pgq.ticker('audit')")
    orders.deliver("a")
    for log, logs in ((None, "orders, audit"), ("orders", "audit")):
        given = options(log=log, logs=logs, consumer=None, columns="ev_data,log")
        rows = spark.read.format("rowbus").options(**given).load().collect()
        assert sorted(map(tuple, rows)) == [("a", "orders"), ("b", "audit")]


def test_a_stream_without_a_consumer_fails_with_one_sentence(
    spark: SparkSession, options: Options, spark_folder: Path
) -> None:
    with pytest.raises(StreamingQueryException) as failed:
        archive(spark, options(consumer=None), spark_folder)

    text = str(failed.value)
    assert (
        "initialOffset: rowbus.errors.ConfigurationError: A stream of a log needs the option 'consumer': the name "
        "under which its events are retained."
    ) in text
    assert "Traceback" not in text
    assert "\tat " not in text


def test_a_stream_is_loaded_as_read_stream_loads_it(
    spark: SparkSession, orders: Orders, options: Options, spark_folder: Path
) -> None:
    orders.deliver("a")

    frame = rowbus.spark.stream(spark, **options(), failOnDataLoss=True, maxOffsetsPerTrigger=5)

    assert frame.isStreaming
    query = frame.writeStream.format("parquet").option("checkpointLocation", str(spark_folder / "checkpoint"))
    query.trigger(availableNow=True).start(str(spark_folder / "events")).awaitTermination()
    assert datas(spark.read.parquet(str(spark_folder / "events"))) == ["a"]


@every(
    "wrong, text",
    [
        ({"log": "orders"}, "A stream of a log needs the option 'consumer': the name under which"),
        ({"log": "orders", "consumer": "c", "endingOffsets": '{"orders": 1}'}, "A stream has no end"),
        ({"queue": "Sales"}, "A stream takes messages out of the queue; say so by mode=receive"),
        ({}, "Say what to read by one of the options"),
    ],
)
def test_options_that_are_no_streams_are_refused_at_the_load(
    spark: SparkSession, wrong: dict[str, str], text: str
) -> None:
    with pytest.raises(rowbus.ConfigurationError, match=text) as refused:
        rowbus.spark.stream(spark, **wrong)

    assert "\n" not in str(refused.value)


def test_a_second_query_of_the_same_consumer_fails_and_says_why(
    spark: SparkSession, orders: Orders, options: Options, spark_folder: Path
) -> None:
    orders.deliver("a")
    given = options(lockTimeoutMs=200)

    def start(name: str) -> StreamingQuery:
        frame = spark.readStream.format("rowbus").options(**given).load()
        checkpoint = str(spark_folder / name)
        return (
            frame.writeStream.format("memory")
            .queryName(name)
            .option("checkpointLocation", checkpoint)
            .start()
        )

    first = start("first")
    try:
        first.processAllAvailable()
        second = start("second")
        with pytest.raises(StreamingQueryException, match="Another query reads log orders as spark"):
            second.awaitTermination(60)
        assert first.isActive
        assert datas(spark.table("first")) == ["a"]
        progress = first.lastProgress
        assert progress is not None
        assert '"tick"' in str(progress["sources"][0]["latestOffset"]).replace("'", '"')
    finally:
        first.stop()
