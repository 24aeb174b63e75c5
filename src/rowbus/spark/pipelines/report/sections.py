"""The tables of the message-flow report, each a grouping of facts (`facts.py`), with few rows a message type.

Latencies are in seconds. Percentiles are `percentile_approx` with an error of at most one rank in `ACCURACY`: real
values, in bounded memory, exact up to that many messages of a kind.

Invariant: nothing here reads a source or starts a job; columns keep their names, because users' programs read them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F  # noqa: N812 - PySpark's convention

from rowbus.spark.pipelines.report.facts import last_heard, signature

if TYPE_CHECKING:
    from datetime import datetime

    from pyspark.sql import Column, DataFrame, GroupedData

ACCURACY: Final = 10_000
PERCENTILES: Final = {"p50": 0.5, "p90": 0.9, "p95": 0.95, "p99": 0.99}
OUTLIERS: Final = 0.002  # the share of messages at either end that do not stretch the plots' axis of time
LONGEST_SAMPLE: Final = 2_000  # characters of an exception's message that a cluster shows
_SIGNATURE: Final = "pattern string, where string, trace string"
_PER_SECOND: Final = 1_000_000


def message_overview(facts: DataFrame) -> DataFrame:
    """Count the messages, in one row; `begin` and `end` leave out the few whose times are far off."""
    states = [
        F.count_if(F.col("state") == state).alias(state) for state in ("processed", "failed", "waiting")
    ]
    return facts.agg(
        F.count("*").alias("messages"),
        *states,
        F.count_if(F.col("deliver_at").isNotNull() & F.col("started").isNotNull()).alias("delayed"),
        F.count_if(~F.col("is_readable")).alias("unreadable"),
        F.count_if(F.col("sent").isNull()).alias("without_time_sent"),
        F.count_distinct("message_type").alias("message_types"),
        F.count_distinct("endpoint").alias("endpoints"),
        *_span(F.coalesce(F.col("sent"), last_heard()), last_heard()),
    )


def event_overview(events: DataFrame) -> DataFrame:
    """Count the events, in one row, as `message_overview`."""
    return events.agg(
        F.count("*").alias("events"),
        F.count_distinct("log").alias("logs"),
        F.count_distinct("event_type").alias("event_types"),
        F.sum("bytes").alias("event_bytes"),
        *_span(F.col("at"), F.col("at")),
    )


def moments(facts: DataFrame) -> DataFrame:
    """Return what happened to messages and when: one row for each `sent`, `processed` and `failed`."""
    happened = F.array(
        _happened("sent", F.col("sent")),
        _happened("processed", F.col("ended")),
        _happened("failed", F.col("failed")),
    )
    rows = facts.select("message_id", "row_id", "message_type", F.inline(happened))
    return rows.where(F.col("at").isNotNull())


def throughput(moments: DataFrame, bucket: int) -> DataFrame:
    """Count messages by what happened, type and span of `bucket` seconds; one sent to several counts once as sent."""
    key = F.when(F.col("happened") == "sent", F.col("message_id")).otherwise(F.col("row_id"))
    return (
        moments.groupBy("happened", "message_type", *_bucket(F.col("at"), bucket))
        .agg(F.count_distinct(key).alias("messages"))
        .orderBy("start", "happened", "message_type")
    )


def latencies(facts: DataFrame) -> DataFrame:
    """Return percentiles of each stage, by type and endpoint; a stage of which no message tells has no row.

    `queueing` is from due to started, `processing` from started to ended, `whole` from due to ended, `until failure`
    from due to the error queue. `early` counts negative ones: clocks that disagree.
    """
    stages = F.array(
        _stage("queueing", "due", "started"),
        _stage("processing", "started", "ended"),
        _stage("whole", "due", "ended"),
        _stage("until failure", "due", "failed"),
    )
    rows = facts.select("message_type", "endpoint", F.inline(stages)).where(F.col("seconds").isNotNull())
    return _distribution(rows.groupBy("stage", "message_type", "endpoint"), "messages").orderBy(
        "stage", F.desc("messages"), "message_type", "endpoint"
    )


def delays(facts: DataFrame) -> DataFrame:
    """Return how late delayed messages were started, after the moment they were to be delivered at."""
    late = facts.withColumn("seconds", _seconds("deliver_at", "started")).where(F.col("seconds").isNotNull())
    return _distribution(late.groupBy("message_type", "endpoint"), "messages").orderBy(F.desc("messages"))


def failures(facts: DataFrame) -> DataFrame:
    """Return clusters of failures: by endpoint, exception, its message without ids, and the way through the code."""
    failed = facts.where(F.col("state") == "failed").withColumn(
        "signature", F.udf(signature, _SIGNATURE, useArrow=False)("exception_message", "stack_trace")
    )
    exception = F.coalesce("exception_type", F.lit("(no exception)")).alias("exception")
    by = (
        "endpoint",
        exception,
        F.col("signature.pattern"),
        F.col("signature.where"),
        F.col("signature.trace"),
    )
    return (
        failed.groupBy(*by)
        .agg(
            F.count("*").alias("messages"),
            F.sort_array(F.collect_set("message_type")).alias("message_types"),
            F.min("failed").alias("first"),
            F.max("failed").alias("last"),
            F.substring(_of_the_last("exception_message"), 1, LONGEST_SAMPLE).alias("sample"),
            _of_the_last("message_id").alias("sample_message_id"),
        )
        .orderBy(F.desc("messages"), F.desc("last"), "exception", "pattern")
    )


def waiting(facts: DataFrame, now: datetime) -> DataFrame:
    """Return what waits in the queues that were looked at, and how long it has; messages not yet due are `later`."""
    here = (F.col("origin") == "queue") & (F.col("state") == "waiting")
    age = (F.unix_micros(F.lit(now)) - F.unix_micros("due")) / _PER_SECOND
    rows = facts.where(here).withColumn("seconds", F.when(age >= 0, age))
    later = F.count_if(age < 0).alias("later")
    return (
        rows.groupBy("queue", "message_type")
        .agg(F.count("*").alias("messages"), later, F.min("sent").alias("oldest"), *_percentiles())
        .orderBy(F.desc("messages"), "queue", "message_type")
    )


def event_throughput(events: DataFrame, bucket: int) -> DataFrame:
    """Count events by log, type and span of `bucket` seconds."""
    return (
        events.groupBy("log", "event_type", *_bucket(F.col("at"), bucket))
        .agg(F.count("*").alias("events"))
        .orderBy("start", "log", "event_type")
    )


def event_types(events: DataFrame) -> DataFrame:
    """Return how much of each type of event there is, and its size in bytes."""
    return (
        events.groupBy("log", "event_type")
        .agg(
            F.count("*").alias("events"),
            F.count_if("is_retry").alias("retries"),
            F.sum("bytes").alias("bytes"),
            F.min("at").alias("first"),
            F.max("at").alias("last"),
        )
        .orderBy(F.desc("events"), "log", "event_type")
    )


def tick_delays(events: DataFrame, ticks: DataFrame) -> DataFrame:
    """Return how long events waited for their tick (columns `log`, `tick_id`, `ticked`), before which none is read."""
    waited = events.join(F.broadcast(ticks), ["log", "tick_id"]).withColumn(
        "seconds", _seconds("at", "ticked")
    )
    rows = waited.where(F.col("seconds").isNotNull() & ~F.col("is_retry"))
    return _distribution(rows.groupBy("log", "event_type"), "events").orderBy(
        F.desc("events"), "log", "event_type"
    )


def _distribution(grouped: GroupedData, of: str) -> DataFrame:
    return grouped.agg(
        F.count("*").alias(of),
        F.count_if(F.col("seconds") < 0).alias("early"),
        F.min("seconds").alias("least"),
        F.avg("seconds").alias("mean"),
        *_percentiles(),
    )


def _percentiles() -> list[Column]:
    found = F.percentile_approx("seconds", list(PERCENTILES.values()), ACCURACY)
    return [
        *(F.try_element_at(found, F.lit(place)).alias(name) for place, name in enumerate(PERCENTILES, 1)),
        F.max("seconds").alias("most"),
    ]


def _of_the_last(column: str) -> Column:
    return F.max_by(column, F.struct("failed", "row_id"))


def _happened(name: str, at: Column) -> Column:
    return F.struct(F.lit(name).alias("happened"), at.alias("at"))


def _stage(name: str, begun: str, done: str) -> Column:
    return F.struct(F.lit(name).alias("stage"), _seconds(begun, done).alias("seconds"))


def _seconds(begun: str, done: str) -> Column:
    return (F.unix_micros(done) - F.unix_micros(begun)) / _PER_SECOND


def _span(begun: Column, done: Column) -> list[Column]:
    return [
        F.min(begun).alias("first"),
        F.max(done).alias("last"),
        F.percentile_approx(begun, OUTLIERS, ACCURACY).alias("begin"),
        F.percentile_approx(done, 1 - OUTLIERS, ACCURACY).alias("end"),
    ]


def _bucket(at: Column, seconds: int) -> tuple[Column, Column]:
    start = F.timestamp_seconds(F.floor(F.unix_seconds(at) / seconds) * seconds)
    return start.alias("start"), F.lit(seconds).alias("seconds")
