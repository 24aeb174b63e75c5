"""Critical errors: failures that last, or that need a person; and the circuit breaker that reports them.

Invariants: an error in the callback stops no service; one that ends the program, as `sys.exit` does, ends it; an outage
is one warning, at most one critical error, and one line when it is over.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from datetime import timedelta
from typing import Final, NamedTuple

from rowbus.errors import ConnectionLostError
from rowbus.errors.strangers import exc_info_of
from rowbus.running.backoff import CircuitBreaker
from rowbus.running.functions import check_function, is_unawaited
from rowbus.running.telemetry import process

logger = logging.getLogger("rowbus.receiving")

OnCriticalError = Callable[[str, BaseException], None]
"""Takes, once for each outage, what fails and the error."""


def report(callback: OnCriticalError, text: str, error: BaseException, log: logging.Logger = logger) -> None:
    """Call the callback; log what it raises, or returns to be awaited."""
    try:
        returned: object = callback(text, error)  # type: ignore[func-returns-value]  # not all check types
        if is_unawaited(returned):
            log.error(
                "The critical-error callback has to be awaited, and nothing awaits it; it was told: %s", text
            )
    except (SystemExit, KeyboardInterrupt):
        raise
    except BaseException:
        log.exception("The critical-error callback failed when it was told: %s", text)


def callback_of(given: OnCriticalError | None, logger: logging.Logger) -> OnCriticalError:
    """Return the callback of a service: the one given, or one that logs the error as CRITICAL.

    Raises ConfigurationError for what cannot be called with the text and the error, or would have to be awaited.
    """
    if given is None:
        return log_critical(logger)
    check_function(given, "on_critical_error", "text", "error")
    return given


def log_critical(logger: logging.Logger) -> OnCriticalError:
    """Return the callback of a service that was given none: it logs the error as CRITICAL.

    A server that is away is told of in one line: no call of the program's led to it.
    """

    def log(text: str, error: BaseException) -> None:
        if isinstance(error, ConnectionLostError):
            logger.critical("%s, and goes on failing: %s", text, error)
        else:
            logger.critical("%s", text, exc_info=exc_info_of(error))

    return log


def log_lasting(logger: logging.Logger) -> OnCriticalError:
    """Return the callback of what nothing else waits for: it logs the error as ERROR."""

    def log(text: str, error: BaseException) -> None:
        logger.error("%s for long: %s", text, error)

    return log


TRIGGER_AFTER: Final = timedelta(seconds=30)


class Alarm(NamedTuple):
    """The callback that hears of critical errors, and how long an outage lasts until it is one.

    `lapses_after`: see `CircuitBreaker`, in seconds.
    """

    on_critical_error: OnCriticalError
    trigger_after: timedelta = TRIGGER_AFTER
    clock: Callable[[], float] = time.monotonic
    lapses_after: float | None = None


class Outage:
    """An outage of what only looks, and has nothing to give up: a line when it begins, and one when it is over."""

    def __init__(self, activity: str, logger: logging.Logger) -> None:
        """Begin without one."""
        self._activity = activity
        self._logger = logger
        self._failures = 0

    def failed(self, error: BaseException) -> None:
        """Note a failure, and report the first."""
        if not self._failures:
            self._logger.warning("%s fails; trying again until it works: %s", self._activity, error)
        self._failures += 1

    def succeeded(self) -> None:
        """Note a success; report the end of an outage."""
        if self._failures:
            self._logger.info("%s works again after %s.", self._activity, _count(self._failures))
        self._failures = 0


def _count(failures: int) -> str:
    return "1 failure" if failures == 1 else f"{failures} failures"


class ReportedBreaker:
    """Watches one activity."""

    def __init__(self, activity: str, failure: str, logger: logging.Logger, alarm: Alarm) -> None:
        """Begin disarmed. The log reads `<failure>; trying again…`, and later `<activity> works again…`."""
        self.failure = failure
        self.logger = logger
        self.activity = activity
        self.breaker = CircuitBreaker(
            alarm.trigger_after.total_seconds(), alarm.clock, lapses_after=alarm.lapses_after
        )
        self._on_critical_error = alarm.on_critical_error

    @property
    def is_failing(self) -> bool:
        """Whether an outage goes on: nothing has succeeded since, and it has not lapsed."""
        return self.breaker.is_armed

    def ended(self) -> None:
        """Note that nothing is tried any more: the service has stopped."""
        process.ended(self)

    def failed(self, error: BaseException) -> float:
        """Note a failure, report it if it is news, and return for how many seconds to wait."""
        outage = self.breaker.failed()
        if outage.critical:
            report(self._on_critical_error, self.failure, error, self.logger)
        elif outage.first:
            self.logger.warning("%s; trying again until it works: %s", self.failure, error)
            process.began(self)
        else:
            self.logger.debug("%s: %s", self.failure, error)
        return outage.wait

    def ended_unasked(self, name: str, error: BaseException) -> float:
        """Report that a loop of the activity ended, and return the seconds until it is to be begun anew."""
        text = f"{name} ended though nobody asked it to; it is begun anew"
        self.logger.critical("%s", text, exc_info=error)
        report(self._on_critical_error, text, error, self.logger)
        process.began(self)
        return self.breaker.failed().wait

    def succeeded(self) -> None:
        """Note a success; report the end of an outage."""
        if self.breaker.failures:
            process.ended(self)
            self.logger.info("%s works again after %s.", self.activity, _count(self.breaker.succeeded()))
