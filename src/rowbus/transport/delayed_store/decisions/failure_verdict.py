"""Verdicts on delayed messages that could not be stored or forwarded.

Invariant: pure. A message gets exactly one attempt and the retries it was granted, from all
instances together: the count is the store's. (NServiceBus compares the count before the last failure, and so
gives one attempt more than it was asked for; docs/wire-format.md#store-poller.)
"""

from __future__ import annotations

from enum import Enum
from typing import Final

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
from rowbus.errors.exception_facts import attribute, is_a, sqlstate_of

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
    """What becomes of a message after a failed attempt."""

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
