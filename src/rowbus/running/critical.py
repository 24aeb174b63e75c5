"""Critical errors: failures that last, or that need a person.

Invariant: an error in the callback stops no service.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

logger = logging.getLogger("rowbus.receiving")

OnCriticalError = Callable[[str, BaseException], None]
"""Takes, once for each outage, what fails and the error."""


def report(callback: OnCriticalError, text: str, error: BaseException, log: logging.Logger = logger) -> None:
    """Call the callback; log the error that it raises."""
    try:
        callback(text, error)
    except Exception:
        log.exception("The critical-error callback failed when it was told: %s", text)


def log_critical(logger: logging.Logger) -> OnCriticalError:
    """Return the callback of a service that was given none: it logs the error as CRITICAL."""

    def log(text: str, error: BaseException) -> None:
        logger.critical("%s", text, exc_info=error)

    return log
