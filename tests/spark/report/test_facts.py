"""Facts read from headers in Spark are those that our own code reads from them."""

from __future__ import annotations

import random
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest

from rowbus.errors import InvalidTimestampError
from rowbus.log.archive import archived_event
from rowbus.messages.headers import Header, encode_copied_headers, parse_enclosed_types
from rowbus.messages.message import MessageRow
from rowbus.messages.timestamps import format_timestamp, parse_timestamp
from tests.spark.report.conftest import EVENTS, QUEUED
from tests.spark.report.flow import AUDIT, BEGIN, ERROR, FailingError, Shop, raised

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row, SparkSession


def parsed_by_python(text: str) -> datetime | None:
    try:
        found = parse_timestamp(text)
    except InvalidTimestampError:
        return None
    return found


def timestamps(chance: random.Random) -> list[str]:
    """Give what may stand in a header: proper ones, those of others, and damaged ones."""
    proper = [
        format_timestamp(datetime.fromtimestamp(chance.uniform(-(10**10), 10**11), UTC)) for _ in range(150)
    ]
    damaged = [
        text[:place] + chance.choice("0159-:. Zx٣\n") + text[place + 1 :]
        for text in proper
        for place in [chance.randrange(28)]
    ]
    odd = [
        "",
        " ",
        "Z" * 28,
        "2026-02-30 10:00:00:000000 Z",
        "2026-01-01 24:00:00:000000 Z",
        "9999-12-31 23:59:59:999999 Z",
    ]
    iso = [
        "2026-01-01T10:00:00Z",
        "2026-04-29 21:56:55:590807 Z\n",
        "2026/04/29 21.56.55,590807 +",
        "2024-02-29 00:00:60:000000 Z",
    ]
    return [*proper, *damaged, *odd, *iso]


def test_timestamps_are_read_as_our_endpoints_read_them(spark: SparkSession) -> None:
    from rowbus.spark.pipelines.report.facts import moment  # noqa: PLC0415 - only tests of Spark load it

    texts = timestamps(random.Random(7))
    frame = spark.createDataFrame([(text,) for text in texts], "text string")
    found = frame.select("text", moment(frame.text).alias("at")).toArrow().to_pylist()

    assert [(row["text"], row["at"]) for row in found] == [(text, parsed_by_python(text)) for text in texts]


TYPES = [
    "Shop.PlaceOrder",
    "Shop.PlaceOrder, Shop, Version=1.0.0.0, Culture=neutral, PublicKeyToken=null;Shop.IOrder, Shop",
    "Shop.OrderPlaced__impl, Shop;Shop.OrderPlaced, Shop",
    "Shop.Batch`1[[Shop.Order, Shop, Version=1.0.0.0]], Shop, Version=1.0.0.0",
    "Shop.Outer+Inner, Shop",
    " Shop.Spaced , Shop",
    "",
    ";",
    ",",
    "a;b;c",
]


def test_message_types_are_read_as_our_endpoints_read_them(spark: SparkSession) -> None:
    from rowbus.spark.pipelines.report.facts import first_type  # noqa: PLC0415 - only tests of Spark load it

    frame = spark.createDataFrame([(text,) for text in TYPES], "text string")
    found = [row.type for row in frame.select(first_type(frame.text).alias("type")).collect()]

    assert found == [next(iter(parse_enclosed_types(text)), None) for text in TYPES]


def facts(messages: DataFrame) -> dict[str, Row]:
    from rowbus.spark.pipelines.report.facts import message_facts  # noqa: PLC0415 - only tests of Spark load it

    found = message_facts(messages).collect()
    assert len({row.row_id for row in found}) == len(found)
    return {row.row_id: row for row in found}


def test_headers_that_nobody_can_read_are_counted_and_stop_nothing(spark: SparkSession) -> None:
    from rowbus.spark.pipelines.report.facts import queued_messages  # noqa: PLC0415 - only tests of Spark load it

    texts = [
        "{",
        "null",
        "[]",
        "7",
        '{"a": {"b": 1}}',
        '{"a": 1}',
        '{"a": "\\ud800"}',
        '{"a":"1","a":"2"}',
        '{"a": null}',
        "",
    ]
    rows = [("q", str(number), text) for number, text in enumerate(texts)]

    found = facts(queued_messages(spark.createDataFrame(rows, QUEUED)))

    assert len(found) == len(texts)
    assert not any(found[number].is_readable for number in "0123")
    assert found["9"].is_readable
    assert {row.message_type for row in found.values()} == {"(unreadable headers)", "(no type)"}


