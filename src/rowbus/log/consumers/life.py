"""Signs of life of the process that consumes: its leading session speaks now and then while handlers work.

The server ends a session that is silent for too long (`limit_silence.sql`), and another process leads. The same
question, whether the session lives, tells a connection that was lost by the events in hand from a server that is away.

Invariant: the session is asked only while the consumer does not use it, by one asker at a time.
"""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final

from rowbus.errors import StorageError
from rowbus.running.waiting import pause

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator

    from rowbus.database.sessions import AsyncSession
    from rowbus.database.statements import Statement
    from rowbus.log.consumers.batch_reader import Chunk

BEATS: Final = 4
"""Signs of life in the silence after which a session is ended."""

ANSWER: Final = 5.0
"""Seconds in which a session that lives answers."""


class Life:
    """The signs of life of one session, which leads."""

    def __init__(self, session: AsyncSession, alive: Statement[bool], silence: float | None) -> None:
        """Take the session, the question, and the seconds of silence that end the session (None: none do). No I/O."""
        self._session = session
        self._alive = alive
        self._period = None if silence is None else silence / BEATS
        self._lock = asyncio.Lock()

    async def is_alive(self) -> bool:
        """Ask whether the session lives; waits for `ANSWER` seconds at most."""
        async with self._lock:
            try:
                async with asyncio.timeout(ANSWER):
                    return await self._session.run(self._alive)
            except (StorageError, TimeoutError):
                return False

    async def reading(self, chunks: AsyncIterator[Chunk]) -> AsyncGenerator[Chunk]:
        """Give what is read through the session, inside a block that beats."""
        while True:
            async with self._lock:
                try:
                    chunk = await anext(chunks)
                except StopAsyncIteration:
                    return
            yield chunk

    @asynccontextmanager
    async def beating(self) -> AsyncGenerator[None]:
        """Give signs of life in a block, which uses the session only by `reading`; a short block costs nothing."""
        if self._period is None:
            yield
            return
        done, beats = asyncio.Event(), list[asyncio.Task[None]]()
        timer = asyncio.get_running_loop().call_later(
            self._period,
            lambda: beats.append(asyncio.create_task(self._beat(done), name="rowbus signs of life")),
        )
        try:
            yield
        finally:
            timer.cancel()
            done.set()
            await asyncio.gather(*beats)

    async def _beat(self, done: asyncio.Event) -> None:
        while not done.is_set() and await self.is_alive():
            await pause(done, self._period or 0)
