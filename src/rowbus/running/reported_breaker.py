"""A circuit breaker that reports: a warning when an outage begins, a critical error when it lasts, a line when it ends.

Invariant: an outage is one warning, at most one critical error, and one line when it is over.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import timedelta
from typing import TYPE_CHECKING, Final, NamedTuple

from rowbus.running.breaker import CircuitBreaker
from rowbus.running.critical import OnCriticalError, report
from rowbus.running.telemetry import outages

if TYPE_CHECKING:
    import logging

TRIGGER_AFTER: Final = timedelta(seconds=30)


class Alarm(NamedTuple):
    """The callback that hears of critical errors, and how long an outage lasts until it is one.

    `lapses_after`: see `CircuitBreaker`, in seconds.
    """

    on_critical_error: OnCriticalError
    trigger_after: timedelta = TRIGGER_AFTER
    clock: Callable[[], float] = time.monotonic
    lapses_after: float | None = None


class ReportedBreaker:
    """Watches one activity."""

    def __init__(self, activity: str, failure: str, logger: logging.Logger, alarm: Alarm) -> None:
        """Begin disarmed. The log reads `<failure>; trying again…`, and later `<activity> works again…`."""
        self.failure = failure
        self.logger = logger
        self.activity = activity
        self._breaker = CircuitBreaker(
            alarm.trigger_after.total_seconds(), alarm.clock, lapses_after=alarm.lapses_after
        )
        self._on_critical_error = alarm.on_critical_error

    @property
    def triggered(self) -> bool:
        """Whether the present outage has been reported as critical."""
        return self._breaker.triggered

    @property
    def is_failing(self) -> bool:
        """Whether an outage goes on: nothing has succeeded since, and it has not lapsed."""
        return self._breaker.is_armed

    def ended(self) -> None:
        """Note that nothing is tried any more: the service has stopped."""
        outages.ended(self)

    def failed(self, error: BaseException) -> float:
        """Note a failure, report it if it is news, and return for how many seconds to wait."""
        outage = self._breaker.failed()
        if outage.critical:
            report(self._on_critical_error, self.failure, error, self.logger)
        elif outage.first:
            self.logger.warning("%s; trying again until it works: %s", self.failure, error)
            outages.began(self)
        else:
            self.logger.debug("%s: %s", self.failure, error)
        return outage.wait

    def ended_unasked(self, name: str, error: BaseException) -> float:
        """Report that a loop of the activity ended, and return the seconds until it is to be begun anew."""
        text = f"{name} ended though nobody asked it to; it is begun anew"
        self.logger.critical("%s", text, exc_info=error)
        report(self._on_critical_error, text, error, self.logger)
        outages.began(self)
        return self._breaker.failed().wait

    def succeeded(self) -> None:
        """Note a success; report the end of an outage."""
        if failures := self._breaker.succeeded():
            outages.ended(self)
            self.logger.info("%s works again after %s failures.", self.activity, failures)
