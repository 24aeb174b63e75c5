"""The verdict on an event whose handler failed: retry later, or put aside as a dead letter.

Invariant: pure. The same failure, count and random number give the same verdict.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

from rowbus.errors import Unrecoverable
from rowbus.errors.exception_facts import is_a, text_of, type_name
from rowbus.running.backoff import doubling, jittered

if TYPE_CHECKING:
    from collections.abc import Callable

LONGEST_REASON = 4000  # characters of an error's text that are kept with a dead letter


class RetryAfter(NamedTuple):
    """Deliver the event again, to this consumer alone, when so many seconds have passed."""

    seconds: int


class Defer(NamedTuple):
    """Deliver the event again as if this delivery had not happened: an earlier event of its key is being retried."""

    seconds: int


class DeadLetter(NamedTuple):
    """Put the event aside, with the reason, until it is replayed or purged."""

    reason: str


Verdict = RetryAfter | Defer | DeadLetter


class Retries(NamedTuple):
    """How often and how soon; delays in seconds."""

    most: int
    first_delay: float
    longest_delay: float


def judge(error: BaseException, retried: int, retries: Retries, random: Callable[[], float]) -> Verdict:
    """Return the verdict on an event that failed after it had been retried so many times.

    Delays double from retry to retry, give or take a fifth, and are whole seconds, rounded up. `Unrecoverable` is
    never retried. `random` returns a number from 0 to 1.
    """
    if is_a(error, Unrecoverable) or retried >= retries.most:
        return DeadLetter(describe(error))
    return RetryAfter(retry_delay(retried, retries, random))


def retry_delay(retried: int, retries: Retries, random: Callable[[], float]) -> int:
    """Return the seconds to wait before an event that has been retried so many times is tried again."""
    delay = doubling(retried + 1, first=retries.first_delay, most=retries.longest_delay)
    return math.ceil(round(jittered(delay, random), 6))  # 12.000000000000002 is 12


def describe(error: BaseException) -> str:
    """Say what an error was, in a text that PostgreSQL can keep."""
    name, said = type_name(error), text_of(error)
    text = f"{name}: {said}" if said else name
    return text.replace("\x00", "")[:LONGEST_REASON]
