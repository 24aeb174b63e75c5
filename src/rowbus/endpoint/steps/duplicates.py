"""Duplicates: an endpoint with `deduplicate_for` completes a message that comes again without calling its handlers.

A batch is noted ahead of its handlers, in one statement.

Invariant: that a message was processed is noted in its transaction, so it commits with what its handlers did, and not
at all when the message is given up.
"""

from __future__ import annotations

import logging
from collections import Counter
from functools import partial
from typing import TYPE_CHECKING, Final

from rowbus.messages.headers import Header
from rowbus.running.turns import onto_loop

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from rowbus.database.sessions import AsyncSession
    from rowbus.transport.deduplication.table import InboxTable
    from rowbus.transport.receiving.delivery import Delivery, OnMessage

logger = logging.getLogger("rowbus.endpoint")

DUPLICATE: Final = "rowbus.duplicate"
"""Key in a delivery's items, there when its message had been processed before."""


class DuplicateFilter:
    """Lets each message id pass once."""

    def __init__(self, inbox: InboxTable) -> None:
        """Note in `inbox` what was processed."""
        self._inbox = inbox
        self._ahead: dict[str, bool] = {}
        """Rows in hand whose message is noted, and stays so when an attempt is undone: whether it is new."""

    def around(self, proceed: OnMessage) -> OnMessage:
        """Return the step that lets a message pass, unless it was processed before."""
        return partial(self._process, proceed)

    async def _process(self, proceed: OnMessage, delivery: Delivery) -> None:
        """Process a message, unless that was done before. Waits for others who process the same one just now.

        Raises what processing it raises, StorageError.
        """
        message_id = _id_of(delivery)
        is_new = self._ahead.get(delivery.id)
        if is_new is None:
            await onto_loop()
            is_new = await self._accept(delivery, message_id)
        if is_new:
            await proceed(delivery)
            return
        logger.info("Message %s was processed before; it is consumed without its handlers", message_id)
        delivery.items[DUPLICATE] = True

    async def _accept(self, delivery: Delivery, message_id: str) -> bool:
        """Note a message; where that can be taken back, without the savepoint that would undo it with the attempt."""
        if not self._inbox.accepts_many:
            return await delivery.run(self._inbox.accept(message_id))
        is_new = await delivery.run_for_good(self._inbox.accept(message_id))
        self._ahead[delivery.id] = is_new
        return is_new

    async def prepare(self, deliveries: Sequence[Delivery], session: AsyncSession) -> None:
        """Note all messages of a batch in one statement, which waits as `_process` does. Raises StorageError.

        Those whose id is in the batch more than once are noted one by one, each when its turn comes.
        """
        ids = {delivery.id: _id_of(delivery) for delivery in deliveries}
        times = Counter(ids.values())
        once = {row_id: message_id for row_id, message_id in ids.items() if times[message_id] == 1}
        if once and self._inbox.accepts_many:
            new = await session.run_replanned(self._inbox.accept_all(once.values()))
            self._ahead.update((row_id, message_id in new) for row_id, message_id in once.items())

    async def take_back(self, delivery: Delivery, session: AsyncSession) -> None:
        """Forget a message that goes without having been processed, so that it is processed when it comes back."""
        if self._ahead.pop(delivery.id, False):
            await session.run(self._inbox.take_back(_id_of(delivery)))

    def forget(self, row_ids: Iterable[str]) -> None:
        """Forget rows that are in hand no more."""
        for row_id in row_ids:
            self._ahead.pop(row_id, None)


def _id_of(delivery: Delivery) -> str:
    return delivery.headers.get(Header.MESSAGE_ID) or delivery.id
