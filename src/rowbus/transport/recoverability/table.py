"""An error queue: the operations that put its messages back, on every database.

Invariant: nothing here names a database.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

from rowbus.database.backends import bound_table
from rowbus.database.statements import Statement, scalar
from rowbus.settings import LONGEST_HEADERS_READ, LONGEST_READ
from rowbus.transport.queues.table import MovedMessage
from rowbus.transport.recoverability import failed_message

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rowbus.database.statements import Query, Row, Rows
    from rowbus.messages.address import QueueAddress
    from rowbus.messages.message import PeekedMessage
    from rowbus.transport.recoverability.failed_message import FailedMessage


BEFORE_ALL: Final = -(2**31)
"""A position in a queue before that of every message."""

LOOKING: Final = "Failed to look into"


class ErrorQueueTable:
    """Statements on one error queue, for those who put its messages back; each runs in its runner's transaction.

    None waits for who has messages in hand. How a database's files are loaded, and read, its subclass knows.
    """

    def __init__(self, address: QueueAddress) -> None:
        """Bind the SQL files to the queue's table. No I/O."""
        self.address = address

    def newest(self) -> Statement[int | None]:
        """Ask for the position of the newest message, None for an empty queue. Keeps no lock."""
        return Statement(self._load("newest", LOOKING), {}, scalar)

    def scan(self, after: int, newest: int, most: int) -> Statement[list[FailedMessage]]:
        """Read the stories of up to `most` messages after one position and up to another, in order. Keeps no lock."""
        parameters = {"after": after, "newest": newest, "most": most, "most_bytes": LONGEST_HEADERS_READ}
        return Statement(self._load("scan", LOOKING), parameters, self._stories)

    def look(self, row_id: str) -> Statement[PeekedMessage | None]:
        """Look at one row, None if it is gone, on SQL Server also if it is in flight. Keeps no lock."""
        parameters = {"row_id": row_id, "most_read": LONGEST_READ}
        return Statement(self._load("look", LOOKING), parameters, self._one)

    def headers(self, row_ids: Sequence[str]) -> Statement[list[MovedMessage]]:
        """Read the header texts of rows in order, but for those that are gone or too large to be read."""
        parameters = {"row_ids": self._ids(row_ids), "most_bytes": LONGEST_HEADERS_READ}
        return Statement(self._load("headers", LOOKING), parameters, self._moved)

    def discard(self, row_ids: Sequence[str]) -> Statement[int]:
        """Delete rows and say how many; passes over those that are gone or in flight."""
        query = self._load("discard", "Failed to discard messages of")
        return Statement(query, {"row_ids": self._ids(row_ids)}, self._counted)

    def _stories(self, rows: Rows, _count: int) -> list[FailedMessage]:
        return [
            failed_message.read(
                row_id,
                position,
                None if headers is None else self._headers(headers),
                error_queue=self.address,
                size=size,
            )
            for row_id, position, headers, size in rows
        ]

    def _one(self, rows: Rows, _count: int) -> PeekedMessage | None:
        return self._peeked(rows[0]) if rows else None

    def _moved(self, rows: Rows, _count: int) -> list[MovedMessage]:
        return [MovedMessage(row_id, position, self._headers(headers)) for row_id, position, headers in rows]

    def _load(self, operation: str, failing: str) -> Query:
        """Load a file."""
        raise NotImplementedError

    def _ids(self, row_ids: Sequence[str]) -> object:
        """Return ids of rows as the files take them."""
        raise NotImplementedError

    def _counted(self, rows: Rows, count: int) -> int:
        """Decode an answer that is a number of rows."""
        raise NotImplementedError

    def _headers(self, text: str) -> str:
        """Return the text of headers as senders wrote it."""
        raise NotImplementedError

    def _peeked(self, row: Row) -> PeekedMessage:
        """Read a row looked at without being taken."""
        raise NotImplementedError


class Keep(Protocol):
    """A place for what is discarded."""

    def take(self, queue: QueueAddress, row_ids: Sequence[str]) -> Statement[int]:
        """Move rows of a queue there, and say how many; passes over those that are gone or in flight."""
        raise NotImplementedError


def error_queue_table(address: QueueAddress) -> ErrorQueueTable:
    """Return the statements on an error queue, for those who put its messages back. No I/O."""
    table: ErrorQueueTable = bound_table("rowbus.transport.recoverability", "ErrorQueueTable", address)
    return table
