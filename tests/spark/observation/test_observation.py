"""A session's queries observed in a real Spark: what Prometheus and an SDK of OpenTelemetry's are told."""

from __future__ import annotations

import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import psycopg
import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

import rowbus.spark
from rowbus.errors import ConfigurationError
from rowbus.running.telemetry import instruments
from tests.fixtures.processes import await_that
from tests.log.orders import SCRIPT, Orders

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

pytestmark = pytest.mark.one_version


@pytest.fixture
def log_script() -> str:
    return SCRIPT


@pytest.fixture
def orders(log_database: str, pgq: psycopg.Connection) -> Orders:
    return Orders(log_database, pgq)


@pytest.fixture
def exporter() -> Iterator[InMemorySpanExporter]:
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    instruments.use(provider)
    yield exporter
    instruments.use(None)
    provider.shutdown()


@pytest.fixture
def observation(spark: SparkSession, exporter: InMemorySpanExporter) -> Iterator[rowbus.spark.Observation]:
    with rowbus.spark.observe(spark, metrics="127.0.0.1:0") as observation:
        yield observation
    instruments.turn_off()


def get(observation: rowbus.spark.Observation, page: str) -> tuple[int, list[str]]:
    assert observation.url is not None
    try:
        with urllib.request.urlopen(observation.url.replace("/metrics", page)) as answer:  # noqa: S310 - our own
            return answer.status, answer.read().decode().splitlines()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode().splitlines()


def start(frame: DataFrame, name: str, folder: Path) -> StreamingQuery:
    """Start a query that makes a micro-batch now, and the next one in an hour."""
    writer = frame.writeStream.format("noop").queryName(name).trigger(processingTime="1 hour")
    return writer.option("checkpointLocation", str(folder / name)).start()


def test_a_query_is_measured_and_traced(
    spark: SparkSession,
    observation: rowbus.spark.Observation,
    exporter: InMemorySpanExporter,
    orders: Orders,
    spark_folder: Path,
) -> None:
    orders.deliver("a")
    orders.deliver("b", "c")
    frame = rowbus.spark.stream(spark, log="orders", consumer="lake", dsn=orders.dsn, maxOffsetsPerTrigger=1)

    query = start(frame, "lake", spark_folder)
    try:
        await_that(
            lambda: 'rowbus_spark_rows_total{query="lake"} 1' in get(observation, "/metrics")[1],
            "a micro-batch",
        )
        lines = get(observation, "/metrics")[1]
    finally:
        query.stop()

    assert {
        'rowbus_spark_queries{query="lake"} 1',
        'rowbus_spark_batch_rows{query="lake"} 1',
        'rowbus_spark_batch_seconds_count{query="lake"} 1',
        'rowbus_spark_lag_events{query="lake"} 2',
        "rowbus_ready 1",
    } <= set(lines)
    await_that(
        lambda: 'rowbus_spark_queries{query="lake"} 0' in get(observation, "/metrics")[1], "the query's end"
    )
    assert {span.name for span in exporter.get_finished_spans()} == {
        "process orders",
        "receive orders",
        "settle orders",
    }


def test_a_program_is_not_ready_once_a_query_has_failed(
    spark: SparkSession, observation: rowbus.spark.Observation, spark_folder: Path
) -> None:
    assert get(observation, "/readyz") == (200, ["ready"])

    frame = spark.readStream.format("rowbus").option("log", "orders").load()  # without `consumer`
    query = start(frame, "broken", spark_folder)
    with pytest.raises(Exception, match="needs the option 'consumer'"):
        query.awaitTermination(60)

    await_that(lambda: get(observation, "/readyz")[0] == 503, "that it is told of")
    assert "Spark query broken: fails" in get(observation, "/readyz")[1]
    assert 'rowbus_failing{activity="Spark query broken"} 1' in get(observation, "/metrics")[1]


def test_nothing_runs_if_nothing_wants_to_know(spark: SparkSession) -> None:
    assert instruments.instruments() is None
    assert instruments.tracing() is None

    observation = rowbus.spark.observe(spark)

    assert observation.url is None
    assert not observation.listens
    observation.stop()


def test_an_address_that_is_taken_is_refused(
    spark: SparkSession, observation: rowbus.spark.Observation
) -> None:
    assert observation.url is not None
    taken = observation.url.removeprefix("http://").removesuffix("/metrics")

    with pytest.raises(ConfigurationError, match="give --metrics another address"):
        rowbus.spark.observe(spark, metrics=taken)
