"""Verdicts on delayed messages that could not be stored or forwarded, and the rate at which failures become critical.

Invariant: pure; clocks are injected. A message gets exactly one attempt and the retries it was granted, whichever
instances made the attempts: the count is the store's. (NServiceBus compares the count before the last failure, and so
gives one attempt more than it was asked for; docs/wire-format.md#store-poller.)
"""

from __future__ import annotations

from collections import deque
from enum import Enum
from typing import TYPE_CHECKING

from rowbus.errors import (
    DestinationRefusedError,
    InvalidAddressError,
    MalformedHeadersError,
    QueueNotFoundError,
    StorageError,
    Unrecoverable,
)

if TYPE_CHECKING:
    from collections.abc import Callable

WINDOW = 30.0  # seconds over which failures of the error handling are counted

HOPELESS = (
    DestinationRefusedError,
    QueueNotFoundError,
    InvalidAddressError,
    MalformedHeadersError,
    Unrecoverable,
)
"""Failures that no retry mends."""


class AfterFailure(Enum):
    """What becomes of a message after a failed attempt."""

    WAIT = "wait"
    """A database or store is away, which is not the message's fault: try again later, count nothing."""

    RETRY = "retry"
    """Count the failure and try again."""

    GIVE_UP = "give up"
    """Move it to the error queue."""


def after_failure(error: BaseException, *, failures: int, retries: int) -> AfterFailure:
    """Decide about a message that has now failed, after `failures` times before, and is granted so many retries."""
    if isinstance(error, HOPELESS):
        return AfterFailure.GIVE_UP
    if is_outage(error):
        return AfterFailure.WAIT
    return AfterFailure.RETRY if failures < retries else AfterFailure.GIVE_UP


def is_outage(error: BaseException) -> bool:
    """Say whether a database or a store is away, or too busy with others, rather than a message at fault."""
    if isinstance(error, StorageError):
        return error.transient
    return isinstance(error, (ConnectionError, TimeoutError))


class FailureRate:
    """Says when failures come too often: more than `most_per_second` times 30 within 30 s."""

    def __init__(self, most_per_second: float, clock: Callable[[], float]) -> None:
        """Begin without failures."""
        self._most = most_per_second * WINDOW
        self._clock = clock
        self._failures: deque[float] = deque()
        self._excessive = False

    def failed(self) -> bool:
        """Note a failure; true when there are now too many: once, until they have become fewer again."""
        now = self._clock()
        self._failures.append(now)
        while now - self._failures[0] > WINDOW:
            self._failures.popleft()
        was_excessive, self._excessive = self._excessive, len(self._failures) > self._most
        if len(self._failures) > self._most + 1:
            self._failures.popleft()  # bounded: one more than the most already says it all
        return self._excessive and not was_excessive