def test_a_failed_message_tells_its_whole_story(spark: SparkSession) -> None:
    from rowbus.spark.pipelines.report.facts import queued_messages  # noqa: PLC0415 - only tests of Spark load it

    row = Shop().failed("Shop.PlaceOrder", BEGIN, 2.5, raised(FailingError("no")))
    found = facts(queued_messages(spark.createDataFrame([row], QUEUED)))[row.id]

    assert (found.state, found.endpoint, found.message_type) == ("failed", "Sales", "Shop.PlaceOrder")
    assert found.exception_type.endswith("FailingError")
    assert found.failed_queue == '"public"."Sales"'
    assert (found.failed - found.sent).total_seconds() == 2.5


@pytest.mark.parametrize("processing_endpoint", [None, "Sales"])
def test_without_a_processing_endpoint_the_failed_queue_names_it(
    spark: SparkSession, processing_endpoint: str | None
) -> None:
    from rowbus.spark.pipelines.report.facts import queued_messages  # noqa: PLC0415 - only tests of Spark load it

    headers = {Header.FAILED_QUEUE: '"Shop"."Odd ""name"""', Header.PROCESSING_ENDPOINT: processing_endpoint}
    row = Shop().row(ERROR, headers)
    found = facts(queued_messages(spark.createDataFrame([row], QUEUED)))[row.id]

    assert found.endpoint == (processing_endpoint or 'Odd "name"')


def test_a_message_found_in_its_queue_and_in_a_log_is_one(spark: SparkSession) -> None:
    from rowbus.spark.pipelines.report.facts import archived_messages, queued_messages  # noqa: PLC0415 - as above

    shop = Shop()
    rows = [shop.audited("Shop.PlaceOrder", BEGIN, 1, 1) for _ in range(3)]
    drained = [
        archived_event(
            "audit-log", MessageRow(row.id, time_left=None, headers=row.headers, body=b"{}", seq=1), AUDIT
        )
        for row in rows[:2]
    ]
    events = [
        ("audit-log", number, BEGIN, number, None, event.type, event.data, *event[3:7], 1)
        for number, event in enumerate(drained)
    ]
    in_log = archived_messages(spark.createDataFrame(events, EVENTS))
    in_queue = queued_messages(spark.createDataFrame(rows, QUEUED))

    found = facts(in_log.unionByName(in_queue).unionByName(in_log))

    assert found.keys() == {row.id for row in rows}
    assert {row.state for row in found.values()} == {"processed"}


def test_events_that_never_were_messages_are_no_messages(spark: SparkSession) -> None:
    from rowbus.spark.pipelines.report.facts import archived_messages  # noqa: PLC0415 - only tests of Spark load it

    event = ("shop", 1, BEGIN, 1, None, "I", "{}", encode_copied_headers({}), "text/plain", "q", "1", 1)

    assert archived_messages(spark.createDataFrame([event], EVENTS)).collect() == []


def test_an_event_found_in_a_log_and_its_archive_is_one_and_its_retry_another(spark: SparkSession) -> None:
    from rowbus.spark.pipelines.report.facts import event_facts  # noqa: PLC0415 - only tests of Spark load it
    from rowbus.spark.pipelines.report.input import bodiless  # noqa: PLC0415 - as above

    event = ("shop", 1, BEGIN, 500, None, "U:id", "naïve", "public.orders", None, None, None, 1)
    retry = ("shop", 1, BEGIN, 900, 1, "made", None, "x", None, None, None, 3)
    other = ("else", 1, BEGIN, 500, None, None, None, None, None, None, None, 1)

    found = event_facts(bodiless(spark.createDataFrame([event, event, retry, other], EVENTS))).collect()

    assert sorted((row.log, row.event_type, row.is_retry, row.bytes) for row in found) == [
        ("else", "(no type)", False, 0),
        ("shop", "made", True, 0),
        ("shop", "public.orders update", False, 6),
    ]
