"""The sessions that slots of several queues share: a slot leaves its own here between two turns.

Invariant: what is taken is idle, and belongs to one slot; what is left here is closed in the end.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from datetime import datetime

    from rowbus.database.sessions import AsyncSession, ReceiveSession


class Equipment(NamedTuple):
    """A slot's tools: its session, the one that sends in mode RECEIVE_ONLY, and since when their server runs."""

    session: ReceiveSession
    outbox: AsyncSession | None
    server: datetime | None

    async def close(self) -> None:
        """Close the sessions."""
        await self.session.close()
        if self.outbox is not None:
            await self.outbox.close()


class Shelf:
    """The idle sessions of one process. For one event loop."""

    def __init__(self) -> None:
        """Begin empty."""
        self._idle: list[Equipment] = []
        self._is_closed = False

    def take(self) -> Equipment | None:
        """Return what was left last, if it is still whole."""
        while self._idle:
            found = self._idle.pop()
            if not found.session.closed:
                return found
        return None

    async def put(self, equipment: Equipment) -> None:
        """Leave what a slot does not need now."""
        if self._is_closed:
            await equipment.close()
        else:
            self._idle.append(equipment)

    async def close(self) -> None:
        """Close what is here, and from now on what comes."""
        self._is_closed = True
        while self._idle:
            await self._idle.pop().close()
