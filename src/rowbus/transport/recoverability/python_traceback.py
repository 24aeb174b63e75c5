"""An exception's traceback as Python prints it, source lines and all.

Invariant: total, and what Python's own `traceback.format_exception` returns where that can make one.
"""

from __future__ import annotations

import traceback
from typing import Final

from rowbus.errors.exception_facts import calls_of, text_of, type_name, writable

MOST_CALLS: Final = 100  # where Python cannot make a traceback


def python_traceback(error: BaseException) -> str:
    """Return the traceback of an exception and of those inside it; its calls and text where Python cannot make any."""
    try:
        return writable("".join(traceback.format_exception(error)))
    except BaseException:  # noqa: BLE001 - code of the user's, such as a `__str__`, may fail in ways Python does not expect
        head = "Traceback (most recent call last):\n"
        calls = traceback.format_tb(calls_of(error), limit=MOST_CALLS)
        return writable("".join((head, *calls, f"{type_name(error)}: {text_of(error)}\n")))
