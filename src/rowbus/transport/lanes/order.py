"""The order of a lane's messages: who waits because an earlier message of the same key waits.

A receiver passes over rows that are not to be handled now. In a lane with order nothing of the same key may come before
them: it is passed over, too, for as long.

Invariant: pure; a message of a key is handled when none before it is passed over.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Final

from rowbus.errors import InvalidTimestampError, MalformedHeadersError
from rowbus.messages.headers import Header, decode_headers
from rowbus.messages.timestamps import parse_timestamp

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from datetime import datetime

    from rowbus.messages.message import MessageRow

SOON: Final = 0.001
"""Seconds after which a look finds what one before it left out, and what waits for it."""
_WAITS: Final = f'"{Header.NOT_BEFORE}"'


class Order:
    """The keys of one lane that wait. For one event loop."""

    def __init__(self, now: Callable[[], datetime]) -> None:
        """Begin with none; `now` is the time that a retry's headers are compared with."""
        self._now = now
        self._keys: dict[int, str] = {}  # of what is in hand, or waits, by position
        self._left_out: Sequence[int] = ()
        self._passed = timedelta()

    def let_pass(self, seconds: float) -> None:
        """Have so much time pass for messages that are to be retried later."""
        self._passed += timedelta(seconds=seconds)

    def passed_over(self, positions: Sequence[int]) -> None:
        """Note what the next look leaves out: it may wait no more when that ends, and is first all the same."""
        self._left_out = positions

    def waiting(self, rows: Sequence[MessageRow], held: dict[int, float]) -> dict[int, float]:
        """Return for which of the rows in hand it is too early, by their positions, and for how many seconds.

        `held` are the positions of those that are passed over, with the seconds that are left.
        """
        held = dict.fromkeys(self._left_out, SOON) | held
        if not held and not any(_WAITS in row.headers for row in rows):
            self._keys = {}
            return {}
        headers = {row.seq: _headers_of(row) for row in rows}
        keys = {position: key for position, key in self._keys.items() if position in held}
        keys |= {position: key for position, given in headers.items() if (key := given.get(Header.KEY))}
        until = {keys[position]: seconds for position, seconds in held.items() if position in keys}
        waiting: dict[int, float] = {}
        for position, given in headers.items():
            key = keys.get(position)
            seconds = max(self._early(given), until.get(key, 0.0) if key else 0.0)
            if seconds > 0:
                waiting[position] = seconds
                if key:
                    until[key] = seconds
        self._keys = keys
        return waiting

    def note(self, row: MessageRow) -> None:
        """Remember the key of a row that is about to be passed over."""
        if key := _headers_of(row).get(Header.KEY):
            self._keys[row.seq] = key

    def _early(self, headers: Mapping[str, str | None]) -> float:
        try:
            due = parse_timestamp(headers.get(Header.NOT_BEFORE) or "")
        except InvalidTimestampError:
            return 0.0
        return (due - self._now() - self._passed).total_seconds()


def _headers_of(row: MessageRow) -> Mapping[str, str | None]:
    try:
        return decode_headers(row.headers)
    except MalformedHeadersError:
        return {}
