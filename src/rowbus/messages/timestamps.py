"""Points in time and spans of time as NServiceBus writes them in headers.

A timestamp is `yyyy-MM-dd HH:mm:ss:ffffff Z`: UTC, always 28 characters, a colon before the microseconds. A time
span is .NET's constant format `[-][d.]hh:mm:ss[.fffffff]`. (Source: docs/wire-format.md#times.)

Invariant: .NET parses what `format_timestamp` and `format_time_span` write to the same instant and span;
`parse_timestamp` gives back what was written, and raises `InvalidTimestampError` for any other text.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Final

from rowbus.errors import InvalidTimestampError

TIMESTAMP_LENGTH: Final = 28

# .NET counts a span in ticks of 100 ns in a signed 64-bit integer: about 29,000 years either way.
_LONGEST_SPAN: Final = timedelta(microseconds=2**63 // 10)

# `[0-9]`, because `\d` and `int()` take the digits of every script. The reader looks at digits only, as .NET does.
_LOOSE_TIMESTAMP: Final = re.compile(
    r"([0-9]{4}).([0-9]{2}).([0-9]{2}).([0-9]{2}).([0-9]{2}).([0-9]{2}).([0-9]{6})..", re.DOTALL
)
_TIME_SPAN: Final = re.compile(
    r"(-)?(?:([0-9]{1,8})\.)?([01]?[0-9]|2[0-3]):([0-5]?[0-9]):([0-5]?[0-9])(?:\.([0-9]{1,7}))?"
)
_EXACT_TIMESTAMP: Final = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2} (?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]:[0-9]{6} Z"
)


def with_zone(moment: datetime) -> datetime:
    """Return a time with its zone; one that people gave without is in UTC."""
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def format_timestamp(moment: datetime) -> str:
    """Write a moment as the 28 characters NServiceBus expects.

    The moment must know its time zone and is converted to UTC. Raises `InvalidTimestampError` for a naive
    datetime, and for one that leaves the years 1 to 9999 on the way to UTC.
    """
    if moment.tzinfo is UTC:
        text = moment.isoformat(" ", "microseconds")
        return f"{text[:19]}:{text[20:26]} Z"
    if moment.utcoffset() is None:
        raise _refused(
            str(moment), "is naive: give the datetime a time zone, for example tzinfo=datetime.UTC"
        )
    try:
        # Not strftime: its %Y does not pad the years before 1000.
        text = moment.astimezone(UTC).isoformat(" ", "microseconds")
    except OverflowError:
        raise _refused(str(moment), "is outside the years 1 to 9999 in UTC") from None
    return f"{text[:19]}:{text[20:26]} Z"


def parse_timestamp(text: str) -> datetime:
    """Read a timestamp header into an aware datetime in UTC.

    Accepts what .NET accepts: 28 characters with digits in the digit positions; the separators are not looked at.
    Raises `InvalidTimestampError` for anything else, days such as 30 February included.
    """
    moment = _parse_as_written(text)
    return _parse_loosely(text) if moment is None else moment


def _parse_as_written(text: str) -> datetime | None:
    """Read a timestamp with the separators that .NET writes, by the interpreter's own reader; None for any other."""
    if len(text) != TIMESTAMP_LENGTH or not text[4] == text[7] == "-":  # which leaves out ISO 8601's weeks
        return None
    try:
        return datetime.fromisoformat(f"{text[:19]}.{text[20:26]}+00:00")
    except ValueError:
        return None


def _parse_loosely(text: str) -> datetime:
    match = _LOOSE_TIMESTAMP.fullmatch(text)
    if match is None:
        raise _refused(text, "is not of the form 'yyyy-MM-dd HH:mm:ss:ffffff Z' (28 characters)")
    year, month, day, hour, minute, second, microsecond = map(int, match.groups())
    try:
        return datetime(year, month, day, hour, minute, second, microsecond, tzinfo=UTC)
    except ValueError as error:
        raise _refused(text, f"is no moment in time: {error}") from None


def is_well_formed_timestamp(text: object) -> bool:
    """Tell whether this is exactly what `format_timestamp` writes, separators included, and a real moment."""
    if not isinstance(text, str) or _EXACT_TIMESTAMP.fullmatch(text) is None:
        return False
    try:
        datetime.fromisoformat(text[:19])
    except ValueError:
        return False
    return True


def format_time_span(span: timedelta) -> str:
    """Write a span in .NET's constant format: `00:00:30`, `1.02:03:04.5000000`, `-00:00:01`.

    Raises `InvalidTimestampError` for a span longer than .NET can hold (about 29,000 years).
    """
    size = abs(span)
    if size > _LONGEST_SPAN:
        raise _refused(str(span), "is longer than a .NET TimeSpan can hold (10,675,199 days)")
    minutes, seconds = divmod(size.seconds, 60)
    hours, minutes = divmod(minutes, 60)
    sign = "-" if span < timedelta() else ""
    days = f"{size.days}." if size.days else ""
    fraction = f".{size.microseconds * 10:07d}" if size.microseconds else ""
    return f"{sign}{days}{hours:02d}:{minutes:02d}:{seconds:02d}{fraction}"


def parse_time_span(text: str) -> timedelta:
    """Read a span in .NET's constant format; of the seven digits the last is cut.

    Raises `InvalidTimestampError` for anything else, such as 26 hours without a day.
    """
    match = _TIME_SPAN.fullmatch(text)
    if match is None:
        raise _refused(text, "is not of the form '[-][d.]hh:mm:ss[.fffffff]'")
    sign, days, hours, minutes, seconds, fraction = match.groups("")
    try:
        span = timedelta(
            int(days or 0),
            int(seconds),
            int(fraction.ljust(6, "0")[:6]),
            hours=int(hours),
            minutes=int(minutes),
        )
    except OverflowError:
        raise _refused(text, "is longer than a timedelta can hold") from None
    return -span if sign else span


def _refused(text: str, reason: str) -> InvalidTimestampError:
    shown = text if len(text) <= 2 * TIMESTAMP_LENGTH else f"{text[: 2 * TIMESTAMP_LENGTH]}…"
    return InvalidTimestampError(f"{shown!r} {reason}.", text=text, reason=reason)
