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
from operator import attrgetter
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Hashable, Mapping
    from datetime import datetime

    from rowbus.database.sessions import AsyncSession, ReceiveSession

SHORT: Final = 0.01
"""Seconds for which a turn goes on, though one waits that has rested or weighs: receives then travel with commits."""
LONG: Final = 0.1
"""Seconds for which it goes on, though others wait that have had their share; it counts as so many short ones."""


class Share:
    """The share that one lane has had of the turns, and who waits for its next."""

    def __init__(self, lane: Hashable, weight: int, *, is_heavy: bool) -> None:
        """Begin with nothing."""
        self.lane = lane
        self.is_heavy = is_heavy
        self.stride = 1 / weight
        self.passed = 0.0
        self.waiting: deque[asyncio.Future[None]] = deque()


_stride: Final = attrgetter("stride")


class Turn:
    """A turn of one lane."""

    def __init__(self, turns: Turns, share: Share) -> None:
        """Begin."""
        self._turns, self._share, self._began = turns, share, turns.clock()

    @property
    def lasts(self) -> float:
        """The seconds that it has lasted."""
        return self._turns.clock() - self._began

    @property
    def is_over(self) -> bool:
        """Whether the next unit is another lane's."""
        return self._turns.others_wait(self._share, self.lasts)


class Turns:
    """The turns of one process. For one event loop."""

    def __init__(
        self,
        weights: Mapping[Hashable, int],
        at_once: int,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Give lanes turns by their weights, so many at once; `clock` counts seconds and never goes back.

        Of those that weigh the same, and have had about as many, one whose session is on the shelf comes first.
        """
        self.clock = clock
        self.shelf = Shelf()
        least = min(weights.values())
        self._shares = {lane: Share(lane, each, is_heavy=each > least) for lane, each in weights.items()}
        self._waiting: dict[Share, None] = {}  # lanes that wait, as they came
        self._pressing: set[Share] = set()  # the heavy, and who came with less than others
        self._free = at_once
        self._at_once = at_once
        self._now = 0.0  # what the lane had had that was next the last time

    def change(self, at_once: int) -> None:
        """Have so many in hand at once from now on; what is in hand beyond that finishes first."""
        self._free += at_once - self._at_once
        self._at_once = at_once
        self._go_on()

    def others_wait(self, share: Share, seconds: float) -> bool:
        """Say whether a lane leaves the next unit to another after a turn of so many seconds."""
        if seconds < SHORT:
            return False
        waiting = self._waiting if seconds >= LONG else self._pressing
        return self._free < 0 or len(waiting) > (share in waiting)

    @asynccontextmanager
    async def turn(self, lane: Hashable) -> AsyncGenerator[Turn]:
        """Wait for a turn, and have it until the end."""
        share = self._shares[lane]
        await self._wait(share)
        turn = Turn(self, share)
        try:
            yield turn
        finally:
            self._free += 1
            if turn.lasts >= LONG:
                share.passed += share.stride * (LONG / SHORT - 1)
            # not before whose turn this was could ask for the next: it may be the most urgent still
            asyncio.get_running_loop().call_soon(self._go_on)

    async def _wait(self, share: Share) -> None:
        if self._free > 0 and not self._waiting:
            self._now = max(self._now, share.passed)
            self._give(share)
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        share.waiting.append(turn)
        self._waiting[share] = None
        if share.is_heavy or share.passed < self._now:
            self._pressing.add(share)
        try:
            await turn
        except asyncio.CancelledError:
            if turn in share.waiting:
                self._leave(share, turn)
            elif not turn.cancelled():  # its waiter has gone, to whom it was given
                self._free += 1
                self._go_on()
            raise

    def _leave(self, share: Share, turn: asyncio.Future[None]) -> None:
        share.waiting.remove(turn)
        if not share.waiting:
            del self._waiting[share]
            self._pressing.discard(share)

    def _give(self, share: Share) -> None:
        self._free -= 1
        share.passed = max(share.passed, self._now) + share.stride
        if not share.is_heavy:
            self._pressing.discard(share)

    def _go_on(self) -> None:
        while self._free > 0 and self._waiting:
            share = self._next()
            turn = share.waiting[0]
            self._leave(share, turn)
            if not turn.done():
                self._give(share)
                turn.set_result(None)

    def _next(self) -> Share:
        """Return, of the lanes that wait, one that has had least, and of several the one that weighs most.

        Unless it presses, one whose session is at hand comes before it: of its weight, a long turn ahead at most.
        """
        self._now = max(self._now, min(share.passed for share in self._waiting))
        first = min((share for share in self._waiting if share.passed <= self._now), key=_stride)
        if first in self._pressing:
            return first
        ahead = self._now + first.stride * LONG / SHORT
        near = (share for share in self._waiting if share.stride == first.stride and share.passed <= ahead)
        return next((share for share in near if self.shelf.has(share.lane)), first)


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

    A lane has the session again that it had last, if that is here: the server has the plans of its statements.
    """

    def __init__(self) -> None:
        """Begin empty."""
        self._idle: dict[ReceiveSession | None, Equipment] = {}
        self._own: dict[Hashable, ReceiveSession] = {}
        self._is_closed = False

    def has(self, lane: Hashable) -> bool:
        """Say whether a lane's own session is here."""
        return self._own.get(lane) in self._idle

    def take(self, lane: Hashable) -> Equipment | None:
        """Return a lane's own, or what was left last, if it is still whole."""
        while self._idle:
            found = self._idle.pop(self._own.get(lane), None) or self._idle.popitem()[1]
            if not found.session.closed:
                return found
        return None

    async def put(self, lane: Hashable, equipment: Equipment) -> None:
        """Leave what a lane does not need now."""
        self._own[lane] = equipment.session
        if self._is_closed:
            await equipment.close()
        else:
            self._idle[equipment.session] = equipment

    async def close(self) -> None:
        """Close what is here, and from now on what comes."""
        self._is_closed = True
        while self._idle:
            await self._idle.popitem()[1].close()
