"""The rounds of a receiver: how it learns that its queue has messages, and the permits to receive, which slots take.

It learns that by a session of its own, or at the lookout that several share. A look locks nothing and waits for nothing
but the server. Who works listens for no notifications: they would only cost.

A message that may have taken its process is handled alone in this one. The others wait for that, but never for long:
for `DRAIN` until what is in hand is done, for `LONGEST` while the suspect is handled. Handlers that take longer go on
beside each other. One that is known to have taken a process is not handled in the first `UNDISTURBED` of a process's
work. Processes that die of one such message after the other would otherwise live for milliseconds each, too short for
the other messages and for moving delayed ones.

Invariants: between two looks a receiver rests until it is woken, it hears a notification, or the next look is due; what
a look found is noted once, with the position and the time at which it began. The round decides how many receives may
start (`decisions.py`); slots wait here for their turn, and no slot waits after `close`. At most one suspect is handled
at a time in a process, and none is put off for ever.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections import deque
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Final, NamedTuple

from rowbus.database.sessions import connected
from rowbus.running.backoff import LookPauses, jittered
from rowbus.running.waiting import pause
from rowbus.transport.queues.lookout import QueueWatch, lookout_of
from rowbus.transport.receiving.decisions import FROM_THE_START, LowerBound, Round

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable
    from contextlib import AbstractAsyncContextManager

    from rowbus.database.sessions import AsyncSession, Database
    from rowbus.database.statements import Statement
    from rowbus.messages.message import MessageRow
    from rowbus.running.critical import ReportedBreaker
    from rowbus.transport.queues.lookout import Lookout
    from rowbus.transport.queues.table import QueueTable
    from rowbus.work.book import Entry

PEEKED_WITHIN: Final = 30.0  # seconds after which a server that has taken a peek and does not answer is away


class QueueLooks:
    """The looks at one queue: when they are due, from where, and what they taught."""

    def __init__(
        self, table: QueueTable, longest_pause: float, woken: asyncio.Event, outages: ReportedBreaker
    ) -> None:
        """Look at a table at least every so many seconds; `woken` ends a rest, `outages` hears of each look."""
        self.table = table
        self.clock = time.monotonic
        self.bound = LowerBound(self.clock)
        self.woken = woken
        self.pauses = LookPauses(longest_pause)
        self.outages = outages
        self._from = FROM_THE_START  # where the last look began

    def statement(self) -> Statement[int]:
        """Begin a look: say whether anything can be received."""
        self._from = self.bound.value()
        return self.table.count_available(1, self._from)

    def looked(self, found: int, seconds: float) -> float:
        """End a look that took so long, and return for how many seconds to rest.

        One that found something teaches nothing: the first receive notes where.
        """
        if not found:
            self.bound.looked(self._from, self.clock() - seconds, None)
        if self.outages.breaker.failures:
            self.outages.succeeded()
        return self.pause()

    def pause(self) -> float:
        """Return for how many seconds to rest."""
        return jittered(self.pauses.following(), random.random)


class OwnPeeking:
    """Looks on a session of its own, as often as the settings say: nothing notifies it."""

    patience = None
    """The time, in seconds, that an idle slot keeps its connections; None: for ever."""

    def __init__(self, database: Database, looks: QueueLooks) -> None:
        """Look at a queue of this database. No I/O."""
        self._database = database
        self._looks = looks
        self._pause = 0.0  # seconds to rest after the last look
        self._session: AsyncSession | None = None

    async def look(self) -> bool:
        """Return whether the queue may have something to receive. Raises StorageError."""
        session = await self._connected()
        began = self._looks.clock()
        found = await session.run(self._looks.statement(), within=PEEKED_WITHIN)
        self._pause = self._looks.looked(found, self._looks.clock() - began)
        return found > 0

    async def rest(self, *, worked: bool) -> None:
        """Go on at once where what was found was received, else wait for the next look."""
        if not worked:
            await pause(self._looks.woken, self._pause)

    def mute(self) -> None:
        """Do nothing: nothing notifies."""

    @asynccontextmanager
    async def session(self) -> AsyncGenerator[AsyncSession]:
        """Lend the session that looks, which no slot uses. Raises ConnectionLostError."""
        yield await self._connected()

    async def release(self) -> None:
        """Close the session."""
        if self._session is not None:
            session, self._session = self._session, None
            await session.close()

    async def _connected(self) -> AsyncSession:
        if self._session is None:
            self._session = await self._database.connect()
        return self._session


class SharedPeeking:
    """Has the lookout look, which several receivers of a process share."""

    def __init__(self, database: Database, looks: QueueLooks, lookout: Lookout) -> None:
        """Look at a queue of this database. No I/O."""
        self._database = database
        self._looks = looks
        self._lookout = lookout
        self._watch = QueueWatch(
            looks.table, looks.statement, looks.looked, looks.woken, looks.outages.ended_unasked
        )
        self._found = False

    @property
    def patience(self) -> float:
        """A share of what all who are watched may keep."""
        return self._lookout.patience

    async def look(self) -> bool:
        """Say whether the lookout saw or heard something."""
        return self._found

    async def rest(self, *, worked: bool) -> None:
        """Wait at the lookout, which looks at once, but later where a look has just been in vain."""
        in_vain, self._found = self._found and not worked, False
        self._found = await self._lookout.wait(self._watch, self._looks.pause() if in_vain else 0.0)

    def mute(self) -> None:
        """Have the lookout listen no more, until the next rest."""
        self._lookout.mute(self._watch)

    def session(self) -> AbstractAsyncContextManager[AsyncSession]:
        """Lend a session for once."""
        return connected(self._database)

    async def release(self) -> None:
        """Give the place at the lookout up."""
        await self._lookout.leave(self._watch)


Peeking = OwnPeeking | SharedPeeking
"""The looks of a receiver for messages."""


def make_peeking(database: Database, looks: QueueLooks, *, notifications: bool) -> Peeking:
    """Return what looks at a queue: the lookout, unless nothing is to notify it, or can."""
    lookout = lookout_of(database) if notifications else None
    return OwnPeeking(database, looks) if lookout is None else SharedPeeking(database, looks, lookout)


class Travel(NamedTuple):
    """A permit for a receive that travels with a commit: for how many messages, and of which round."""

    most: int
    round: Round


class Permits:
    """The current round of one receiver, and the slots that wait for a permit. For one event loop."""

    def __init__(self) -> None:
        """Begin with a round that has ended: slots wait."""
        self._round = Round(concurrency=0)
        self._round.abandon()
        self._waiting: deque[asyncio.Future[None]] = deque()
        self.over = asyncio.Event()
        """Set when the round is over: all its receives have been executed, or it was ended early."""
        self.only_travels = asyncio.Event()
        """Set when it is over, or all it waits for are receives whose commits have not come through.

        A commit may wait for a table that another session has locked: that holds up one slot, and not the next round.
        """
        self._closed = False

    def open(self, current: Round) -> None:
        """Begin a round; once closed, it is over before it begins."""
        if self._closed:
            return
        self._round = current
        self.over.clear()
        self.only_travels.clear()
        self._wake(1)

    @property
    def are_void(self) -> bool:
        """Whether the round has ended: a receive that has a permit, and waits for its turn, would find nothing."""
        return self._round.ended

    def try_travel(self, most: int) -> Travel | None:
        """Return the permit for a receive that travels with a commit now; None for none."""
        if self._closed or not (granted := self._round.try_start(most, travels=True)):
            return None
        self._settle(0)
        return Travel(granted, self._round)

    def try_take(self, most: int) -> int:
        """Return how many messages may be received at once now, 0 for none."""
        return 0 if self._closed else self._round.try_start(most)

    async def take(self, most: int, wanted: Callable[[], bool]) -> int:
        """Wait until a receive may start and return for how many messages; 0 when closed or no longer wanted."""
        while not self._closed:
            if not wanted():
                self._wake(1)
                return 0
            if granted := self.try_take(most):
                return granted
            waiter = asyncio.get_running_loop().create_future()
            self._waiting.append(waiter)
            try:
                await waiter
            except asyncio.CancelledError:
                if waiter.done() and not waiter.cancelled():
                    self._wake(1)  # pass our turn on to the next slot
                raise
        return 0

    def received(self, found: int, travel: Travel | None = None) -> None:
        """Note what a receive found, and let those go on who now may.

        The round of one that travelled may be over.
        """
        current = self._round if travel is None else travel.round
        current.finished(found, travelled=travel is not None)
        if current is self._round:
            self._settle(2 if found else 0)

    def close(self) -> None:
        """End the round and send all waiting slots away with nothing."""
        self._closed = True
        self._round.abandon()
        self.over.set()
        self.only_travels.set()
        self._wake(len(self._waiting))

    def wake_all(self) -> None:
        """Have every waiting slot look again, for example because fewer are wanted."""
        self._wake(len(self._waiting))

    def _settle(self, more: int) -> None:
        if self._round.only_travels:
            self.only_travels.set()
        if self._round.over:
            self.over.set()
        else:
            self._wake(more)

    def _wake(self, count: int) -> None:
        while count > 0 and self._waiting:
            waiter = self._waiting.popleft()
            if not waiter.done():
                waiter.set_result(None)
                count -= 1


class Look(NamedTuple):
    """One look of a slot at the queue: the statement, from where, and when it began."""

    statement: Statement[list[MessageRow]]
    bound: int
    began: float


UNDISTURBED: Final = 1.0  # seconds of work before a message that took a process
DRAIN: Final = 1.0  # seconds in which the messages in hand are to be done
LONGEST: Final = 10.0  # seconds for which others wait for a suspect
PUT_OFF: Final = 10.0  # seconds until the next try
MOST_PUT_OFFS: Final = 10  # after which a suspect is handled beside others


class Seclusion:
    """The calls that are handled in this process, by all receivers of an endpoint. For one event loop."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """Begin with nothing in hand; `clock` counts seconds and never goes back."""
        self._clock = clock
        self._since: float | None = None  # when work began
        self._handled = 0
        self._suspect: Entry | None = None
        self._open = asyncio.Event()
        self._quiet = asyncio.Event()

    async def enter(self) -> None:
        """Begin to handle something, once no suspect is handled, or one has been for long."""
        if self._since is None:
            self._begin()
        if self._suspect is not None:
            with suppress(TimeoutError):
                async with asyncio.timeout(LONGEST):
                    while not self._open.is_set():  # another may have come meanwhile
                        await self._open.wait()
        self._handled += 1

    def leave(self) -> None:
        """End what `enter` began."""
        self._handled -= 1
        if not self._handled:
            self._quiet.set()

    def _begin(self) -> float:
        """Return for how many seconds work has gone on."""
        now = self._clock()
        if self._since is None:
            self._since = now
        return now - self._since

    async def enter_alone(self, entry: Entry, failures: int) -> float:
        """Begin to handle a suspect that failed so often and return 0; else the seconds after which to try again."""
        worked = self._begin()
        if failures and worked < UNDISTURBED:
            return UNDISTURBED - worked
        if self._suspect is not None:
            return PUT_OFF
        self._suspect = entry
        self._open.clear()
        try:
            is_alone = await self._await_quiet() or entry.put_offs >= MOST_PUT_OFFS
        except BaseException:
            self.leave_alone()
            raise
        if is_alone:
            entry.put_offs = 0
            return 0.0
        entry.put_offs += 1
        self.leave_alone()
        return PUT_OFF

    def leave_alone(self) -> None:
        """End what `enter_alone` began."""
        self._suspect = None
        self._open.set()

    async def _await_quiet(self) -> bool:
        if self._handled:
            self._quiet.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(DRAIN):
                    await self._quiet.wait()
        return not self._handled
