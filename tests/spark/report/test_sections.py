"""The report's tables say what one would count by hand."""

from __future__ import annotations

import bisect
import math
import random
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest

from rowbus.messages.address import QueueAddress
from rowbus.messages.headers import Header, decode_headers, encode_copied_headers
from rowbus.messages.timestamps import format_timestamp, parse_timestamp
from tests.spark.report.conftest import Asking, Reporting
from tests.spark.report.flow import AUDIT, BEGIN, ERROR, FailingError, Sent, Shop, raised

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SECOND = timedelta(seconds=1)
RANK_ERROR = 1 / 10_000  # as docs/how-to/report-message-flow.md says


def rank_error(values: Sequence[float], found: float, share: float) -> float:
    """Return how far a value is from the one of that rank, as a share of all values; values are sorted."""
    wanted = math.ceil(share * len(values))
    low, high = bisect.bisect_left(values, found) + 1, bisect.bisect_right(values, found)
    return max(low - wanted, wanted - high, 0) / len(values)


def test_percentiles_are_those_of_the_sorted_values(spark: SparkSession) -> None:
    from rowbus.spark.pipelines.report.sections import PERCENTILES, latencies  # noqa: PLC0415 - loads Spark

    chance = random.Random(11)
    waits = {
        "small": [chance.lognormvariate(0, 2) for _ in range(37)],
        "one": [0.25],
        "large": [
            chance.choice([chance.lognormvariate(-3, 2), chance.paretovariate(1)]) for _ in range(30_000)
        ],
    }
    rows = [
        (name, "Sales", BEGIN, BEGIN + timedelta(seconds=wait))
        for name, values in waits.items()
        for wait in values
    ]
    frame = spark.createDataFrame(
        rows, "message_type string, endpoint string, due timestamp, started timestamp"
    )
    found = {
        row["message_type"]: row
        for row in latencies(
            frame.selectExpr("*", "cast(null as timestamp) as ended", "cast(null as timestamp) as failed")
        )
        .toArrow()
        .to_pylist()
    }

    assert found.keys() == waits.keys()
    for name, values in waits.items():
        exact = sorted((timedelta(seconds=value) / SECOND) for value in values)
        row = found[name]
        assert row["stage"] == "queueing"
        assert (row["messages"], row["least"], row["most"]) == (len(exact), exact[0], exact[-1])
        assert row["mean"] == pytest.approx(sum(exact) / len(exact))
        for column, share in PERCENTILES.items():
            assert rank_error(exact, row[column], share) <= RANK_ERROR, (name, column)


def test_each_stage_is_measured_between_its_own_moments(asking: Asking) -> None:
    shop = Shop()
    rows = asking(
        "latencies",
        [
            shop.audited("Shop.PlaceOrder", BEGIN, 3.0, 0.5),
            shop.audited("Shop.PlaceOrder", BEGIN, 0.25, 0.125, due=BEGIN + 60 * SECOND),
            shop.failed("Shop.PlaceOrder", BEGIN, 7.0, raised(FailingError("no"))),
        ],
    )
    stages = {row["stage"]: (row["messages"], row["least"], row["most"]) for row in rows}

    assert stages == {
        "queueing": (2, 0.25, 3.0),
        "processing": (2, 0.125, 0.5),
        "whole": (2, 0.375, 3.5),
        "until failure": (1, 7.0, 7.0),
    }


def test_a_delayed_message_is_late_by_what_it_started_after_its_moment(asking: Asking) -> None:
    shop = Shop()
    rows = [
        shop.audited("Shop.ShipOrder", BEGIN, late, 1, due=BEGIN + 3600 * SECOND)
        for late in (0.5, 1.5, -0.25)
    ]
    (delay,) = asking("delays", [*rows, shop.audited("Shop.ShipOrder", BEGIN, 9, 1)])

    assert (delay["message_type"], delay["endpoint"], delay["messages"]) == ("Shop.ShipOrder", "Shipping", 3)
    assert (delay["early"], delay["least"], delay["p50"], delay["most"]) == (1, -0.25, 0.5, 1.5)


def test_sections_nobody_tells_of_are_left_out(reporting: Reporting) -> None:
    waiting = Sent('"public"."Sales"', "1", "{}")

    assert reporting([waiting]).tables.keys() == {"overview", "waiting"}


def test_throughput_counts_what_happened_when(asking: Asking) -> None:
    rows = list(Shop().day(300))
    counted_rows = asking("throughput", rows, 600)
    headers = [decode_headers(row.headers) for row in rows]

    def expected(name: str) -> Counter[tuple[str | None, datetime]]:
        found: Counter[tuple[str | None, datetime]] = Counter()
        for each in headers:
            if (text := each.get(name)) is not None:
                start = int(parse_timestamp(text).timestamp()) // 600 * 600
                found[each[Header.ENCLOSED_MESSAGE_TYPES], datetime.fromtimestamp(start, UTC)] += 1
        return found

    for happened, name in (
        ("sent", Header.TIME_SENT),
        ("processed", Header.PROCESSING_ENDED),
        ("failed", Header.TIME_OF_FAILURE),
    ):
        counted = {
            (row["message_type"], row["start"]): row["messages"]
            for row in counted_rows
            if row["happened"] == happened
        }
        assert counted == expected(name)


