"""Delays: jitter, doubling up to a limit, looks for what arrives without a notification, and the circuit breaker.

Work comes in trains: a reply follows a command, the next order follows an order. A look at an empty table costs little,
so a few of them follow each piece of work; an idle program pays for none of them.

The breaker is disarmed until the first failure, then armed until a success (docs/wire-format.md#circuit-breaker). When
failures have lasted for the set time it triggers, once: that is a critical error. It also returns how long to wait
after a failure, and whether the failure is the first of its outage, so that an outage does not flood the log.

Invariants: delays and breaker are pure: randomness and the clock are injected, and the waiting is the caller's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable


JITTER = 0.2  # give or take a fifth

FIRST_PAUSE: Final = 0.02  # seconds until the first look after work; doubled for each look in vain

WAIT_WHEN_ARMED = 1.0  # seconds after a failure, until the outage is critical
WAIT_WHEN_TRIGGERED = 10.0  # seconds after a failure, from then on


def jittered(seconds: float, random: Callable[[], float]) -> float:
    """Spread a delay over ±`JITTER`, so that instances started together do not poll together.

    `random` returns a number from 0 to 1.
    """
    return seconds * (1 - JITTER + 2 * JITTER * random())


def doubling(failures: int, *, first: float, most: float) -> float:
    """Return the delay after this many failures in a row: `first`, then twice as long each time, at most `most`."""
    return min(most, first * 2.0 ** min(failures - 1, 60))


class LookPauses:
    """Pauses before each look: 20, 40, 80 … ms after work, up to `longest` seconds."""

    def __init__(self, longest: float) -> None:
        """Begin idle: look every `longest` seconds."""
        self._longest = longest
        self._last = longest

    def worked(self) -> bool:
        """Note that something was done; say whether the last pause, which may be under way, is too long now."""
        too_long = self._last > FIRST_PAUSE
        self._last = 0.0
        return too_long

    def following(self) -> float:
        """Return how long to wait before the next look."""
        self._last = min(self._longest, max(FIRST_PAUSE, 2 * self._last))
        return self._last


class Outage(NamedTuple):
    """The consequence of a failure: seconds to wait, and whether it began the outage or made it critical."""

    wait: float
    first: bool
    critical: bool


class CircuitBreaker:
    """Measures how long an activity has been failing; `trigger_after` is in seconds.

    `lapses_after` is for an activity that may end without a success, because nothing is left to be tried: an outage of
    which nothing was heard for so many seconds is over, and the next failure begins another.
    """

    def __init__(
        self, trigger_after: float, clock: Callable[[], float], *, lapses_after: float | None = None
    ) -> None:
        """Begin disarmed."""
        self._trigger_after = trigger_after
        self._lapses_after = lapses_after
        self._last: float | None = None
        self._clock = clock
        self._armed_at: float | None = None
        self.failures = 0
        self.triggered = False

    @property
    def is_armed(self) -> bool:
        """Whether an outage goes on."""
        return self._armed_at is not None and not self._has_lapsed(self._clock())

    def failed(self) -> Outage:
        """Note a failure and return what follows from it."""
        now = self._clock()
        if self._has_lapsed(now):
            self.succeeded()
        self._last = now
        first = self._armed_at is None
        self._armed_at = now if self._armed_at is None else self._armed_at
        self.failures += 1
        critical = not self.triggered and now - self._armed_at >= self._trigger_after
        self.triggered = self.triggered or critical
        return Outage(WAIT_WHEN_TRIGGERED if self.triggered else WAIT_WHEN_ARMED, first, critical)

    def succeeded(self) -> int:
        """Disarm; return the number of failures of the outage, 0 without one."""
        if self._armed_at is None:
            return 0
        failures, self.failures = self.failures, 0
        self._armed_at, self.triggered = None, False
        return failures

    def _has_lapsed(self, now: float) -> bool:
        return (
            self._lapses_after is not None
            and self._last is not None
            and now - self._last > self._lapses_after
        )
