"""Numbers, spans and moments as a person reads them, and the marks of an axis.

Invariant: pure; every finite number has a text and every axis at least one mark.
"""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

_UNITS: Final = ((86_400, "d"), (3_600, "h"), (60, "min"), (1, "s"))
_STEPS: Final = (
    1,
    5,
    10,
    30,
    60,
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
    172800,
    604800,
)
_MOST_MARKS: Final = 8
_MOST_LINES: Final = 4
_MINUTES: Final = 120  # seconds from which on a latency is told in minutes
_DAY: Final = 86_400


def span(seconds: float | None) -> str:
    """Write a latency: `0.4 ms`, `12 ms`, `3.4 s`, `5 min`, `2.5 h`; nothing for none."""
    if seconds is None:
        return ""
    size = abs(seconds)
    if size < 1:
        return f"{_short(seconds * 1000)} ms"
    if size < _MINUTES:
        return f"{_short(seconds)} s"
    unit, name = next((unit, name) for unit, name in _UNITS if size >= 2 * unit)
    return f"{_short(seconds / unit)} {name}"


def bucket_name(seconds: int) -> str:
    """Write the length of a bucket, as in `per 5 min`."""
    unit, name = next((unit, name) for unit, name in _UNITS if seconds % unit == 0)
    return name if seconds == unit else f"{seconds // unit} {name}"


def count(number: float) -> str:
    """Write a number of things: `1,234`."""
    return f"{number:,.0f}"


def size(number: float) -> str:
    """Write a number of bytes: `512 B`, `3.4 MiB`."""
    amount, units = float(number), ["B", "KiB", "MiB", "GiB", "TiB"]
    while amount >= 1024 and len(units) > 1:  # noqa: PLR2004 - bytes in a KiB
        amount, units = amount / 1024, units[1:]
    return f"{amount:,.0f} B" if units[0] == "B" else f"{amount:,.1f} {units[0]}"


def moment(at: datetime | None) -> str:
    """Write a moment, in UTC, to the second."""
    return "" if at is None else f"{at.astimezone(UTC):%Y-%m-%d %H:%M:%S}"


def count_marks(most: float) -> list[int]:
    """Return round marks from 0 up to at least `most`."""
    most = max(most, 1)
    power = 10 ** math.floor(math.log10(most))
    steps = (power // 5, power // 2, power, 2 * power, 5 * power)
    step = next(step for step in steps if step and most <= step * _MOST_LINES)
    return list(range(0, step * math.ceil(most / step) + 1, step))


def time_marks(begin: datetime, end: datetime) -> list[tuple[datetime, str]]:
    """Return round moments between two, with what is written below them: the day where it changes, else the time."""
    seconds = (end - begin).total_seconds()
    step = next(
        (step for step in _STEPS if seconds / step <= _MOST_MARKS),
        math.ceil(seconds / _MOST_MARKS / _DAY) * _DAY,
    )
    at = datetime.fromtimestamp(math.ceil(begin.timestamp() / step) * step, UTC)
    marks: list[tuple[datetime, str]] = []
    day = begin.astimezone(UTC).date()
    while at <= end:
        marks.append((at, _mark(at, step, is_new_day=at.date() != day or step >= _DAY)))
        day = at.date()
        at += timedelta(seconds=step)
    return marks


def decades(values: Iterable[float | None]) -> tuple[int, int]:
    """Return the powers of ten that hold all positive values; at least one decade."""
    logs = [math.log10(value) for value in values if value and value > 0]
    low, high = math.floor(min(logs, default=-3)), math.ceil(max(logs, default=0))
    return low, max(high, low + 1)


def _mark(at: datetime, step: int, *, is_new_day: bool) -> str:
    if is_new_day:
        return f"{at:%b} {at.day}"
    return f"{at:%H:%M:%S}" if step < 60 else f"{at:%H:%M}"  # noqa: PLR2004 - a minute


def _short(number: float) -> str:
    """Write three digits at most, and no zeros after the point."""
    digits = 0 if abs(number) >= 99.5 else 1 if abs(number) >= 9.95 else 2  # noqa: PLR2004 - three digits
    text = f"{number:,.{digits}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text
