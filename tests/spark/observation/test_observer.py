"""Observations of queries: bounded measurements, spans with the times that Spark reports, and failures."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from rowbus.running.telemetry import process, series
from rowbus.running.telemetry.instruments import Instruments
from rowbus.running.telemetry.series import exposition
from rowbus.running.telemetry.spans import Spans
from rowbus.spark.listener import Observer
from tests.spark.observation.reports import BATCH, report

MS = 1_000_000


@pytest.fixture
def measured() -> Instruments:
    return Instruments()


@pytest.fixture
def observer(measured: Instruments) -> Iterator[Observer]:
    observer = Observer(measured, None)
    yield observer
    observer.close()


def failing() -> list[str]:
    """Name the queries that fail; other tests may have left outages of other activities."""
    return [activity for activity in process.going_on() if activity.startswith("Spark query ")]


def test_micro_batches_are_measured(observer: Observer, measured: Instruments) -> None:
    observer.began("run", "lake")
    observer.batch(report())
    observer.batch(report() | {"numInputRows": 2})

    assert {
        'rowbus_spark_queries{query="lake"} 1',
        'rowbus_spark_rows_total{query="lake"} 42',
        'rowbus_spark_batch_rows{query="lake"} 2',
        'rowbus_spark_batch_seconds_count{query="lake"} 2',
        'rowbus_spark_batch_seconds_sum{query="lake"} 3',
        'rowbus_spark_lag_events{query="lake"} 30',
        'rowbus_spark_lag_seconds{query="lake"} 4',
    } <= set(exposition(measured.families()).splitlines())

    observer.ended("run")
    assert measured.spark_queries.values == {("lake",): 0}


def test_a_query_that_began_before_is_measured_from_its_next_batch_on(
    observer: Observer, measured: Instruments
) -> None:
    observer.batch(report())
    observer.batch(report())

    assert measured.spark_queries.values == {("lake",): 1}


def test_names_are_bounded_and_no_id_is_one(observer: Observer, measured: Instruments) -> None:
    for number in range(2 * series.MOST):
        observer.batch(report(f"query {number}", run=str(number)))
        observer.ended(str(number), "it failed")
    observer.batch(report(None))

    assert len(measured.spark_rows.values) == series.MOST + 1
    assert len(list(measured.spark_batch_seconds.samples())) <= (series.MOST + 1) * 30
    assert len(failing()) <= series.MOST
    assert "run" not in exposition(measured.families()).replace("queries that run", "")
    assert len(measured.outages.values) <= series.MOST + 1


def test_a_query_that_failed_is_an_outage_until_it_runs_again(observer: Observer) -> None:
    observer.began("1", "lake")
    observer.ended("1", "no space left")
    assert failing() == ["Spark query lake"]

    observer.began("2", "lake")
    assert failing() == []
    observer.ended("2")
    assert failing() == []


def test_who_observes_no_more_says_nothing_of_what_failed(observer: Observer, measured: Instruments) -> None:
    observer.began("1", "lake")
    observer.ended("1", "no space left")
    observer.began("2", "audit")

    observer.close()

    assert failing() == []
    assert measured.spark_queries.values == {("lake",): 0, ("audit",): 0}


def test_a_micro_batch_has_three_spans_with_sparks_times() -> None:
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))

    Observer(None, Spans(provider)).batch(report())

    spans = {span.name: span for span in exporter.get_finished_spans()}
    assert set(spans) == {"process orders", "receive orders", "settle orders"}
    whole = spans["process orders"]
    assert whole.parent is None
    assert dict(whole.attributes or {}) == {
        "messaging.system": "rowbus",
        "messaging.operation.type": "process",
        "messaging.operation.name": "process",
        "messaging.destination.name": "orders",
        "messaging.batch.message_count": 40,
        "rowbus.spark.query": "lake",
        "rowbus.spark.batch": BATCH,
    }
    began = whole.start_time or 0
    times = {
        name: [((time or 0) - began) // MS for time in (span.start_time, span.end_time)]
        for name, span in spans.items()
    }
    assert times == {
        "process orders": [0, 1500],
        "receive orders": [0, 300],
        "settle orders": [1400, 1500],
    }
    for part in ("receive orders", "settle orders"):
        assert spans[part].parent == whole.get_span_context()
    provider.shutdown()
