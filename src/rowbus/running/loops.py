"""Loops that go on until they are told to end.

Invariant: a loop that ends unasked is reported and begun anew; none ends without a line in the log.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from rowbus.running.waiting import cancel, pause

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from rowbus.running.reported_breaker import ReportedBreaker


async def keep(
    loop: Callable[[], Coroutine[Any, Any, None]],
    name: str,
    outages: ReportedBreaker,
    stopping: asyncio.Event,
) -> None:
    """Run a loop, in a task of that name, until it returns; begin it anew after an exception or a cancellation.

    Only a cancellation of this coroutine cancels the loop for good: code that the loop calls cannot reach its task.
    """
    while True:
        task = asyncio.create_task(loop(), name=name)
        try:
            await asyncio.wait([task])
        finally:
            await cancel([task])
        if not task.cancelled() and task.exception() is None:
            return
        await pause(stopping, outages.ended_unasked(name, _cause(task)))


def _cause(task: asyncio.Task[None]) -> BaseException:
    return (
        asyncio.CancelledError("It was cancelled.")
        if task.cancelled()
        else task.exception() or RuntimeError()
    )
