"""Charts show what the rows say, and the same rows give the same chart."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from rowbus.spark.pipelines.report.charts import COLOURS, Axis, Count, Kinds, decades, ranges, stacked_bars
from tests.fixtures.every import every

BEGIN = datetime(2026, 11, 20, 22, 10, tzinfo=UTC)
ROW = {"type": "Shop.PlaceOrder", "p50": 0.1, "p90": 0.3, "p95": 0.5, "p99": 1.0, "most": 4.0}
LABEL = re.compile(r"<text[^>]*>([^<]*)</text>")


def bars(counts: list[Count], hours: float = 4) -> str:
    return stacked_bars(
        "Sent", counts, Kinds(counts), Axis.around(BEGIN, BEGIN + timedelta(hours=hours), 600)
    )


def test_the_day_is_told_where_it_changes() -> None:
    labels = LABEL.findall(bars([Count(BEGIN, 600, "a", 4)]))

    assert labels[:8] == ["22:30", "23:00", "23:30", "Nov 21", "00:30", "01:00", "01:30", "02:00"]


def test_each_bar_says_what_it_is() -> None:
    chart = bars([Count(BEGIN, 600, "a", 1200), Count(BEGIN, 600, "<b>", 1)])

    assert "<title>a: 1,200 at 2026-11-20 22:10:00</title>" in chart
    assert "<title>&lt;b&gt;: 1 at 2026-11-20 22:10:00</title>" in chart


def test_the_rarest_kinds_share_a_colour_and_a_bar() -> None:
    counts = [Count(BEGIN, 600, f"kind {place:02}", 1) for place in range(COLOURS + 3)]
    chart = bars(counts)

    assert Kinds(counts).names[-1] == "3 others"
    assert "<title>3 others: 3 at 2026-11-20 22:10:00</title>" in chart
    assert chart.count('aria-roledescription="bar"') == COLOURS + 1


def test_what_is_outside_the_axis_has_no_bar() -> None:
    chart = bars([Count(BEGIN, 600, "a", 1), Count(BEGIN - timedelta(hours=1), 600, "a", 1)])

    assert chart.count('aria-roledescription="bar"') == 1


@every("changed", [{}, {"p50": 0.0}, {"p50": -3.0}, dict.fromkeys(ROW.keys() - {"type"}, 0.0)])
def test_a_range_is_drawn_also_of_what_is_not_positive(changed: dict[str, float]) -> None:
    chart = ranges("Queueing", [ROW | changed], ["type"])

    assert "NaN" not in chart
    assert chart.count("most ") == 5


def test_the_axis_of_ranges_is_told_at_each_power_of_ten() -> None:
    labels = LABEL.findall(ranges("Queueing", [ROW], ["type"]))

    assert labels == ["100 ms", "1 s", "10 s", "Shop.PlaceOrder"]


def test_the_same_rows_give_the_same_bytes() -> None:
    counts = [Count(BEGIN, 600, "a", 4), Count(BEGIN, 600, "b", 2)]

    assert bars(counts) == bars(counts)
    assert ranges("Queueing", [ROW], ["type"]) == ranges("Queueing", [ROW], ["type"])


@given(st.lists(st.none() | st.floats(-1, 10**6)))
def test_decades_hold_all_positive_values(values: list[float | None]) -> None:
    low, high = decades(values)

    assert low < high
    assert all(
        10.0**low <= value * 1.000001 and value <= 10.0**high * 1.000001
        for value in values
        if value and value > 0
    )
