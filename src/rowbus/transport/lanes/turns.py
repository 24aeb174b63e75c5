"""The turns of lanes that share a process: which of those that wait is next, and the sessions that their slots share.

Each lane has a share of the turns by its weight while several wait (stride scheduling: Waldspurger and Weihl, 1995). A
lane that comes after a rest begins where the others are: it cannot save turns up. Between two turns a slot leaves its
sessions on the shelf.

Invariants: at most so many turns are in hand at a time; no lane that waits is passed over for ever. A session that is
taken is idle, and belongs to one slot; one that is left is closed in the end.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Hashable, Mapping
    from datetime import datetime

    from rowbus.database.sessions import AsyncSession, ReceiveSession

LASTS: Final = 0.01
"""Seconds for which a turn goes on, though others wait: a receive then travels with each commit."""


class Turn:
    """A turn of one lane."""

    def __init__(self, turns: Turns, lane: Hashable, ends: float) -> None:
        """Begin; it is to end then, if others wait."""
        self._turns, self._lane, self._ends = turns, lane, ends

    @property
    def is_over(self) -> bool:
        """Whether the next unit is another lane's."""
        return self._turns.clock() >= self._ends and self._turns.others_wait(self._lane)


class Turns:
    """The turns of one process. For one event loop."""

    def __init__(
        self,
        weights: Mapping[Hashable, int],
        at_once: int,
        clock: Callable[[], float] = time.monotonic,
        is_at_hand: Callable[[Hashable], bool] = lambda _lane: False,
    ) -> None:
        """Give lanes turns by their weights, so many at once; `clock` counts seconds and never goes back.

        Of those that have had equally many, one whose session `is_at_hand` comes first.
        """
        self.clock = clock
        self._is_at_hand = is_at_hand
        self._strides = {lane: 1 / weight for lane, weight in weights.items()}
        self._passes = dict.fromkeys(weights, 0.0)
        self._waiting: dict[Hashable, deque[asyncio.Future[None]]] = {lane: deque() for lane in weights}
        self._free = at_once
        self._at_once = at_once
        self._now = 0.0  # the pass of the lane that had the last turn

    def change(self, at_once: int) -> None:
        """Have so many in hand at once from now on; what is in hand beyond that finishes first."""
        self._free += at_once - self._at_once
        self._at_once = at_once
        self._go_on()

    def others_wait(self, lane: Hashable) -> bool:
        """Say whether a lane that has a turn is to leave the next to another."""
        return self._free < 0 or any(queue for other, queue in self._waiting.items() if other != lane)

    @asynccontextmanager
    async def turn(self, lane: Hashable) -> AsyncGenerator[Turn]:
        """Wait for a turn, and have it until the end."""
        await self._wait(lane)
        try:
            yield Turn(self, lane, self.clock() + LASTS)
        finally:
            self._free += 1
            # not before whose turn this was could ask for the next: it may be the most urgent still
            asyncio.get_running_loop().call_soon(self._go_on)

    async def _wait(self, lane: Hashable) -> None:
        if self._free > 0 and not any(self._waiting.values()):
            self._give(lane)
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting[lane].append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():  # it was given, and nobody takes it
                self._free += 1
                self._go_on()
            else:
                self._waiting[lane].remove(turn)
            raise

    def _give(self, lane: Hashable) -> None:
        self._free -= 1
        self._now = max(self._passes[lane], self._now)
        self._passes[lane] = self._now + self._strides[lane]

    def _go_on(self) -> None:
        while self._free > 0 and (lane := self._next()) is not None:
            turn = self._waiting[lane].popleft()
            if not turn.done():
                self._give(lane)
                turn.set_result(None)

    def _next(self) -> Hashable | None:
        """Return the lane that waits and has had least."""
        waiting = {lane: self._passes[lane] for lane, queue in self._waiting.items() if queue}
        least = max(min(waiting.values(), default=0.0), self._now)
        first = [lane for lane, passed in waiting.items() if passed <= least]
        return next(filter(self._is_at_hand, first), first[0] if first else None)


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
    """The idle sessions of one process. For one event loop.

    A lane has the session again that it had first, if that is here: the server has the plans of its statements.
    """

    def __init__(self) -> None:
        """Begin empty."""
        self._idle: list[Equipment] = []
        self._own: dict[Hashable, ReceiveSession] = {}
        self._is_closed = False

    def has(self, lane: Hashable) -> bool:
        """Say whether a lane's own session is here."""
        own = self._own.get(lane)
        return own is not None and any(each.session is own for each in self._idle)

    def take(self, lane: Hashable) -> Equipment | None:
        """Return a lane's own, or what was left last, if it is still whole."""
        own = self._own.get(lane)
        self._idle.sort(key=lambda each: each.session is own)
        while self._idle:
            found = self._idle.pop()
            if not found.session.closed:
                return found
        return None

    async def put(self, lane: Hashable, equipment: Equipment) -> None:
        """Leave what a lane does not need now."""
        own = self._own.get(lane)
        if own is None or own.closed:
            self._own[lane] = equipment.session
        if self._is_closed:
            await equipment.close()
        else:
            self._idle.append(equipment)

    async def close(self) -> None:
        """Close what is here, and from now on what comes."""
        self._is_closed = True
        while self._idle:
            await self._idle.pop().close()
