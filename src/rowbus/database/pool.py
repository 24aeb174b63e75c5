"""A few sessions, shared by work that needs one now and then.

Invariant: what is lent is idle and in autocommit mode, and what comes back otherwise is closed.
"""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from time import monotonic
from typing import TYPE_CHECKING, Final

from rowbus.errors import ConnectionLostError
from rowbus.running.telemetry.instruments import instruments

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from rowbus.database.sessions import AsyncSession, Database

PATIENCE: Final = 30.0  # seconds that a borrower waits


class SessionPool:
    """A few sessions, shared by work that needs one now and then, such as immediate sends.

    Not a driver's pool: psycopg's connects in the background, ever more slowly while the server is away, so that its
    borrowers would wait for minutes after the server has come back. Here who needs a connection makes it.
    """

    def __init__(self, database: Database, *, size: int) -> None:
        """Lend at most `size` sessions at a time; more wait. No I/O."""
        self._database = database
        self._size = size
        self._permits = asyncio.Semaphore(size)
        self._idle: list[AsyncSession] = []
        self._lending = False

    async def open(self) -> None:
        """Start lending."""
        self._lending = True

    @asynccontextmanager
    async def session(self) -> AsyncGenerator[AsyncSession]:
        """Lend a session in autocommit mode, waiting for one for up to 30 s; raises ConnectionLostError."""
        await self._await_permit()
        try:
            session = await self._usable() or await self._database.connect_sender()
            try:
                yield session
            except Exception as error:
                ours = self._database.fault(error)
                if ours is None:
                    raise
                raise ours from error
            finally:
                await self._take_back(session)
        finally:
            self._permits.release()

    async def _await_permit(self) -> None:
        if not self._permits.locked():
            await self._permits.acquire()
            return
        measured = instruments()
        started = monotonic()
        try:
            async with asyncio.timeout(PATIENCE):
                await self._permits.acquire()
        except TimeoutError:
            raise ConnectionLostError(
                f"None of the {self._size} connections for sends outside of the receive transaction became free within "
                f"{PATIENCE:.0f} s: a higher concurrency has more of them.",
                sqlstate=None,
                transient=True,
            ) from None
        finally:
            if measured is not None:
                measured.pool_waits.add()
                measured.pool_wait_seconds.add(amount=monotonic() - started)

    async def _usable(self) -> AsyncSession | None:
        """Return an idle session that the server has not ended since, as it does when it is restarted."""
        while self._idle:
            session = self._idle.pop()
            if not session.has_ended():
                return session
            await session.close()
        return None

    async def close(self) -> None:
        """Close the sessions; those lent are closed when they come back."""
        self._lending = False
        await self._close_idle()

    async def _take_back(self, session: AsyncSession) -> None:
        """Keep the session for the next; if it has broken, the idle ones have too: have them all replaced."""
        if self._lending and session.is_idle:
            self._idle.append(session)
            return
        broken = session.closed
        await session.close()
        if broken:
            await self._close_idle()

    async def _close_idle(self) -> None:
        idle, self._idle = self._idle, []
        for session in idle:
            await session.close()
