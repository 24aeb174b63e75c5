"""An exception's traceback as Python prints it, source lines and all.

Invariant: total, and what Python's own `traceback.format_exception` returns.
"""

from __future__ import annotations

import traceback

from rowbus.transport.recoverability.exception_facts import writable


def python_traceback(error: BaseException) -> str:
    """Return the traceback of an exception and of those inside it; nothing for one of which Python cannot make any."""
    try:
        return writable("".join(traceback.format_exception(error)))
    except Exception:  # noqa: BLE001 - code of the user's, such as a `__str__`, may fail in ways Python does not expect
        return ""
