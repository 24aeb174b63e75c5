"""The schedule of a store's poller: when the next message is due or was just stored, or a longest wait ends.

What was stored a moment ago may not be committed yet, so that a look finds nothing: it is remembered until a look has
found it, or for `GRACE`. What is overdue but not to be had is in the hands of another instance.

Invariant: pure; the caller says what time it is. Never waits longer than `LONGEST_WAIT`.
"""

from __future__ import annotations

from collections import Counter
from datetime import timedelta
from heapq import heappop, heappush
from typing import TYPE_CHECKING

from rowbus.running.backoff import doubling

if TYPE_CHECKING:
    from datetime import datetime

LONGEST_WAIT = 10.0  # seconds until what an instance stored before it ended is seen; NServiceBus: a minute
GRACE = timedelta(seconds=5)
FIRST_OVERDUE_WAIT = 0.02  # seconds; doubled for each look in vain
LONGEST_OVERDUE_WAIT = 1.0


class DueSchedule:
    """The next look of one poller."""

    def __init__(self) -> None:
        """Begin with nothing stored."""
        self._expected: Counter[datetime] = Counter()
        self._order: list[datetime] = []  # a heap of what is expected, and of what no longer is
        self._in_vain = 0

    def expect(self, due: datetime, now: datetime) -> bool:
        """Remember a message being stored now; say whether it is due before the poller would look anyway."""
        if due - now > timedelta(seconds=LONGEST_WAIT):
            return False
        self._expected[due] += 1
        heappush(self._order, due)
        return True

    def found(self, due: datetime) -> None:
        """Note that a look found a message due at an instant."""
        self._in_vain = 0
        if self._expected[due] > 1:
            self._expected[due] -= 1
        else:
            del self._expected[due]

    def wait(self, now: datetime, next_due: datetime | None) -> float:
        """Say for how many seconds to wait, after a look in vain; `next_due` is the store's answer."""
        awaited = [due for due in (next_due, self._first_expected(now - GRACE)) if due is not None]
        seconds = (min(awaited) - now).total_seconds() if awaited else LONGEST_WAIT
        if seconds > 0:
            self._in_vain = 0
            return min(seconds, LONGEST_WAIT)
        self._in_vain += 1
        return doubling(self._in_vain, first=FIRST_OVERDUE_WAIT, most=LONGEST_OVERDUE_WAIT)

    def _first_expected(self, since: datetime) -> datetime | None:
        """Return when the first message that is expected is due; forget what was found or is too long overdue."""
        while self._order and (self._order[0] < since or self._order[0] not in self._expected):
            del self._expected[heappop(self._order)]
        return self._order[0] if self._order else None
