"""What becomes of a message whose processing failed: a pure function of the failure.

Invariant: `decide` does no I/O, logs nothing and asks no clock; who carries a verdict out has no policy of its own.
Source of the defaults: reference §7.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from rowbus.errors import (
    ConfigurationError,
    MalformedHeadersError,
    MessageDeserializationError,
    UnknownMessageTypeError,
    Unrecoverable,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rowbus.model.address import QueueAddress

ALWAYS_UNRECOVERABLE: tuple[type[BaseException], ...] = (
    Unrecoverable,
    MessageDeserializationError,
    UnknownMessageTypeError,
    MalformedHeadersError,
)


class FailedAttempt(NamedTuple):
    """A failure as the policy sees it; `failures` counts attempts since the message came into this queue."""

    error: BaseException
    failures: int
    headers: Mapping[str, str | None]


@dataclass(frozen=True, slots=True)
class ImmediateRetry:
    """Verdict: process the message again at once."""


@dataclass(frozen=True, slots=True)
class MoveToErrorQueue:
    """Verdict: give up and keep the message, with its story, in an error queue (None: the endpoint's)."""

    queue: QueueAddress | None = None


@dataclass(frozen=True, slots=True)
class Discard:
    """Verdict: give up and let the message go; the reason is logged."""

    reason: str


Verdict = ImmediateRetry | MoveToErrorQueue | Discard


@dataclass(frozen=True, slots=True)
class Recoverability:
    """The default policy: so many immediate retries, then the error queue.

    Subclass it and override `decide` for a policy of your own.
    """

    immediate: int = 5
    """Retries at once after the first failure. Defaults to 5, so 6 attempts."""

    unrecoverable: tuple[type[BaseException], ...] = ()
    """Exceptions never retried, beside `rowbus.Unrecoverable` and messages that cannot be read. Defaults to none."""

    def __post_init__(self) -> None:
        """Refuse a negative number of retries."""
        if self.immediate < 0:
            raise ConfigurationError(f"immediate is {self.immediate}; it must be at least 0.")

    def decide(self, attempt: FailedAttempt) -> Verdict:
        """Say what becomes of a message after a failed attempt."""
        if isinstance(attempt.error, (*ALWAYS_UNRECOVERABLE, *self.unrecoverable)):
            return MoveToErrorQueue()
        if attempt.failures <= self.immediate:
            return ImmediateRetry()
        return MoveToErrorQueue()
