"""Critical errors: trouble that lasts, and that a person should look at.

Invariant: an error in the callback stops no service.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

logger = logging.getLogger("rowbus.receiving")

OnCriticalError = Callable[[str, BaseException], None]
"""Told, once for each outage, what fails and why."""


def report(callback: OnCriticalError, text: str, error: BaseException) -> None:
    """Call the callback; log what goes wrong in it."""
    try:
        callback(text, error)
    except Exception:
        logger.exception("The critical-error callback failed when it was told: %s", text)
