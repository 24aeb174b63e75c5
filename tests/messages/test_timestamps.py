"""Timestamps and time spans: what .NET writes is read, what we write .NET reads."""

from __future__ import annotations

import pickle
from datetime import UTC, datetime, timedelta, timezone

import pytest

from rowbus.errors import InvalidTimestampError
from rowbus.messages.timestamps import (
    TIMESTAMP_LENGTH,
    format_time_span,
    format_timestamp,
    is_well_formed_timestamp,
    parse_timestamp,
)
from tests.fixtures.every import every

MOMENT = datetime(2026, 4, 29, 21, 56, 55, 590807, tzinfo=UTC)
TEXT = "2026-04-29 21:56:55:590807 Z"


def test_a_timestamp_is_written_as_dotnet_writes_it() -> None:
    assert format_timestamp(MOMENT) == TEXT


def test_a_timestamp_is_read_as_a_moment_in_utc() -> None:
    moment = parse_timestamp(TEXT)

    assert moment == MOMENT
    assert moment.tzinfo is UTC


def test_a_timestamp_is_converted_to_utc_before_it_is_written() -> None:
    warsaw = timezone(timedelta(hours=2))

    assert format_timestamp(MOMENT.astimezone(warsaw)) == TEXT


@every(
    "moment, text",
    [
        (datetime(2026, 1, 2, 3, 4, 5, 0, tzinfo=UTC), "2026-01-02 03:04:05:000000 Z"),
        (datetime(2026, 1, 2, 3, 4, 5, 7, tzinfo=UTC), "2026-01-02 03:04:05:000007 Z"),
        (datetime(1, 1, 1, tzinfo=UTC), "0001-01-01 00:00:00:000000 Z"),
        (datetime(9999, 12, 31, 23, 59, 59, 999999, tzinfo=UTC), "9999-12-31 23:59:59:999999 Z"),
    ],
)
def test_every_timestamp_has_28_characters(moment: datetime, text: str) -> None:
    assert format_timestamp(moment) == text
    assert len(text) == TIMESTAMP_LENGTH == 28


def test_a_naive_datetime_is_refused() -> None:
    with pytest.raises(InvalidTimestampError, match="time zone"):
        format_timestamp(MOMENT.replace(tzinfo=None))


def test_a_moment_that_leaves_the_calendar_in_utc_is_refused() -> None:
    with pytest.raises(InvalidTimestampError, match="years 1 to 9999"):
        format_timestamp(datetime(1, 1, 1, tzinfo=timezone(timedelta(hours=1))))


@every("text", ["2026/04/29T21.56.55.590807+Z", "2026\n04\n29\n21\n56\n55\n590807\n\n"])
def test_the_reader_looks_at_digits_and_length_but_not_at_separators(text: str) -> None:
    assert parse_timestamp(text) == MOMENT


MALFORMED = [
    "",
    " ",
    TEXT[:-1],
    TEXT + "Z",
    " " + TEXT,
    TEXT + "\n",
    "2026-04-29T21:56:55.590807Z",
    "2026-W18-3T21:56:55:590807 Z",  # a date, by ISO 8601
    "202x-04-29 21:56:55:590807 Z",
    "2026-04-29 21:56:55:59080x Z",
    "٢٠٢٦-04-29 21:56:55:590807 Z",  # digits, but not ASCII ones
    "+026-04-29 21:56:55:590807 Z",
    "2_26-04-29 21:56:55:590807 Z",
    "0000-04-29 21:56:55:590807 Z",
    "2026-13-29 21:56:55:590807 Z",
    "2026-02-30 21:56:55:590807 Z",
    "2026-04-29 24:00:00:000000 Z",
    "2026-04-29 21:60:55:590807 Z",
    "2026-04-29 21:56:60:590807 Z",
]


@every("text", MALFORMED)
def test_a_malformed_timestamp_is_refused(text: str) -> None:
    with pytest.raises(InvalidTimestampError) as caught:
        parse_timestamp(text)

    assert caught.value.text == text
    assert isinstance(caught.value, ValueError)


@every("text", [*MALFORMED, "2026/04/29 21:56:55:590807 Z", "2026-04-29 21:56:55.590807 Z", "x" * 28])
def test_only_what_we_would_write_ourselves_is_well_formed(text: str) -> None:
    assert is_well_formed_timestamp(TEXT)
    assert not is_well_formed_timestamp(text)


def test_what_is_not_text_is_no_well_formed_timestamp() -> None:
    assert not is_well_formed_timestamp(20260429)


@every(
    "span, text",
    [
        (timedelta(), "00:00:00"),
        (timedelta(seconds=30), "00:00:30"),
        (timedelta(hours=23, minutes=59, seconds=59), "23:59:59"),
        (timedelta(hours=24), "1.00:00:00"),
        (timedelta(days=1, hours=2, minutes=3, seconds=4.5), "1.02:03:04.5000000"),
        (timedelta(microseconds=1), "00:00:00.0000010"),
        (timedelta(seconds=-1), "-00:00:01"),
        (timedelta(days=-1, hours=-1), "-1.01:00:00"),
        (timedelta(microseconds=922337203685477580), "10675199.02:48:05.4775800"),
    ],
)
def test_a_time_span_is_in_dotnet_constant_format(span: timedelta, text: str) -> None:
    assert format_time_span(span) == text


@every("span", [timedelta.max, timedelta.min])
def test_a_time_span_dotnet_cannot_hold_is_not_written(span: timedelta) -> None:
    with pytest.raises(InvalidTimestampError, match=r"\.NET"):
        format_time_span(span)


def test_the_error_names_long_text_briefly_and_pickles() -> None:
    with pytest.raises(InvalidTimestampError) as caught:
        parse_timestamp("9" * 10_000)

    copy = pickle.loads(pickle.dumps(caught.value))  # noqa: S301 - our own bytes

    assert len(str(caught.value)) < 200
    assert (type(copy), copy.text, str(copy)) == (InvalidTimestampError, "9" * 10_000, str(caught.value))
