"""An error queue, which is a queue like any other, as those look at it who put its messages back.

Invariant: nothing here changes the table's shape, and nothing waits for those who have messages in hand.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rowbus.database.statements import Query, Statement, affected, load, scalar
from rowbus.messages.message import PeekedMessage
from rowbus.settings import LONGEST_HEADERS_READ, LONGEST_READ
from rowbus.transport.queues.table import MovedMessage
from rowbus.transport.recoverability import failed_message

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rowbus.database.statements import Rows
    from rowbus.messages.address import QueueAddress
    from rowbus.transport.recoverability.failed_message import FailedMessage


class ErrorQueueTable:
    """Statements on one error queue; each runs in its runner's transaction."""

    def __init__(self, address: QueueAddress) -> None:
        """Bind the SQL files to the queue's table. No I/O."""
        self.address = address

    def _load(self, operation: str, failing: str) -> Query:
        address = self.address
        return load(
            f"transport/recoverability/sql/postgresql/{operation}.sql",
            identifiers={"schema": address.schema, "queue": address.table},
            failing=f"{failing} {address}",
            queue=str(address),
        )

    def newest(self) -> Statement[int | None]:
        """Ask for the position of the newest message, None for an empty queue. Locks nothing."""
        return Statement(self._load("newest", "Failed to look into"), {}, scalar)

    def scan(self, after: int, newest: int, most: int) -> Statement[list[FailedMessage]]:
        """Read the stories of up to `most` messages after one position and up to another, in order. Locks nothing."""
        parameters = {"after": after, "newest": newest, "most": most, "most_bytes": LONGEST_HEADERS_READ}
        return Statement(self._load("scan", "Failed to look into"), parameters, self._stories)

    def look(self, row_id: str) -> Statement[PeekedMessage | None]:
        """Look at one row, None if it is gone. Locks nothing."""
        return Statement(
            self._load("look", "Failed to look into"), {"row_id": row_id, "most_read": LONGEST_READ}, _one
        )

    def headers(self, row_ids: Sequence[str]) -> Statement[list[MovedMessage]]:
        """Read the header texts of rows in order, but for those that are gone or too large to be read."""
        parameters = {"row_ids": list(row_ids), "most_bytes": LONGEST_HEADERS_READ}
        return Statement(self._load("headers", "Failed to look into"), parameters, _headers)

    def discard(self, row_ids: Sequence[str]) -> Statement[int]:
        """Delete rows and say how many; passes over those that are gone or in flight."""
        query = self._load("discard", "Failed to discard messages of")
        return Statement(query, {"row_ids": list(row_ids)}, affected)

    def _stories(self, rows: Rows, _count: int) -> list[FailedMessage]:
        return [
            failed_message.read(row_id, position, headers, error_queue=self.address, size=size)
            for row_id, position, headers, size in rows
        ]


def _one(rows: Rows, _count: int) -> PeekedMessage | None:
    return PeekedMessage._make(rows[0]) if rows else None


def _headers(rows: Rows, _count: int) -> list[MovedMessage]:
    return [MovedMessage._make(row) for row in rows]
