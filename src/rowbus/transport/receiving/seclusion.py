"""A message of which a process may have died is handled alone in its process: if that dies again, it is known why.

The others wait for that, but never for long: for `DRAIN` until what is in hand is done, for `LONGEST` while the suspect
is handled. Handlers that take longer go on beside each other.

What is known to have taken a process is not handled in the first `UNDISTURBED` of a process's work. Processes that die
of one such message after the other would otherwise live for milliseconds each, too short for the other messages and for
moving delayed ones.

Invariant: at most one suspect is handled at a time in a process, and none is put off for ever.
"""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

    from rowbus.work.book import Entry

UNDISTURBED: Final = 1.0  # seconds of work before a message that took a process
DRAIN: Final = 1.0  # seconds in which the messages in hand are to be done
LONGEST: Final = 10.0  # seconds for which others wait for a suspect
PUT_OFF: Final = 10.0  # seconds until the next try
TRIES: Final = 10  # after which a suspect is handled beside others


class Seclusion:
    """What is handled in this process, by all receivers of an endpoint. For one event loop."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """Begin with nothing in hand; `clock` counts seconds and never goes back."""
        self._clock = clock
        self._since: float | None = None  # when work began
        self._handled = 0
        self._suspect: Entry | None = None
        self._open = asyncio.Event()
        self._quiet = asyncio.Event()

    async def enter(self) -> None:
        """Begin to handle something, once no suspect is handled, or one has been for long."""
        self._begin()
        if self._suspect is not None:
            with suppress(TimeoutError):
                async with asyncio.timeout(LONGEST):
                    while not self._open.is_set():  # another may have come meanwhile
                        await self._open.wait()
        self._handled += 1

    def leave(self) -> None:
        """End what `enter` began."""
        self._handled -= 1
        if not self._handled:
            self._quiet.set()

    def _begin(self) -> float:
        """Return for how many seconds work has gone on."""
        now = self._clock()
        if self._since is None:
            self._since = now
        return now - self._since

    async def enter_alone(self, entry: Entry, failures: int) -> float:
        """Begin to handle a suspect that failed so often and return 0; else the seconds after which to try again."""
        worked = self._begin()
        if failures and worked < UNDISTURBED:
            return UNDISTURBED - worked
        if self._suspect is not None:
            return PUT_OFF
        self._suspect = entry
        self._open.clear()
        try:
            is_alone = await self._await_quiet() or entry.put_offs >= TRIES
        except BaseException:
            self.leave_alone()
            raise
        if is_alone:
            entry.put_offs = 0
            return 0.0
        entry.put_offs += 1
        self.leave_alone()
        return PUT_OFF

    def leave_alone(self) -> None:
        """End what `enter_alone` began."""
        self._suspect = None
        self._open.set()

    async def _await_quiet(self) -> bool:
        if self._handled:
            self._quiet.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(DRAIN):
                    await self._quiet.wait()
        return not self._handled
