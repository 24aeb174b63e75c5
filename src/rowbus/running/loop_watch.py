"""A watch on the event loop: it names, once each, the handlers that block it for more than a second.

A timer of the loop counts; a thread sees that it does not, and looks at what the loop's thread is doing. So a handler
that does not block pays nothing.

Invariant: the thread only looks and logs; it ends with `stop`, or with the process.
"""

from __future__ import annotations

import asyncio
import logging
import sys
import threading
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from types import FrameType

PERIOD: Final = 0.25  # seconds between two looks
BLOCKED: Final = (
    5  # looks at which the loop has not moved: more than a second, in which this thread could run
)


class Blocking(NamedTuple):
    """A handler that blocks the loop: its name, and the place where it stands."""

    name: str
    place: str


class LoopWatch:
    """Watches one event loop from `start` to `stop`, both called on it."""

    def __init__(self, callers: Sequence[str], logger: logging.Logger) -> None:
        """Watch the functions that are called from these files, by the ends of their names."""
        self._callers = tuple(callers)
        self._logger = logger
        self._told: set[str] = set()
        self._beats = 0
        self._timer: asyncio.TimerHandle | None = None
        self._end = threading.Event()

    def start(self) -> None:
        """Begin; harmless when begun."""
        if self._timer is None:
            self._end.clear()
            self._beat()
            watching = threading.Thread(
                target=self._watch, args=(threading.get_ident(),), name="rowbus loop watch", daemon=True
            )
            watching.start()

    def stop(self) -> None:
        """End; harmless when ended."""
        self._end.set()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _beat(self) -> None:
        self._beats += 1
        self._timer = asyncio.get_running_loop().call_later(PERIOD / 2, self._beat)

    def _watch(self, thread: int) -> None:
        seen, looks = 0, 0
        while not self._end.wait(PERIOD):
            seen, looks = (seen, looks + 1) if seen == self._beats else (self._beats, 0)
            if looks == BLOCKED and (found := blocking(_current_frame(thread), self._callers)):
                self._tell(found)

    def _tell(self, found: Blocking) -> None:
        if found.name not in self._told:
            self._told.add(found.name)
            self._logger.warning(
                "%s blocks the event loop for more than a second, and with it all other handlers, at %s. Await what it "
                "waits for, or make it a `def`, which runs in a thread",
                *found,
            )


def blocking(frame: FrameType | None, callers: tuple[str, ...]) -> Blocking | None:
    """Return the function on a stack that was called from one of these files, None if there is none."""
    stack = list(_stack(frame))
    for position, one in enumerate(stack):
        if position and one.f_code.co_filename.endswith(callers):
            handler = stack[position - 1]
            code = handler.f_code
            module = handler.f_globals.get("__name__", "")
            return Blocking(f"{module}.{code.co_qualname}", f"{code.co_filename}, line {handler.f_lineno}")
    return None


def _current_frame(thread: int) -> FrameType | None:
    return sys._current_frames().get(thread)  # noqa: SLF001  # pyright: ignore[reportPrivateUsage] - documented


def _stack(frame: FrameType | None) -> Iterator[FrameType]:
    """Give a stack's frames, the innermost first."""
    while frame is not None:
        yield frame
        frame = frame.f_back
