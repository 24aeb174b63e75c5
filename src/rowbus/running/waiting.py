"""Waits that an event or a notification cuts short.

Invariant: however a wait ends, it leaves no task running.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence


class Listener(Protocol):
    """A session that hears notifications."""

    async def notified(self, timeout: float) -> bool:  # noqa: ASYNC109 - the session's own
        """Wait for a notification, at most so many seconds."""
        raise NotImplementedError


async def pause(event: asyncio.Event, seconds: float) -> None:
    """Wait for an event, at most so many seconds."""
    # Not `wait_for`: before Python 3.12 that forgets a cancellation which comes together with the event.
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await event.wait()


async def pause_unless_notified(session: Listener, event: asyncio.Event, seconds: float) -> None:
    """Wait for a notification or an event, at most so many seconds. Raises ConnectionLostError."""
    hearing = asyncio.ensure_future(session.notified(seconds))
    waiting = asyncio.ensure_future(event.wait())
    try:
        await asyncio.wait([hearing, waiting], return_when=asyncio.FIRST_COMPLETED)
        if hearing.done():
            hearing.result()
    finally:
        await cancel([hearing, waiting])


async def finish(tasks: Sequence[asyncio.Future[Any]], timeout: float | None) -> None:  # noqa: ASYNC109 - a grace period
    """Wait for tasks to end; cancel them after `timeout` seconds, or when the caller is cancelled."""
    try:
        await asyncio.wait(tasks, timeout=timeout)
    finally:
        await cancel(tasks)


async def cancel(tasks: Sequence[asyncio.Future[Any]]) -> None:
    """Cancel tasks, and wait for them to end."""
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
