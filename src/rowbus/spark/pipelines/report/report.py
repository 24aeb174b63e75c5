"""The message-flow report: throughput, latencies, clusters of failures, what waits, and how logs are consumed.

It reads queues (of failed, audited or waiting messages), logs that queues were drained into, and archives of those.
A table without rows is left out.

Invariant: reads only, and each source once: all sections are about the same messages and events.
"""

from __future__ import annotations

import math
from contextlib import ExitStack
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from pyspark.errors import PySparkAttributeError
from pyspark.sql import functions as F  # noqa: N812 - PySpark's convention

from rowbus.spark.pipelines.report import sections
from rowbus.spark.pipelines.report.facts import event_facts, last_heard, message_facts, within
from rowbus.spark.pipelines.report.input import Inputs, sources
from rowbus.spark.pipelines.report.result import FlowReport, table_of
from rowbus.spark.pipelines.report.text import MEANINGS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from pathlib import Path

    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    Tell = Callable[[str], object]

PARTS_PER_CORE: Final = 2
MOST_ROWS: Final = 10_000  # rows of a table that are kept
MOST_BUCKETS: Final = 60  # spans of time that a plot shows
STRETCH: Final = 3  # times as long as for nearly all: from then on plots leave the rest out
_NICE: Final = (
    1,
    2,
    5,
    10,
    15,
    30,
    60,
    120,
    300,
    600,
    900,
    1800,
    3600,
    7200,
    10800,
    21600,
    43200,
    86400,
    604800,
)


def report_message_flow(  # noqa: PLR0913 - keywords, as the options of the command
    spark: SparkSession,
    *,
    queues: Iterable[str] = (),
    archives: Iterable[Path | str] = (),
    logs: Iterable[str] = (),
    since: datetime | None = None,
    until: datetime | None = None,
    bucket: int | None = None,
    dsn: str | None = None,
    schema: str = "public",
    tell: Tell | None = None,
) -> FlowReport:
    """Report on the messages of queues, of logs and of archives of logs, and on the events of the latter two.

    Queues are peeked at: nothing is taken or locked. `since` and `until` choose by when a message was last heard of,
    and an event was written. `bucket` is the span of the plots in seconds, by default a fitting one. `tell` is called
    with a line for each step. Raises ConfigurationError, InvalidAddressError, QueueNotFoundError, LogNotFoundError,
    StorageError.
    """
    found = sources(queues, archives, logs, schema)
    inputs = Inputs(spark, found, dsn, since)
    inputs.check()
    with ExitStack() as stack:
        making = Making(stack, tell or _say_nothing, since, until)
        making.tell(f"Reading {', '.join(found.described())}")
        events = inputs.events()
        kept = None if events is None else making.keep(events)
        making.look(inputs.messages(kept), kept)
        return making.report(found.described(), inputs, bucket)


def fitting_bucket(begin: datetime | None, end: datetime | None) -> int:
    """Return the seconds of a span of which at most `MOST_BUCKETS` fill the time between two moments."""
    seconds = (end - begin).total_seconds() if begin and end else 0.0
    return next((nice for nice in _NICE if seconds <= nice * MOST_BUCKETS), math.ceil(seconds / MOST_BUCKETS))


class Span(NamedTuple):
    """The first and the last moment of what was found, and those that leave out the few that are far off."""

    first: datetime | None
    last: datetime | None
    begin: datetime | None
    end: datetime | None

    def shown(self) -> tuple[datetime | None, datetime | None]:
        """Return the time that plots show: all of it, unless a few stragglers would make the rest a line."""
        if self.first and self.last and self.begin and self.end:
            stretched = self.last - self.first > STRETCH * (self.end - self.begin)
            return (self.begin, self.end) if stretched else (self.first, self.last)
        return self.first, self.last


