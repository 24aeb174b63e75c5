"""A circuit breaker that says what happens to it: a warning when an outage begins, a critical error when it lasts.

Invariant: an outage is one warning, at most one critical error, and one line when it is over.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from rowbus.running.breaker import CircuitBreaker

if TYPE_CHECKING:
    import logging
    from collections.abc import Callable
    from datetime import timedelta


class ReportedBreaker:
    """Watches one activity; `failing` says in an error's place what failed, to people."""

    def __init__(
        self,
        failing: str,
        trigger_after: timedelta,
        report: Callable[[str, BaseException], None],
        logger: logging.Logger,
    ) -> None:
        """Begin disarmed. `report` is told the critical error."""
        self._failing = failing
        self._breaker = CircuitBreaker(trigger_after.total_seconds(), time.monotonic)
        self._report = report
        self._logger = logger

    def failed(self, error: BaseException) -> float:
        """Note a failure, and say for how many seconds to wait."""
        outage = self._breaker.failed()
        if outage.critical:
            self._report(self._failing, error)
        elif outage.first:
            self._logger.warning("%s; trying again until it works: %s", self._failing, error)
        else:
            self._logger.debug("%s: %s", self._failing, error)
        return outage.wait

    def succeeded(self) -> None:
        """Note a success."""
        if failures := self._breaker.succeeded():
            self._logger.info("Works again after %s failures: %s", failures, self._failing)
