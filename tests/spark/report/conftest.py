"""Reports made of rows that a test gives, without a database."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from datetime import datetime
from typing import TYPE_CHECKING, Any

import pytest

from rowbus.spark.pipelines.report.result import FlowReport
from tests.spark.report.flow import Sent

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

QUEUED = "queue string, id string, headers string"
EVENTS = (
    "log string, ev_id long, ev_time timestamp, ev_txid long, ev_retry int, ev_type string, ev_data string, "
    "ev_extra1 string, ev_extra2 string, ev_extra3 string, ev_extra4 string, tick_id long"
)
Reporting = Callable[..., FlowReport]
Rows = list[dict[str, Any]]
Asking = Callable[..., Rows]


@pytest.fixture
def asking(spark: SparkSession) -> Asking:
    """Give what makes one table of rows of queues, which takes a fraction of a whole report's time."""
    from rowbus.spark.pipelines.report import sections as report_sections  # noqa: PLC0415 - only tests of Spark load it
    from rowbus.spark.pipelines.report.facts import message_facts, queued_messages  # noqa: PLC0415 - as above
    from rowbus.spark.pipelines.report.report import collect  # noqa: PLC0415 - as above

    def ask(section: str, queued: Iterable[Sent], *arguments: object) -> Rows:
        facts = message_facts(queued_messages(spark.createDataFrame(list(queued), QUEUED)))
        if section == "throughput":
            facts = report_sections.moments(facts)
        rows: Rows = collect(getattr(report_sections, section)(facts, *arguments)).to_pylist()
        return rows

    return ask


@pytest.fixture
def reporting(spark: SparkSession) -> Reporting:
    """Give what reports on rows of queues and on events."""
    from rowbus.spark.pipelines.report.facts import archived_messages, queued_messages  # noqa: PLC0415 - as above
    from rowbus.spark.pipelines.report.input import bodiless  # noqa: PLC0415 - as above
    from rowbus.spark.pipelines.report.report import Making  # noqa: PLC0415 - only tests of Spark load it

    def report(
        queued: Iterable[Sent] | None = None,
        events: Sequence[tuple[object, ...]] | None = None,
        *,
        since: datetime | None = None,
        until: datetime | None = None,
        bucket: int | None = None,
    ) -> FlowReport:
        messages = log = None
        if events is not None:
            log = bodiless(spark.createDataFrame(events, EVENTS))
            messages = archived_messages(log)
        if queued is not None:
            rows = queued_messages(
                spark.createDataFrame(list(queued), "queue string, id string, headers string")
            )
            messages = rows if messages is None else messages.unionByName(rows)
        with ExitStack() as stack:
            making = Making(stack, lambda _line: None, since, until)
            making.look(messages, log)
            return making.report(["what the test gave"], bucket=bucket)

    return report
