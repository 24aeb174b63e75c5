"""Permits to receive, which slots take from the current round.

Invariant: the round decides how many receives may start (`decisions/rounds.py`); slots wait here for their turn, and no
slot waits after `close`.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable

    from rowbus.transport.receiving.decisions.rounds import Round


class Travel(NamedTuple):
    """A permit for a receive that travels with a commit: for how many messages, and of which round."""

    most: int
    round: Round


class Permits:
    """The current round of one receiver, and the slots that wait for a permit. For one event loop."""

    def __init__(self) -> None:
        """Begin without a round: slots wait."""
        self._round: Round | None = None
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._over = asyncio.Event()
        self._only_travels = asyncio.Event()
        self._closed = False

    def open(self, current: Round) -> None:
        """Begin a round; once closed, it is over before it begins."""
        if self._closed:
            return
        self._round = current
        self._over.clear()
        self._only_travels.clear()
        self._wake(1)

    async def over(self) -> None:
        """Wait until the round is over: all its receives have been executed, or it was ended early."""
        await self._over.wait()

    async def only_travels(self) -> None:
        """Wait until it is over, or all it waits for are receives whose commits have not come through.

        A commit may wait for a table that another session has locked: that holds up one slot, and not the next round.
        """
        await self._only_travels.wait()

    def try_take(self, most: int) -> int:
        """Return how many messages may be received at once now, 0 for none."""
        return 0 if self._round is None or self._closed else self._round.try_start(most)

    def try_travel(self, most: int) -> Travel | None:
        """Return the permit for a receive that travels with a commit now; None for none."""
        if self._round is None or self._closed or not (granted := self._round.try_travel(most)):
            return None
        self._settle(0)
        return Travel(granted, self._round)

    def arrived(self, travel: Travel, found: int) -> None:
        """Note what a receive that travelled found, perhaps when its round is over."""
        travel.round.arrived(found)
        if travel.round is self._round:
            self._settle(2 if found else 0)

    async def take(self, most: int, wanted: Callable[[], bool]) -> int:
        """Wait until a receive may start and return for how many messages; 0 when closed or no longer wanted."""
        while not self._closed:
            if not wanted():
                self._wake(1)
                return 0
            granted = self.try_take(most)
            if granted:
                return granted
            await self._wait()
        return 0

    async def _wait(self) -> None:
        waiter = asyncio.get_running_loop().create_future()
        self._waiting.append(waiter)
        try:
            await waiter
        except asyncio.CancelledError:
            if waiter.done() and not waiter.cancelled():
                self._wake(1)  # pass our turn on to the next slot
            raise

    def received(self, found: int) -> None:
        """Note what a receive found, and let those go on who now may."""
        if self._round is not None:
            self._round.finished(found)
            self._settle(2 if found else 0)

    def close(self) -> None:
        """End the round and send all waiting slots away with nothing."""
        self._closed = True
        if self._round is not None:
            self._round.abandon()
        self._over.set()
        self._only_travels.set()
        self._wake(len(self._waiting))

    def wake_all(self) -> None:
        """Have every waiting slot look again, for example because fewer are wanted."""
        self._wake(len(self._waiting))

    def _settle(self, more: int) -> None:
        if self._round is None:
            return
        if self._round.only_travels:
            self._only_travels.set()
        if self._round.over:
            self._over.set()
        else:
            self._wake(more)

    def _wake(self, count: int) -> None:
        while count > 0 and self._waiting:
            waiter = self._waiting.popleft()
            if not waiter.done():
                waiter.set_result(None)
                count -= 1
