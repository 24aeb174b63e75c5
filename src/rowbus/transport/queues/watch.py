"""One receiver's place at the lookout: how its queue is looked into, and what the lookout told it.

Invariant: what wakes the receiver is told once; a failure is raised where the receiver waits.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

    from rowbus.database.statements import Statement
    from rowbus.transport.queues.lookout import Lookout, Watched


class QueueWatch:
    """What waits for messages of one queue. For one event loop."""

    def __init__(
        self,
        lookout: Lookout,
        table: Watched,
        look: Callable[[], Statement[int]],
        looked: Callable[[int, float], float],
        woken: asyncio.Event,
        *,
        ended_unasked: Callable[[str, BaseException], float],
    ) -> None:
        """Wait at the lookout; `woken` ends a wait, `ended_unasked` hears of a lookout that did. No I/O."""
        self.table, self.look, self.looked = table, look, looked
        self._lookout = lookout
        self._woken = woken
        self.ended_unasked = ended_unasked
        self._is_woken = False
        self._error: Exception | None = None

    def take(self) -> bool:
        """Say whether the lookout saw or heard something since this was asked last."""
        taken, self._is_woken = self._is_woken, False
        return taken

    async def wait(self, seconds: float) -> None:
        """Wait for a message, or until `woken` is set; the first look is in so many seconds.

        Raises what looking raised.
        """
        self._lookout.wait(self, seconds)
        try:
            await self._woken.wait()
        finally:
            self._lookout.ignore(self)
        error, self._error = self._error, None
        if error is not None:
            raise error

    @property
    def patience(self) -> float:
        """How long, in seconds, one of those who share the lookout may keep a connection idle."""
        return self._lookout.patience

    def mute(self) -> None:
        """Have the server not notify while the queue is busy."""
        self._lookout.mute(self)

    async def leave(self) -> None:
        """Give the place up, until the next wait."""
        await self._lookout.leave(self)

    def wake(self) -> None:
        """Hear that there is something, perhaps."""
        self._is_woken = True
        self._woken.set()

    def fail(self, error: Exception) -> None:
        """Hear that the looks have ended, and why."""
        self._error = error
        self._woken.set()
