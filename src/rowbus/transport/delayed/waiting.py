"""The messages that wait in a table of delayed messages: search them, look at one, cancel one, take one to send it.

Invariant: what a mover has in its hands is neither cancelled nor taken. Nothing here names a database.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, NamedTuple

from rowbus.database.statements import Statement

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from rowbus.database.statements import Query, Rows
    from rowbus.messages.address import QueueAddress
    from rowbus.transport.delayed.policy import DueMessage

MOST_READ = 100_000
"""The number of messages a search looks through before it says where it stopped."""


class WaitingMessage(NamedTuple):
    """A message looked at without being taken; `due` is aware, `size` that of its body in bytes."""

    id: str
    due: datetime
    headers: str
    size: int


class LookedAtMessage(NamedTuple):
    """One message with the beginning of its body (None: it has none); `size` is that of the whole body in bytes."""

    id: str
    due: datetime
    headers: str
    body: bytes | None
    size: int


class WaitingPlace(NamedTuple):
    """Where in the order of their time a message waits."""

    due: datetime
    id: str


class WaitingMessages:
    """Statements on the messages of one table of delayed messages; each runs in its runner's transaction."""

    def __init__(self, address: QueueAddress) -> None:
        """Bind the SQL file that sagas run for their timeouts. No I/O."""
        self.address = address
        self._cancel_at = self._load("cancel_at", "Failed to cancel a message of", prepare=True)

    def cancel(self, message_id: str) -> Statement[int]:
        """Cancel the message of this id, if it waits here for the first time; say for how many rows that was so.

        Reads the whole table. Locks the row, waiting for a mover that is moving it.
        """
        query = self._load("cancel", "Failed to cancel a message of", prepare=False)
        return Statement(query, {"quoted_id": json.dumps(message_id)}, self._counted)

    def cancel_at(self, message_id: str, due: datetime) -> Statement[int]:
        """Cancel the message of this id that is due at this instant; say for how many rows that was so.

        Finds it by its time. Locks the row, waiting for a mover that is moving it.
        """
        return Statement(self._cancel_at, _at(message_id, due), self._counted)

    def waits_at(self, message_id: str, due: datetime) -> Statement[bool]:
        """Say whether the message of this id waits that is due at this instant. Finds it by its time; keeps no lock."""
        query = self._load("waits_at", "Failed to look for a message of", prepare=False)
        return Statement(query, _at(message_id, due), self._true)

    def take(self, message_id: str, due: datetime | None = None) -> Statement[list[DueMessage]]:
        """Lock the message of this id to move it before it is due, passing over it if a mover has it; none: not there.

        Reads the whole table, unless it is known when the message is due. Never waits (Babelfish: for who has a row).
        """
        operation = "take" if due is None else "take_at"
        query = self._load(operation, "Failed to take a message of", prepare=False)
        parameters = {"quoted_id": json.dumps(message_id)} if due is None else _at(message_id, due)
        return Statement(query, parameters, self._taken)

    def find(
        self, text: str, after: WaitingPlace | None, most: int, most_read: int = MOST_READ
    ) -> Statement[list[WaitingMessage]]:
        """Look through the messages behind a place for those with a text in their headers (empty: any), in any case.

        The first `most` of the next `most_read`, in the order of their time. Locks nothing.
        """
        query = self._load("find", "Failed to search", prepare=False)
        parameters = {"text": _in_json(text), "most": most, "most_read": most_read, **self._behind(after)}
        return Statement(query, parameters, self._waiting)

    def reach(self, after: WaitingPlace | None, most_read: int = MOST_READ) -> Statement[WaitingPlace | None]:
        """Say where a search from behind a place stops; None: it comes to the end. Locks nothing."""
        query = self._load("reach", "Failed to search", prepare=False)
        return Statement(query, {"most_read": most_read, **self._behind(after)}, self._reached)

    def look(self, row_id: str, most_bytes: int) -> Statement[LookedAtMessage | None]:
        """Look at one message by its row and at the beginning of its body; None: it is not there. Locks nothing."""
        query = self._load("look", "Failed to look into", prepare=False)
        return Statement(query, {"most_bytes": most_bytes, **self._row(row_id)}, self._looked_at)

    def count_between(self, first: datetime | None, last: datetime | None, most: int) -> Statement[int]:
        """Count the messages due from one instant until before another, up to `most`. Locks nothing."""
        query = self._load("count_between", "Failed to count the messages of", prepare=False)
        return Statement(query, {"first": first, "last": last, "most": most}, _number)

    def _load(self, operation: str, failing: str, *, prepare: bool) -> Query:
        """Bind a file of the database to the table."""
        raise NotImplementedError

    def _counted(self, rows: Rows, count: int) -> int:
        """Decode how many rows a statement touched."""
        raise NotImplementedError

    def _true(self, rows: Rows, count: int) -> bool:
        """Decode a truth."""
        raise NotImplementedError

    def _taken(self, rows: Rows, count: int) -> list[DueMessage]:
        """Decode messages that were locked."""
        raise NotImplementedError

    def _waiting(self, rows: Rows, _count: int) -> list[WaitingMessage]:
        """Decode messages that were found."""
        raise NotImplementedError

    def _looked_at(self, rows: Rows, _count: int) -> LookedAtMessage | None:
        """Decode one message."""
        raise NotImplementedError

    def _reached(self, rows: Rows, _count: int) -> WaitingPlace | None:
        """Decode where a search stopped."""
        raise NotImplementedError

    def _behind(self, place: WaitingPlace | None) -> Mapping[str, object]:
        """Return a place as the parameters of a search."""
        raise NotImplementedError

    def _row(self, row_id: str) -> Mapping[str, object]:
        """Return what finds a row; for a text that is no row's id, what finds none."""
        raise NotImplementedError


def _at(message_id: str, due: datetime) -> dict[str, object]:
    return {"quoted_id": json.dumps(message_id), "at": due}


def _in_json(text: str) -> str:
    """Return a text as it is inside of headers, which are JSON."""
    return json.dumps(text)[1:-1]


def _number(rows: Rows, _count: int) -> int:
    return int(rows[0][0])
