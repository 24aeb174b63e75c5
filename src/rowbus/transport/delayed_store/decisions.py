"""The decisions about a store: when to poll, what is wrong with an answer, what becomes of failures.

What was stored a moment ago may not be committed yet, so that a look finds nothing: it is remembered until a look has
found it, or for `GRACE`. What is overdue but not to be had is in the hands of another instance.

Source: `MaximumRecoveryFailuresPerSecond` (docs/wire-format.md#store-poller): critical are more failures than so many
per second, over 30 s. Two messages are in hand at a time, and each failure is followed by a wait, which bounds the rate
at which they can fail at all: so the wait is chosen so short that twice the permitted rate can be reached.

Invariants: pure. The caller says what time it is. Never waits longer than `LONGEST_WAIT`. Each answer of a store is
looked at before anything relies on it. A message gets exactly one attempt and the retries it was granted, from all
instances together: the count is the store's. (NServiceBus compares the count before the last failure, and so gives one
attempt more than it was asked for; docs/wire-format.md#store-poller.). The clock is injected. At every permitted rate:
when nothing but failures comes, they become critical within the window, once; and from then on they are waited out.
"""

from __future__ import annotations

from collections import Counter, deque
from datetime import datetime, timedelta
from enum import Enum
from heapq import heappop, heappush
from typing import TYPE_CHECKING, Final, NamedTuple

from rowbus.errors import (
    DestinationRefusedError,
    InvalidAddressError,
    MalformedHeadersError,
    QueueNotFoundError,
    StorageError,
    StoreError,
    StoreUnavailableError,
    Unrecoverable,
)
from rowbus.errors.strangers import attribute, is_a, printable, sqlstate_of
from rowbus.running.backoff import doubling
from rowbus.transport.delayed_store.protocol import DelayedMessage

if TYPE_CHECKING:
    from collections.abc import Callable

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


PRECISION: Final = timedelta(milliseconds=1)
"""A store may keep times to the millisecond, so a message may seem due so much later than it was fetched."""

_LONGEST: Final = 100
_PARTS: Final = {"message_id": str, "destination": str, "headers": bytes, "body": bytes}


def wrong_time(answer: object) -> str | None:
    """Say what is wrong with an answer of `next`, None if nothing is."""
    return None if answer is None else _wrong_instant(answer, "an aware datetime or None")


def wrong_message(answer: object, at: datetime) -> str | None:
    """Say what is wrong with an answer of `fetch_next_due(at)`, None if nothing is."""
    if answer is None:
        return None
    if not isinstance(answer, DelayedMessage):
        return f"{_shown(answer)}, not a DelayedMessage or None"
    wrong = _wrong_part(answer) or _wrong_instant(answer.time, "a message whose time is an aware datetime")
    if wrong is None and answer.time > at + PRECISION:
        return f"a message that is due at {answer.time}, when it was asked for what is due at {at}"
    return wrong


def wrong_truth(answer: object) -> str | None:
    """Say what is wrong with an answer of `remove` and `increment_failure_count`; a row count of 0 or 1 is right."""
    return None if isinstance(answer, int) and answer in {0, 1} else f"{_shown(answer)}, not True or False"


def _wrong_instant(answer: object, wanted: str) -> str | None:
    if not isinstance(answer, datetime):
        return f"{_shown(answer)}, not {wanted}"
    if answer.utcoffset() is None:
        return f"{_shown(answer)}, which has no time zone: it must be {wanted}"
    return None


def _shown(answer: object) -> str:
    return f"{printable(repr(answer), _LONGEST)} ({type(answer).__name__})"


def _wrong_part(message: DelayedMessage) -> str | None:
    for name, kind in _PARTS.items():
        if not isinstance(part := getattr(message, name), kind):
            return f"a message whose {name} is {_shown(part)}, not {kind.__name__}"
    count: object = getattr(message, "number_of_retries")  # noqa: B009 - its declared type is not to be trusted
    if not isinstance(count, int) or count < 0:
        return f"a message whose number_of_retries is {_shown(count)}, not a number from 0"
    return None


TOO_LONG: Final = frozenset({"55P03", "57014", "HYT00"})
"""SQLSTATEs of statements that waited for a lock, or ran, longer than they may
(https://www.postgresql.org/docs/current/errcodes-appendix.html)."""

HOPELESS = (
    DestinationRefusedError,
    QueueNotFoundError,
    InvalidAddressError,
    MalformedHeadersError,
    Unrecoverable,
)
"""Failures that no retry mends."""


class AfterFailure(Enum):
    """The fate of a message after a failed attempt."""

    WAIT = "wait"
    """A database or store is away, which is not the message's fault: try again later, count nothing."""

    RETRY = "retry"
    """Count the failure and try again."""

    GIVE_UP = "give up"
    """Move it to the error queue."""


def after_failure(error: BaseException, *, failures: int, retries: int) -> AfterFailure:
    """Decide about a message that has now failed, after `failures` times before, and is granted so many retries."""
    if is_a(error, HOPELESS):
        return AfterFailure.GIVE_UP
    if is_outage(error):
        return AfterFailure.WAIT
    return AfterFailure.RETRY if failures < retries else AfterFailure.GIVE_UP


def is_outage(error: BaseException) -> bool:
    """Say whether a database or a store is away, broken, or too busy with others, rather than a message at fault."""
    if is_a(error, StorageError):
        return attribute(error, "transient") is True or sqlstate_of(error) in TOO_LONG
    return is_a(error, (OSError, StoreError, StoreUnavailableError))


WINDOW: Final = 30.0
"""Seconds over which failures are counted."""

LONGEST_PAUSE: Final = 1.0
"""Seconds of the wait after a failure, unless the permitted rate asks for less."""

MARGIN: Final = 2
"""The number of times that the permitted rate is reached when nothing but failures comes."""


class RecoveryFailure(NamedTuple):
    """The consequence of a failure: whether it makes them critical, and for how many seconds to wait."""

    critical: bool
    wait: float


class FailureRate:
    """Counts failures; `hands` is how many messages can fail at a time."""

    def __init__(self, most_per_second: float, clock: Callable[[], float], *, hands: int) -> None:
        """Begin without failures."""
        self._most = most_per_second * WINDOW
        self._wait = min(LONGEST_PAUSE, hands / (MARGIN * most_per_second))
        self._clock = clock
        self._failures: deque[float] = deque()
        self._excessive = False

    def failed(self) -> RecoveryFailure:
        """Note a failure; it is critical when there are now too many: once, until 30 s have passed without any."""
        self._forget_old()
        was_excessive = self._excessive and bool(self._failures)
        self._failures.append(self._clock())
        self._excessive = was_excessive or len(self._failures) > self._most
        if len(self._failures) > self._most + 1:
            self._failures.popleft()  # bounded: one more than the most already says it all
        critical = self._excessive and not was_excessive
        return RecoveryFailure(critical, LONGEST_PAUSE if self._excessive else self._wait)

    def _forget_old(self) -> None:
        now = self._clock()
        while self._failures and now - self._failures[0] > WINDOW:
            self._failures.popleft()
