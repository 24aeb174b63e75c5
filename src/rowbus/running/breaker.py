"""The circuit breaker of repeated failures over time (docs/wire-format.md#circuit-breaker).

Disarmed until the first failure; armed until a success, or, when failures have lasted for the set time, triggered:
then a critical error is reported, once. It also says how long to wait after a failure, and whether a failure is news
worth a log line, so that an outage does not flood the log.

Invariant: pure; the clock is injected and the waiting is the caller's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable

WAIT_WHEN_ARMED = 1.0
WAIT_WHEN_TRIGGERED = 10.0


class Outage(NamedTuple):
    """What to do after a failure: wait (seconds), tell (first failure), raise the critical error (first trigger)."""

    wait: float
    first: bool
    critical: bool


class CircuitBreaker:
    """Counts how long something has been failing; `trigger_after` in seconds."""

    def __init__(self, trigger_after: float, clock: Callable[[], float]) -> None:
        """Begin disarmed."""
        self._trigger_after = trigger_after
        self._clock = clock
        self._armed_at: float | None = None
        self.failures = 0
        self.triggered = False

    def failed(self) -> Outage:
        """Note a failure and say what follows from it."""
        now = self._clock()
        first = self._armed_at is None
        self._armed_at = now if self._armed_at is None else self._armed_at
        self.failures += 1
        critical = not self.triggered and now - self._armed_at >= self._trigger_after
        self.triggered = self.triggered or critical
        return Outage(WAIT_WHEN_TRIGGERED if self.triggered else WAIT_WHEN_ARMED, first, critical)

    def succeeded(self) -> int:
        """Disarm; return how many failures the outage had (0: there was none)."""
        if self._armed_at is None:
            return 0
        failures, self.failures = self.failures, 0
        self._armed_at, self.triggered = None, False
        return failures
