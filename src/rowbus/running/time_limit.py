"""The time limit of one call of a handler.

An `async def` is cancelled when its time is over, and may catch that to put things in order; one that goes on after
`GRACE` is closed where it waits. A `def` cannot be cancelled: its thread is left to itself (`Threads.run`).

Invariant: a call that returns or raises in time is not touched.
"""

from __future__ import annotations

import asyncio
import logging
import types
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from rowbus.errors import TimeLimitExceededError

if TYPE_CHECKING:
    from collections.abc import Coroutine, Generator
    from datetime import timedelta

logger = logging.getLogger("rowbus.endpoint")

GRACE: Final = 1.0
"""Seconds in which a handler that is cancelled has to end."""

GIVE_UP: Final = "give it up"
"""The text of a cancellation after which a call in a thread is left to itself (`Threads.run`)."""
CLOSE: Final = "close it"
"""The text of one after which a coroutine is closed where it waits, because it goes on when it is cancelled."""


def urgency(times: int) -> str:
    """Return the text of the cancellation of a call that is cancelled for the nth time."""
    return ("", GIVE_UP, CLOSE)[min(times, 3) - 1]


async def within(limit: timedelta, work: Coroutine[Any, Any, object], name: str) -> object:
    """Run a coroutine, and end it when its time is over; raises TimeLimitExceededError, and what it raises."""
    task = asyncio.current_task()
    assert task is not None  # noqa: S101 - coroutines run in tasks here
    return await _LimitedCall(limit, work, name, task).run()


class _LimitedCall:
    """One call with a time limit."""

    def __init__(
        self, limit: timedelta, work: Coroutine[Any, Any, object], name: str, task: asyncio.Task[Any]
    ) -> None:
        self._limit = limit
        self._work = work
        self._name = name
        self._task = task
        self._loop = asyncio.get_running_loop()
        self._is_seen = True  # the cancellation, by the coroutine
        self._cancelled = 0  # times

    @types.coroutine
    def _advance(self, work: Coroutine[Any, Any, object]) -> Generator[Any, Any, object]:
        """Wait for what the coroutine waits for, and advance it; close it when it is cancelled a second time."""
        resume = partial(work.send, None)
        while True:
            try:
                awaited = resume()
            except StopIteration as end:
                return end.value
            try:
                resume = partial(work.send, (yield awaited))
            except GeneratorExit:
                work.close()
                raise
            except BaseException as error:
                self._is_seen = True
                if self._cancelled > 1:
                    self._close()
                    raise exceeded(self._name, self._limit, "went on when it was cancelled") from error
                resume = partial(work.throw, error)

    async def run(self) -> object:
        """Run the coroutine to its end."""
        self._timer = self._loop.call_later(self._limit.total_seconds(), self._cancel)
        try:
            return await self._advance(self._work)
        except asyncio.CancelledError as error:
            if self._cancelled:
                raise exceeded(self._name, self._limit) from error
            raise
        finally:
            self._timer.cancel()
            await self._take_back()

    def _cancel(self) -> None:
        self._cancelled += 1
        self._is_seen = False
        self._timer = self._loop.call_later(GRACE, self._cancel)
        self._task.cancel()

    def _close(self) -> None:
        try:
            self._work.close()
        except RuntimeError:  # it waits once more in a `finally`, and is left there
            logger.warning(
                "%s does not end: it waits in a `finally` for longer than its time limit", self._name
            )

    async def _take_back(self) -> None:
        """Take our cancellations back; one that came at the very end is thrown here, and forgotten."""
        if not self._is_seen:
            with suppress(asyncio.CancelledError):
                await asyncio.sleep(0)
        for _time in range(self._cancelled):
            self._task.uncancel()


def exceeded(name: str, limit: timedelta, more: str = "is ended") -> TimeLimitExceededError:
    """Return the error of a call that took longer than it may."""
    return TimeLimitExceededError(
        f"{name} runs for longer than its time limit ({limit}), and {more}; what it did is undone.",
        handler=name,
        limit=limit,
    )
