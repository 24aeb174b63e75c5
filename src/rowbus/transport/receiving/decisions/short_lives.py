"""Decides whether an expired message was missed because its time to be received is as short as the wait between looks.

Invariant: pure; a message that expired while nothing received is not said to have been missed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rowbus.errors import InvalidTimestampError
from rowbus.messages.headers import Header
from rowbus.messages.timestamps import parse_time_span

if TYPE_CHECKING:
    from collections.abc import Mapping

SHORT: Final = 2.0
"""Seconds: an idle receiver looks every `peek_delay`, a second, for what comes without a notification."""


def is_missed(time_left: float, headers: Mapping[str, str | None]) -> bool:
    """Say whether a message expired a moment ago, of a time to be received that polling cannot keep."""
    try:
        lifetime = parse_time_span(headers.get(Header.TIME_TO_BE_RECEIVED) or "")
    except InvalidTimestampError:
        return False
    return lifetime.total_seconds() <= SHORT and -SHORT < time_left <= 0
