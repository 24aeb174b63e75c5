"""Messages whose handling was interrupted: told from an outage, counted, put at the end, and then handled alone.

A connection that breaks while a handler runs is an outage, or that message's doing. A second session tells: if it finds
the server at work, the same that it was, only this connection was lost, and that counts as a failure of the message.
A count in memory would be lost with the process, and the message's transaction is gone; so the message is put back at
the end of its queue, with the count in a header.

The others wait for that, but never for long: for `DRAIN` until what is in hand is done, for `LONGEST` while the suspect
is handled. Handlers that take longer go on beside each other.

What is known to have taken a process is not handled in the first `UNDISTURBED` of a process's work. Processes that die
of one such message after the other would otherwise live for milliseconds each, too short for the other messages and for
moving delayed ones.

Invariants: an interrupted message is in its queue all the time; it is counted once for each interruption, by all
processes that see it together; a server that is away is counted against none; at most one suspect is handled at a time
in a process, and none is put off for ever.
"""

from __future__ import annotations

import asyncio
import logging
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from rowbus.errors import MalformedHeadersError, RowbusError
from rowbus.running.backoff import doubling
from rowbus.transport.lanes.lane_table import rewrite
from rowbus.transport.queues.table import Place, queue_table
from rowbus.transport.receiving.decisions import (
    Interruption,
    blamed,
    interruption_in,
    lost_process,
    with_interruption,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from datetime import datetime

    from rowbus.database.sessions import AsyncSession, Database
    from rowbus.database.statements import Statement
    from rowbus.messages.address import QueueAddress
    from rowbus.running.in_hand import RowInHand
    from rowbus.work.book import Entry

logger = logging.getLogger("rowbus.receiving")

ANSWER_WITHIN: Final = 5.0  # seconds in which a server that is not away answers a second session
TRIES: Final = 2  # to connect: the session that was lost may still hold the last connection there was
BETWEEN_TRIES: Final = 0.3  # seconds
FIRST_PAUSE: Final = 0.01  # seconds until the server has let go of the row; doubled each time
LONGEST_PAUSE: Final = 0.5
PATIENCE: Final = 3.0  # seconds in which another receiver may have the message in hand


class InterruptedMessages:
    """Puts interrupted messages of one queue back."""

    def __init__(self, database: Database, address: QueueAddress, *, notify: bool) -> None:
        """Act on the queue at `address`. No I/O."""
        self._database = database
        self._address = address
        self._table = queue_table(address)
        self._notify = notify

    async def server_started(self, session: AsyncSession) -> datetime | None:
        """Ask which life of the server a session is part of. Raises StorageError."""
        return await session.run(self._table.server_started())

    async def witness(self, since: datetime | None) -> AsyncSession | None:
        """Return a second session of the server that was started then; None if it is away, or another. Never raises."""
        for again in range(TRIES):
            if again:
                await asyncio.sleep(BETWEEN_TRIES)
            try:
                async with asyncio.timeout(ANSWER_WITHIN):
                    return await self._same_server(since)
            except (RowbusError, TimeoutError) as error:
                logger.debug("No second session for %s: %s", self._address, error)
        return None

    async def _same_server(self, since: datetime | None) -> AsyncSession | None:
        session = await self._database.connect()
        try:
            is_same = await self.server_started(session) == since
        except BaseException:
            await session.close()
            raise
        if is_same:
            return session
        await session.close()
        return None

    async def put_back(
        self,
        session: AsyncSession,
        row_id: str,
        more: int,
        said: str,
        known: Place | None = None,
        *,
        keeps_place: bool = False,
    ) -> Interruption | None:
        """Put a message at the end of its queue, with `more` added to its count; return what it now says.

        Where there is order it `keeps_place`.

        None when it is gone, or another receiver has it in hand for longer than `PATIENCE`. `known` is where it was.
        Raises MalformedHeadersError and other errors of headers, StorageError.
        """
        place, pauses, waited = known, 0, 0.0
        while waited < PATIENCE:
            place = place or await session.run(self._table.locate(row_id))
            if place is None and self._table.shows_in_flight:
                return None
            if place is not None:
                before = interruption_in(place.headers)
                now = Interruption((before.times if before else 0) + more, said)
                changed = place._replace(headers=with_interruption(place.headers, now))
                async with session.transaction():
                    if await session.run(self._moved(row_id, changed, keeps_place=keeps_place)):
                        return now
            pauses, place = pauses + 1, None
            pause = doubling(pauses, first=FIRST_PAUSE, most=LONGEST_PAUSE)
            waited += pause
            await asyncio.sleep(pause)
        return None

    def _moved(self, row_id: str, changed: Place, *, keeps_place: bool) -> Statement[int]:
        if keeps_place:
            return rewrite(self._address, row_id, changed.seq, changed.headers, keeps_expiry=True)
        return self._table.requeue(row_id, changed, notify=self._notify)


def count_in(headers: str) -> int:
    """Return how often a message had failed when it was put back; 0 if its headers do not say."""
    try:
        interruption = interruption_in(headers)
    except MalformedHeadersError:
        return 0
    return 0 if interruption is None else interruption.times


async def count_death(
    database: Database,
    addresses: Sequence[QueueAddress],
    held: Sequence[RowInHand],
    how: str,
    *,
    notify: bool,
) -> bool:
    """Count a process's death against what it had in hand, and put that back; say whether all was found or is gone.

    Errors are logged, and mean False: what is not counted is where it was, in its queue.
    """
    said, known = lost_process(how), {str(address): address for address in addresses}
    try:
        session = await database.connect()
        try:
            counts = [
                await _put_back(
                    InterruptedMessages(database, known[each.queue], notify=notify), session, each, more, said
                )
                for each, more in blamed(held)
            ]
        finally:
            await session.close()
    except (RowbusError, KeyError) as error:
        logger.warning("What a process had in hand when it died is not counted: %s", error)
        return False
    return all(counts)


async def _put_back(
    messages: InterruptedMessages, session: AsyncSession, held: RowInHand, more: int, said: str
) -> bool:
    now = await messages.put_back(session, held.row_id, more, said)
    if now is None:
        logger.info(
            "Row %s of %s, which a process had in hand when it died, is gone", held.row_id, held.queue
        )
        return False
    logger.warning(
        "Row %s of %s was in hand when its process died (failed attempts: %s); it goes to the end of its queue, and is "
        "handled alone. %s",
        held.row_id,
        held.queue,
        now.times,
        said,
    )
    return True


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
