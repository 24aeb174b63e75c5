"""Back-off: how long a failed message waits before each of its delayed retries.

Invariant: a pure function of the retry's number and the message's id: the same in each process, and after a restart.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from rowbus.errors import ConfigurationError
from rowbus.running.functions import check_function
from rowbus.running.setting_types import time_span

Backoff = Callable[[int], timedelta]
"""Returns the delay before a delayed retry: before the first for 1, before the second for 2."""

_ALL: Final = 2**32


@dataclass(frozen=True, slots=True)
class Exponential:
    """A back-off that multiplies the delay each time, up to a cap."""

    first: timedelta
    cap: timedelta
    factor: float
    jitter: bool

    def __call__(self, retry: int) -> timedelta:
        """Return the delay before a retry, without jitter."""
        exponent = math.log(self.factor) * (retry - 1)
        most = math.log(self.cap / self.first) if self.cap > self.first else 0.0
        return self.cap if exponent >= most else min(self.cap, self.first * self.factor ** (retry - 1))

    def of_message(self, retry: int, message_id: str) -> timedelta:
        """Return the delay before a message's retry: with jitter between half of it and all of it, by its id."""
        delay = self(retry)
        if not self.jitter:
            return delay
        return delay * (0.5 + zlib.crc32(f"{message_id}/{retry}".encode(errors="replace")) / _ALL / 2)


def exponential(
    first: timedelta | str,
    *,
    cap: timedelta | str = timedelta(hours=1),
    factor: float = 2.0,
    jitter: bool = False,
) -> Exponential:
    """Return a back-off that begins with a delay and multiplies it each time: 1 s, 2 s, 4 s, and never more than `cap`.

    Spans may be text: `exponential("1s", cap="10m")`. With `jitter` each delay is between half of it and all of it, so
    that messages that failed together do not come back together. Raises ConfigurationError.
    """
    begin, most = time_span(first), time_span(cap)
    if not timedelta() < begin <= most:
        raise ConfigurationError(
            f"A back-off begins with more than nothing and at most its cap, not with {begin} of {most}."
        )
    if not 1 <= factor < math.inf:
        raise ConfigurationError(f"factor is {factor!r}; give a number of at least 1.")
    return Exponential(begin, most, factor, jitter)


def check_backoff(backoff: Backoff) -> None:
    """Raise ConfigurationError for what is no function of a number, or returns no delay for a first retry."""
    check_function(backoff, "The back-off", "retry")
    first: object = backoff(1)
    if not isinstance(first, timedelta) or first < timedelta():  # pyright: ignore[reportUnnecessaryIsInstance] # what users give
        raise ConfigurationError(
            f"The back-off {backoff!r} returns {first!r} for a first retry; it must return a timedelta of at least 0."
        )


def delay_before(retry: int, backoff: Backoff, message_id: str) -> timedelta:
    """Return how long a message waits before one of its delayed retries."""
    return backoff.of_message(retry, message_id) if isinstance(backoff, Exponential) else backoff(retry)
