"""Rows that no receiver can process: the database moves them to the error queue, without a fetch.

There are two kinds: rows above the endpoint's `max_message_size`, and rows whose completion failed again and again.

Invariant: a row is in the queue or in the error queue, never in neither; its body reaches the error queue as it is, and
its id reaches the log, once: when it has moved. A try that finds the row in others' hands, as those of a slot that has
locked it only to find it too large, says nothing.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from rowbus.errors import MessageTooLargeError, QueueNotFoundError, StorageError, StuckMessageError
from rowbus.errors.strangers import text_of
from rowbus.messages.headers import encode_copied_headers
from rowbus.messages.message import MessageRow
from rowbus.transport.queues.table import MovedMessage, queue_table
from rowbus.transport.recoverability.failure_headers import brief_headers

if TYPE_CHECKING:
    from rowbus.database.sessions import AsyncSession
    from rowbus.messages.address import QueueAddress
    from rowbus.messages.dispatch import Send
    from rowbus.transport.queues.table import OversizedMessage
    from rowbus.transport.receiving.delivery import Callbacks
    from rowbus.work.book import Book

logger = logging.getLogger("rowbus.receiving")


class UnprocessableRows:
    """Finds the oversized rows of one queue, and moves oversized and stuck rows to the error queue."""

    def __init__(
        self, address: QueueAddress, callbacks: Callbacks, book: Book, *, most_bytes: int, notify: bool
    ) -> None:
        """Move rows of the queue at `address`; `callbacks` makes the copies for the error queue. No I/O.

        What the error queue refuses stays, and is passed over, as `book` then says.
        """
        self._address = address
        self._callbacks = callbacks
        self._book = book
        self._table = queue_table(address)
        self._most_bytes = most_bytes
        self._notify = notify

    async def move_oversized(self, session: AsyncSession, most: int) -> bool:
        """Move the oversized rows among the `most` oldest; say whether anything came of it. Raises StorageError."""
        passed_over = self._book.passed_over()
        oversized = await session.run(self._table.find_oversized(most, most_bytes=self._most_bytes))
        return any([await self._try(session, one) for one in oversized if one.seq not in passed_over])

    async def _try(self, session: AsyncSession, message: OversizedMessage) -> bool:
        try:
            return await self._move_oversized(session, message)
        except (QueueNotFoundError, StorageError) as error:
            if isinstance(error, StorageError) and error.transient:
                raise
            self._pass_over(message.id, message.seq, error)
            return True

    async def _move_oversized(self, session: AsyncSession, message: OversizedMessage) -> bool:
        """Move an oversized row in a transaction of its own; false when it is in flight."""
        error = MessageTooLargeError(
            f"Row {message.id} of {self._address} has {message.size} bytes, and this endpoint receives at most "
            f"{self._most_bytes}: it was not fetched. Raise EndpointSettings(max_message_size=…) and put it back "
            "with `rowbus errors retry`, or discard it.",
            row=message.id,
            queue=str(self._address),
            size=message.size,
        )
        row = MessageRow(message.id, time_left=None, headers=message.headers, body=b"", seq=message.seq)
        moved = await self._move(session, row, error, brief=False)
        if moved:
            logger.error("Moved an oversized row to the error queue: %s", error)
        return moved

    async def move_stuck(self, session: AsyncSession, row: MessageRow, error: BaseException) -> None:
        """Move a row that could not be completed, with few headers. Raises StorageError in an outage."""
        try:
            if await self._move_stuck(session, row, error):
                self._book.forget(row.id)
        except Exception as refusal:  # a mutator of its copy may raise anything
            if isinstance(refusal, StorageError) and refusal.transient:
                raise
            self._pass_over(row.id, row.seq, refusal)

    async def _move_stuck(self, session: AsyncSession, row: MessageRow, error: BaseException) -> bool:
        problem = StuckMessageError(
            f"Row {row.id} of {self._address} could not be completed again and again; its copy here has few of its "
            f"headers. The last failure: {text_of(error)}",
            row=row.id,
            queue=str(self._address),
        )
        moved = await self._move(session, row, problem, brief=True)
        if moved:
            logger.error("Moved a stuck row to the error queue: %s", problem)
        return moved

    def brief_copy(self, row: MessageRow, error: BaseException) -> Send:
        """Return the error queue's copy of a row that is in no queue any more, with few headers."""
        copy = self._callbacks.on_poison(row, error)
        return copy._replace(message=copy.message._replace(headers=brief_headers(copy.message.headers)))

    def _pass_over(self, row_id: str, position: int, error: BaseException) -> None:
        pause = self._book.pass_over(row_id, position)
        text = (
            f"Row {row_id} of {self._address} can neither be completed nor moved to the error queue; it stays where it "
            f"is and is passed over for {pause:.0f} s, so that others are received"
        )
        self._callbacks.report(text, error)
        logger.error("%s: %s", text, error)

    async def _move(self, session: AsyncSession, row: MessageRow, error: Exception, *, brief: bool) -> bool:
        copy = self._callbacks.on_poison(row, error)
        headers = brief_headers(copy.message.headers) if brief else copy.message.headers
        moved = MovedMessage(row.id, row.seq, encode_copied_headers(headers))
        statements = self._table.move([moved], copy.destination, notify=self._notify)
        async with session.transaction():
            counts = [await session.run(statement) for statement in statements]
        return sum(counts) > 0
