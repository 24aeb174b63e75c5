"""Looks through an error queue, sends messages back to where they failed, or discards them.

Invariant: a retry or discard is one transaction, whatever it covers: a message is in one place at any time. Messages
in somebody's hands are passed over, and what arrives meanwhile is left for the next time.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

from rowbus.model import failed_message
from rowbus.model.bounded import Bounded
from rowbus.model.headers import decode_headers
from rowbus.model.message import OutgoingMessage
from rowbus.tables.messaging import error_queue_table, queue_table
from rowbus.tables.rows import BEFORE_ALL

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rowbus.database.sessions import Session
    from rowbus.model.address import QueueAddress
    from rowbus.model.failed_message import FailedMessage, Selection
    from rowbus.model.message import PeekedMessage
    from rowbus.tables.message_tables import QueueTable
    from rowbus.tables.rows import TakenMessage

PAGE = 500  # messages looked at, and moved, by one statement

IN_HAND = "in somebody's hands, or gone meanwhile"
UNREADABLE = "headers that nobody can read"
NOWHERE = "no queue named where they failed (--to gives one)"
ITSELF = "failed in the error queue itself (--to gives another queue)"


class Result(NamedTuple):
    """What was done: how many messages for each queue they went to, and how many stayed, for each reason."""

    moved: Counter[QueueAddress]
    stayed: Counter[str]


class ErrorQueue:
    """One error queue, seen through a session."""

    def __init__(self, session: Session, address: QueueAddress) -> None:
        """Look at a queue. No I/O."""
        self._session = session
        self._address = address
        self._table = error_queue_table(address)

    def find(self, selection: Selection) -> Iterator[FailedMessage]:
        """Give the messages meant, the oldest first. Raises QueueNotFoundError, StorageError."""
        for page in self._pages(selection):
            yield from page

    def look(self, failed: FailedMessage) -> PeekedMessage | None:
        """Return the whole row of a message, None if it is gone."""
        return self._session.run(self._table.look(failed.row_id))

    def retry(self, selection: Selection, to: QueueAddress | None = None) -> Result:
        """Send the messages meant back to where they failed, or to another queue, in one transaction.

        They leave without the story of their failure and wake their receivers. Those whose queue is unknown or missing
        stay. Raises QueueNotFoundError (the error queue is missing), StorageError; then nothing has been moved.
        """
        moving = _Moving(self._session, self._address, to)
        with self._session.transaction():
            for page in self._pages(selection):
                moving.move(page)
        return moving.result

    def discard(self, selection: Selection) -> Result:
        """Delete the messages meant, in one transaction. Raises QueueNotFoundError, StorageError."""
        moved: Counter[QueueAddress] = Counter()
        stayed: Counter[str] = Counter()
        with self._session.transaction():
            for page in self._pages(selection):
                count = self._session.run(self._table.discard([failed.row_id for failed in page]))
                moved[self._address] += count
                stayed[IN_HAND] += len(page) - count
        return Result(moved, +stayed)

    def _pages(self, selection: Selection) -> Iterator[list[FailedMessage]]:
        """Give the messages meant, page by page, up to the newest there is now."""
        newest, after = self._session.run(self._table.newest()), BEFORE_ALL
        while newest is not None and after < newest:
            seen = self._session.run(self._table.scan(after, newest, PAGE))
            if not seen:
                return
            after = seen[-1].seq
            if meant := [failed for failed in seen if selection.fits(failed)]:
                yield meant


class _Moving:
    """One retry: where each message goes, and what came of it."""

    def __init__(self, session: Session, error_queue: QueueAddress, to: QueueAddress | None) -> None:
        self._session = session
        self._error_queue = error_queue
        self._to = to
        self._table = error_queue_table(error_queue)
        self._queues: dict[QueueAddress, QueueTable | None] = Bounded()
        self.result = Result(Counter(), Counter())

    def move(self, page: list[FailedMessage]) -> None:
        """Move what can be moved of a page."""
        by_queue: dict[QueueAddress, list[str]] = {}
        for failed in page:
            destination = self._to or failed.failed_queue
            if reason := self._reason_to_stay(failed, destination):
                self.result.stayed[reason] += 1
            elif destination is not None:
                by_queue.setdefault(destination, []).append(failed.row_id)
        for destination, row_ids in by_queue.items():
            self._move_to(destination, row_ids)

    def _reason_to_stay(self, failed: FailedMessage, destination: QueueAddress | None) -> str | None:
        if not failed.is_readable:
            return UNREADABLE
        if destination is None:
            return NOWHERE
        if destination == self._error_queue:
            return ITSELF
        return None if self._queue(destination) else f"failed in {destination}, which does not exist"

    def _queue(self, address: QueueAddress) -> QueueTable | None:
        """Return a queue's table, None if there is none; the database is asked once."""
        if address not in self._queues:
            table = queue_table(address)
            self._queues[address] = table if address.can_exist and self._session.run(table.exists()) else None
        return self._queues[address]

    def _move_to(self, destination: QueueAddress, row_ids: list[str]) -> None:
        taken = self._session.run(self._table.take(row_ids))
        if len(taken) < len(row_ids):
            self.result.stayed[IN_HAND] += len(row_ids) - len(taken)
        queue = self._queue(destination)
        if taken and queue is not None:
            self._session.run_all(queue.send_all([_retried(one) for one in taken], notify=True))
            self.result.moved[destination] += len(taken)


def _retried(taken: TakenMessage) -> OutgoingMessage:
    """Return the message as it was before it failed; it does not expire."""
    return OutgoingMessage(failed_message.retried_headers(decode_headers(taken.headers)), taken.body or b"")
