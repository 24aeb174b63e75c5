"""An exception's traceback as Python prints it, source lines and all.

Python reads each frame's lines and parses them for its markers anew: 15 µs a frame, and a dozen frames stand between a
receiver and a handler. The text of a frame is the same each time, so it is made once.

Invariant: total, and what Python's own `traceback.format_exception` returns.
"""

from __future__ import annotations

import operator
import traceback
from typing import TYPE_CHECKING, Final

from rowbus.errors.exception_facts import calls_of, inner_exception, text_of, type_name, writable

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import CodeType, TracebackType

MOST_CALLS: Final = 100  # where Python cannot make a traceback
MOST_KEPT: Final = 1_024  # frames whose text is kept; then all are made anew
LONGEST_KEPT: Final = 4_096  # characters of such a text
_HEAD: Final = "Traceback (most recent call last):\n"


def python_traceback(error: BaseException) -> str:
    """Return the traceback of an exception and of those inside it; its calls and text where Python cannot make any."""
    try:
        frames = _frames(calls_of(error)) if inner_exception(error) is None else None
        if frames is None:
            return writable("".join(traceback.format_exception(error)))
        return writable("".join((_HEAD, *frames, *traceback.format_exception_only(error))))
    except BaseException:  # noqa: BLE001 - code of the user's, such as a `__str__`, may fail in ways Python does not expect
        calls = traceback.format_tb(calls_of(error), limit=MOST_CALLS)
        return writable("".join((_HEAD, *calls, f"{type_name(error)}: {text_of(error)}\n")))


def _frames(first: TracebackType | None) -> list[str] | None:
    """Return the text of each frame; None if there are none, or if a call repeats itself: that is told in brief."""
    calls = list(_walk(first))
    places = [(one.tb_frame.f_code, one.tb_lineno) for one in calls]
    if any(map(operator.eq, places, places[1:])):
        return None
    return [_texts.of(one) for one in calls] or None


def _walk(one: TracebackType | None) -> Iterator[TracebackType]:
    while one is not None:
        yield one
        one = one.tb_next


class _Texts:
    """Texts of frames, by code and place in it. A code object is kept with its text, so that its id stays its own."""

    def __init__(self) -> None:
        self._kept: dict[tuple[int, int], tuple[CodeType, str]] = {}

    def of(self, one: TracebackType) -> str:
        """Return the text of a traceback's first frame."""
        code = one.tb_frame.f_code
        key = (id(code), one.tb_lasti)
        if (kept := self._kept.get(key)) is not None:
            return kept[1]
        text = "".join(traceback.format_tb(one, limit=1))
        if len(text) <= LONGEST_KEPT:
            if len(self._kept) >= MOST_KEPT:
                self._kept.clear()
            self._kept[key] = (code, text)
        return text


_texts = _Texts()