def test_a_message_processed_by_two_endpoints_was_sent_once(asking: Asking) -> None:
    shop = Shop()
    row = shop.audited("Shop.OrderPlaced", BEGIN, 1, 1)
    rows = asking("throughput", [row, row._replace(id="another")], 60)

    assert {(row["happened"], row["messages"]) for row in rows} == {("sent", 1), ("processed", 2)}


def test_failures_that_differ_in_numbers_and_names_are_one_kind(asking: Asking) -> None:
    sent = list(Shop().day(800))
    failed = [row for row in sent if row.queue == str(ERROR)]
    rows = asking("failures", sent)

    assert len(failed) > 10
    assert sum(row["messages"] for row in rows) == len(failed)
    assert {(row["endpoint"], row["exception"].rpartition(".")[2], row["pattern"]) for row in rows} == {
        ("Billing", "TimeoutError", "The bank did not answer within # s"),
        ("Sales", "FailingError", "Order # of '…' is not known"),
        ("Shipping", "FailingError", "Order # of '…' is not known"),
    }
    assert all(row["where"] == "tests.spark.report.flow.raised" for row in rows)
    assert all(BEGIN < row["first"] <= row["last"] for row in rows)


def test_a_kind_of_failures_shows_its_last_message(asking: Asking) -> None:
    shop = Shop()
    rows = [
        shop.failed("Shop.PlaceOrder", BEGIN, after, raised(FailingError(f"Order {after}")))
        for after in (1, 9, 5)
    ]
    (kind,) = asking("failures", rows)

    assert (kind["messages"], kind["sample"]) == (3, "Order 9")
    assert kind["sample_message_id"] == decode_headers(rows[1].headers)[Header.MESSAGE_ID]


def test_what_waits_is_told_by_queue_and_age(asking: Asking) -> None:
    shop = Shop()
    now = datetime.now(UTC)
    sales = QueueAddress("public", "Sales")
    rows = [shop.row(sales, shop.headers("Shop.PlaceOrder", now - age * SECOND)) for age in (100, 300)]
    later = shop.headers("Shop.PlaceOrder", now, **{Header.DELIVER_AT: format_timestamp(now + 3600 * SECOND)})
    (waiting,) = asking(
        "waiting", [*rows, shop.row(sales, later), shop.audited("Shop.PlaceOrder", BEGIN, 1, 1)], now
    )

    assert (waiting["queue"], waiting["messages"], waiting["later"]) == (str(sales), 3, 1)
    assert 300 <= waiting["most"] < 360
    assert waiting["oldest"] == now - 300 * SECOND


def test_since_and_until_choose_by_when_a_message_was_last_heard_of(reporting: Reporting) -> None:
    shop = Shop()
    rows = [shop.audited("Shop.PlaceOrder", BEGIN + hour * 3600 * SECOND, 0, 60) for hour in range(5)]
    unknown = Sent(str(AUDIT), "?", encode_copied_headers({}))

    report = reporting([*rows, unknown], since=BEGIN + 3600 * SECOND, until=BEGIN + 3 * 3600 * SECOND)

    assert report.overview["messages"] == 2
    assert report.overview["messages_from"] == BEGIN + 3600 * SECOND


@pytest.mark.parametrize("given", ["no rows", "none in that time"])
def test_a_report_on_nothing_says_so(reporting: Reporting, given: str) -> None:
    rows = [] if given == "no rows" else [Shop().audited("Shop.PlaceOrder", BEGIN, 1, 1)]
    report = reporting(rows, [], since=BEGIN + 3600 * SECOND)

    assert report.is_empty
    assert report.tables.keys() == {"overview"}
    assert "neither a message nor an event" in report.page()


def test_events_are_counted_by_type_and_wait_for_their_tick(
    spark: SparkSession, reporting: Reporting
) -> None:
    from rowbus.spark.pipelines.report.facts import event_facts  # noqa: PLC0415 - only tests of Spark load it
    from rowbus.spark.pipelines.report.input import bodiless  # noqa: PLC0415 - as above
    from rowbus.spark.pipelines.report.sections import tick_delays  # noqa: PLC0415 - as above
    from tests.spark.report.conftest import EVENTS  # noqa: PLC0415 - as above

    events = [
        (
            "shop",
            number,
            BEGIN + number * SECOND,
            number,
            None,
            "I:id",
            "12345",
            "public.orders",
            None,
            None,
            None,
            tick,
        )
        for number, tick in enumerate((1, 1, 2))
    ]
    report = reporting(None, events, bucket=2)
    ticks = [("shop", 1, BEGIN + 2 * SECOND), ("shop", 2, BEGIN + 10 * SECOND), ("other", 1, BEGIN)]
    frame = spark.createDataFrame(ticks, "log string, tick_id long, ticked timestamp")
    (delay,) = tick_delays(event_facts(bodiless(spark.createDataFrame(events, EVENTS))), frame).collect()

    (kind,) = report.rows("event_types")
    assert (kind["event_type"], kind["events"], kind["bytes"]) == ("public.orders insert", 3, 15)
    assert [row["events"] for row in report.rows("events")] == [2, 1]
    assert (delay.events, delay.least, delay.p50, delay.most) == (3, 1.0, 2.0, 8.0)
    assert not report.rows("throughput")
