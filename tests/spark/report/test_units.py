"""Numbers, spans and axes as people read them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rowbus.spark.pipelines.report.units import bucket_name, count_marks, decades, size, span, time_marks

BEGIN = datetime(2026, 11, 20, 22, 10, tzinfo=UTC)


@pytest.mark.parametrize(
    "seconds, text",
    [
        (None, ""),
        (0, "0 ms"),
        (0.00042, "0.42 ms"),
        (0.0123, "12.3 ms"),
        (0.9999, "1,000 ms"),
        (3.456, "3.46 s"),
        (119, "119 s"),
        (600, "10 min"),
        (9000, "2.5 h"),
        (172800, "2 d"),
        (-0.5, "-500 ms"),
    ],
)
def test_a_span_has_three_digits_and_its_unit(seconds: float | None, text: str) -> None:
    assert span(seconds) == text


@pytest.mark.parametrize(
    "seconds, text", [(1, "s"), (30, "30 s"), (60, "min"), (300, "5 min"), (3600, "h"), (86400, "d")]
)
def test_a_bucket_is_named_by_its_largest_unit(seconds: int, text: str) -> None:
    assert bucket_name(seconds) == text


def test_sizes_have_binary_units() -> None:
    assert [size(512), size(3565158)] == ["512 B", "3.4 MiB"]


@given(st.integers(0, 10**12))
def test_marks_of_counts_hold_the_most_and_are_few(most: int) -> None:
    marks = count_marks(most)

    assert marks[0] == 0
    assert marks[-1] >= most
    assert 2 <= len(marks) <= 6
    assert len({later - earlier for earlier, later in pairwise(marks)}) == 1


@given(st.timedeltas(min_value=timedelta(seconds=1), max_value=timedelta(days=4000)))
def test_marks_of_times_lie_between_and_are_few(length: timedelta) -> None:
    marks = time_marks(BEGIN, BEGIN + length)

    assert len(marks) <= 10
    assert all(BEGIN <= at <= BEGIN + length for at, _ in marks)


def test_the_day_is_told_where_it_changes() -> None:
    assert [text for _, text in time_marks(BEGIN, BEGIN + timedelta(hours=4))] == [
        "22:30", "23:00", "23:30", "Nov 21", "00:30", "01:00", "01:30", "02:00",
    ]  # fmt: skip


@given(st.lists(st.none() | st.floats(-1, 10**6)))
def test_decades_hold_all_positive_values(values: list[float | None]) -> None:
    low, high = decades(values)

    assert low < high
    assert all(
        10.0**low <= value * 1.000001 and value <= 10.0**high * 1.000001
        for value in values
        if value and value > 0
    )
