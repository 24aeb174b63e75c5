"""Critical errors: failures that last, or that need a person.

Invariant: an error in the callback stops no service; one that ends the program, as `sys.exit` does, ends it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from rowbus.errors.exception_facts import exc_info_of
from rowbus.running.given_functions import check_function, is_unawaited

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
    """Return the callback of a service that was given none: it logs the error as CRITICAL."""

    def log(text: str, error: BaseException) -> None:
        logger.critical("%s", text, exc_info=exc_info_of(error))

    return log
