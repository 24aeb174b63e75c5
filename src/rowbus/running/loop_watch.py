"""A watch on the event loop: it names, once each, the handlers that block it for more than a second.

A thread looks at what the loop's thread is doing. If that does not rest, the loop is asked to answer; if it does not,
its stack says who blocks it. So a handler that does not block pays nothing, and a loop that rests is not woken. All
endpoints and logs of one loop share the thread.

Invariant: the thread only looks, asks and logs; it ends with the last `stop`, with the loop, or with the process.
"""

from __future__ import annotations

import asyncio
import logging
import sys
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from types import FrameType

PERIOD: Final = 0.25  # seconds between two looks
# Looks at which the loop has not answered: more than a second, in which this thread could run.
BLOCKED: Final = 5


class Blocking(NamedTuple):
    """A handler that blocks the loop: its name, and the place where it stands."""

    name: str
    place: str


class LoopWatch:
    """Watches the handlers of one endpoint or log from `start` to `stop`, both called on their event loop."""

    def __init__(self, callers: Sequence[str], logger: logging.Logger) -> None:
        """Watch the functions that are called from these files, by the ends of their names."""
        self._callers = tuple(callers)
        self._logger = logger
        self._told: set[str] = set()
        self._pulse: _Pulse | None = None

    def start(self) -> None:
        """Begin; harmless when begun."""
        if self._pulse is None:
            self._pulse = _pulse_of(asyncio.get_running_loop())
            self._pulse.watches = (*self._pulse.watches, self)

    def stop(self) -> None:
        """End; harmless when ended."""
        if self._pulse is not None:
            pulse, self._pulse = self._pulse, None
            pulse.watches = tuple(watch for watch in pulse.watches if watch is not self)
            if not pulse.watches:
                pulse.end()

    def names(self, frame: FrameType | None) -> bool:
        """Name the handler that stands on the loop's stack, once; false if none of this watch's does."""
        found = blocking(frame, self._callers)
        if found is not None and found.name not in self._told:
            self._told.add(found.name)
            self._logger.warning(
                "%s blocks the event loop for more than a second, and with it all other handlers, at %s. Await what it "
                "waits for, or make it a `def`, which runs in a thread",
                *found,
            )
        return found is not None


class _Pulse:
    """The thread that watches one event loop, for all that want it watched; made on the loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        """Begin with none that watch."""
        self.watches: tuple[LoopWatch, ...] = ()  # a new tuple for each change, because the thread reads it
        self._loop = loop
        self._answered = True
        self._end = threading.Event()
        name, thread = "rowbus loop watch", threading.get_ident()
        threading.Thread(target=self._watch, args=(thread,), name=name, daemon=True).start()

    def end(self) -> None:
        """End the thread; who watches the loop next begins anew."""
        self._end.set()
        _pulses.pop(self._loop, None)

    def _watch(self, thread: int) -> None:
        looks = 0
        while not (self._end.wait(PERIOD) or self._loop.is_closed()):
            looks = 0 if self._moves(thread) else looks + 1
            if looks == BLOCKED:
                frame = _current_frame(thread)
                next((watch for watch in self.watches if watch.names(frame)), None)  # the first that knows it
        if not self._end.is_set():  # a loop that was closed under those that watch
            _pulses.pop(self._loop, None)

    def _moves(self, thread: int) -> bool:
        """Say whether the loop has answered; ask it again, unless it rests."""
        if not self._answered:
            return False
        if not rests(_current_frame(thread)):
            self._answered = False
            with suppress(RuntimeError):  # the loop was closed just now
                self._loop.call_soon_threadsafe(self._answer)
        return True

    def _answer(self) -> None:
        self._answered = True


_pulses: dict[asyncio.AbstractEventLoop, _Pulse] = {}


def _pulse_of(loop: asyncio.AbstractEventLoop) -> _Pulse:
    return _pulses.get(loop) or _pulses.setdefault(loop, _Pulse(loop))


def rests(frame: FrameType | None) -> bool:
    """Say whether a loop's thread waits for events; false for a handler that does, and where none is seen."""
    if frame is None or frame.f_back is None:
        return False
    return frame.f_globals.get("__name__") == "selectors" and frame.f_back.f_code.co_name == "_run_once"


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
