"""Messages whose handling was interrupted: told from an outage, counted, put at the end of their queue.

A connection that breaks while a handler runs is an outage, or that message's doing. A second session tells: if it finds
the server at work, the same that it was, only this connection was lost, and that counts as a failure of the message.
A count in memory would be lost with the process, and the message's transaction is gone; so the message is put back at
the end of its queue, with the count in a header.

Invariants: an interrupted message is in its queue all the time; it is counted once for each interruption, by all
processes that see it together; a server that is away is counted against none.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Final

from rowbus.database.sessions import connected
from rowbus.errors import RowbusError
from rowbus.running.backoff import doubling
from rowbus.transport.lanes.lane_table import rewrite
from rowbus.transport.queues.table import Place, queue_table
from rowbus.transport.receiving.decisions import (
    Interruption,
    blamed,
    count_in,
    lost_process,
    with_interruption,
)

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from rowbus.database.sessions import AsyncSession, Database
    from rowbus.database.statements import Statement
    from rowbus.messages.address import QueueAddress
    from rowbus.running.in_hand import RowInHand

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
                now = Interruption(count_in(place.headers) + more, said)
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
        async with connected(database) as session:
            counts = [
                await _put_back(
                    InterruptedMessages(database, known[each.queue], notify=notify), session, each, more, said
                )
                for each, more in blamed(held)
            ]
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
