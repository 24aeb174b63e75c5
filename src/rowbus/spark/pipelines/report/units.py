"""Numbers, spans, sizes and moments as a person reads them.

Invariant: pure; every finite number has a text.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final

_UNITS: Final = ((86_400, "d"), (3_600, "h"), (60, "min"), (1, "s"))
_MINUTES: Final = 120  # seconds from which on a latency is told in minutes


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


def _short(number: float) -> str:
    """Write three digits at most, and no zeros after the point."""
    digits = 0 if abs(number) >= 99.5 else 1 if abs(number) >= 9.95 else 2  # noqa: PLR2004 - three digits
    text = f"{number:,.{digits}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text
