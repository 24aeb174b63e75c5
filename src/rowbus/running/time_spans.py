"""Spans of time as people write them: 500ms, 30s, 1.5h, 2d."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Final

from rowbus.errors import ConfigurationError

_UNITS: Final = {"ms": "milliseconds", "s": "seconds", "m": "minutes", "h": "hours", "d": "days"}
_SPAN: Final = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|s|m|h|d)")


def time_span(given: str | timedelta) -> timedelta:
    """Return a span that is given as one, or as text; raises ConfigurationError."""
    if isinstance(given, timedelta):
        return given
    match = _SPAN.fullmatch(str(given).strip())
    if match is None:
        raise ConfigurationError(f"{given!r} is not a span of time such as 500ms, 30s, 5m, 2h or 1d.")
    try:
        return timedelta(**{_UNITS[match[2]]: float(match[1])})
    except OverflowError:
        raise ConfigurationError(f"{given!r} is longer than can be counted.") from None