class Making:
    """A report while it is made; what Spark keeps for it lives as long as the stack."""

    def __init__(self, stack: ExitStack, tell: Tell, since: datetime | None, until: datetime | None) -> None:
        """Say from when to when. Starts nothing."""
        self.tell = tell
        self._now = datetime.now(UTC)
        self._stack = stack
        self._span = (since, until)
        self._messages: DataFrame | None = None
        self._events: DataFrame | None = None
        self._tables: dict[str, pa.Table] = {}
        self._truncated: set[str] = set()

    def keep(self, frame: DataFrame) -> DataFrame:
        """Have Spark keep what it reads: the next look shall see the same, and shall not read it again."""
        kept = frame.persist()
        self._stack.callback(kept.unpersist)
        return kept

    def look(self, messages: DataFrame | None, events: DataFrame | None) -> None:
        """Say what the report is about, messages or events or both."""
        if messages is not None:
            facts = message_facts(messages, parts_of(messages.sparkSession))
            self._messages = self.keep(within(facts, last_heard(), *self._span))
        if events is not None:
            facts = event_facts(events, parts_of(events.sparkSession))
            self._events = self.keep(within(facts, F.col("at"), *self._span))

    def report(
        self, described: list[str], inputs: Inputs | None = None, bucket: int | None = None
    ) -> FlowReport:
        """Make all tables that have rows; `inputs` tell of the logs themselves."""
        overview: dict[str, Any] = {"messages": 0, "events": 0, **self._look_over()}
        self.tell(f"Found {overview['messages']:,} messages and {overview['events']:,} events")
        self._tables["overview"] = _arrow_row(overview)
        if self._messages is not None and overview["messages"]:
            chosen = bucket or fitting_bucket(overview["messages_from"], overview["messages_to"])
            self._message_tables(self._messages, overview, chosen)
        if self._events is not None and overview["events"]:
            chosen = bucket or fitting_bucket(overview["events_from"], overview["events_to"])
            self._event_tables(self._events, chosen, inputs.ticks() if inputs else None)
        if inputs is not None:
            self._log_tables(inputs)
        return FlowReport(
            made_at=self._now,
            inputs=described,
            tables={name: self._tables[name] for name in MEANINGS if name in self._tables},
            since=self._span[0],
            until=self._span[1],
            truncated=frozenset(self._truncated),
        )

    def _look_over(self) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for name, facts, look in (
            ("messages", self._messages, sections.message_overview),
            ("events", self._events, sections.event_overview),
        ):
            if facts is not None:
                row = collect(look(facts)).to_pylist()[0]
                span = Span(*(row.pop(field) for field in Span._fields))
                found |= row
                found[f"{name}_from"], found[f"{name}_to"] = span.shown()
        return found

    def _message_tables(self, facts: DataFrame, found: Mapping[str, int], bucket: int) -> None:
        """Make the tables of messages; of what was not found there is no need to ask Spark."""
        self._add("throughput", sections.throughput(sections.moments(facts), bucket))
        if found["processed"] or found["failed"]:
            self._add("latency", sections.latencies(facts))
        if found["failed"]:
            self._add("failures", sections.failures(facts))
        if found["waiting"]:
            self._add("waiting", sections.waiting(facts, self._now))
        if found["delayed"]:
            self._add("delays", sections.delays(facts))

    def _event_tables(self, facts: DataFrame, bucket: int, ticks: DataFrame | None) -> None:
        self._add("event_types", sections.event_types(facts))
        self._add("events", sections.event_throughput(facts, bucket))
        if ticks is not None:
            self._add("tick_delay", sections.tick_delays(facts, ticks))

    def _log_tables(self, inputs: Inputs) -> None:
        logs, consumers = inputs.log_states()
        if logs:
            self._tables["logs"] = table_of(logs)
        if consumers:
            self._tables["consumers"] = table_of(consumers)

    def _add(self, name: str, frame: DataFrame) -> None:
        """Make one table; left out if it has no row."""
        self.tell(MEANINGS[name])
        table = collect(frame.limit(MOST_ROWS + 1))
        if table.num_rows > MOST_ROWS:
            self._truncated.add(name)
        if table.num_rows:
            self._tables[name] = table.slice(0, MOST_ROWS)


def parts_of(spark: SparkSession) -> int | None:
    """Return in how many parts facts are kept: a few for each core; None where Spark Connect does not tell.

    Spark would make two hundred, and not adapt that to what there is, as it does for what is not kept.
    """
    most = int(spark.conf.get("spark.sql.shuffle.partitions") or "200")
    try:
        return min(most, PARTS_PER_CORE * spark.sparkContext.defaultParallelism)
    except PySparkAttributeError:
        return None


def collect(frame: DataFrame) -> pa.Table:
    """Return the rows as an Arrow table whose moments are in UTC, in any time zone of the session."""
    import pyarrow as pa  # noqa: PLC0415 - only needed here

    table = frame.toArrow()
    for place, column in enumerate(frame.schema):
        if column.dataType.typeName() == "timestamp":
            moments = table.column(place).cast(pa.timestamp("us", "UTC"))
            table = table.set_column(place, column.name, moments)
    return table


def _arrow_row(row: dict[str, Any]) -> pa.Table:
    import pyarrow as pa  # noqa: PLC0415 - only needed here

    return pa.Table.from_pylist([row])


def _say_nothing(_line: str) -> None:
    """Do nothing."""
