"""The messages an endpoint has processed, so that those that come again are not processed again.

Invariant: what is noted commits with what processing the message did.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Final

from rowbus.database.statements import Statement, load_upon, no_rows
from rowbus.transport.deduplication import table
from rowbus.transport.queues.records.keys import key_of
from rowbus.transport.queues.records.postgresql import RecordTable

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import timedelta

    from rowbus.database.statements import Query, Rows
    from rowbus.messages.address import QueueAddress
    from rowbus.messages.message import MessageRow
    from rowbus.transport.queues.table import QueueTable

QUEUES_KEPT: Final = 1024
"""Queues whose statement is remembered."""


class InboxTable(table.InboxTable, RecordTable):
    """Statements on one endpoint's table."""

    def create(self) -> list[Statement[None]]:
        """Create the table if it is missing: to run in one transaction. Another creator may make this fail."""
        failing, name = "Failed to create the index of", self._named("inbox_accepted")
        index = self._load("create_index", failing, accepted_index=name)
        return [*super().create(), Statement(index, {}, no_rows)]

    def accept(self, message_id: str) -> Statement[bool]:
        """Note a message, and say whether it is new: with a row; see the base."""
        return Statement(self._accept, {"message_key": key_of(message_id)}, _is_new)

    def receive(
        self, table: QueueTable, most: int, lower_bound: int, *, most_bytes: int, passed_over: Sequence[int]
    ) -> Statement[list[MessageRow]]:
        """Take messages of one of the endpoint's queues, and note each whose id can be guessed; see the base."""
        plain = table.receive(most, lower_bound, most_bytes=most_bytes, passed_over=passed_over)
        operation = "receive_batch" if "batch_size" in plain.parameters else "receive"
        query = _receiving(table.address, operation, self.address)

        def decode(rows: Rows, count: int) -> list[MessageRow]:
            return _once_each(
                plain.decode([(*row[:-2], row[-2] if row[-1] else None) for row in rows], count)
            )

        return Statement(query, plain.parameters, decode)

    def purge(self, older_than: timedelta, batch_size: int) -> Statement[int]:
        """Forget up to `batch_size` messages accepted longer ago than that, and say how many."""
        parameters = {"older_than": older_than, "batch_size": batch_size}
        return Statement(self._purge, parameters, self._counted)


@lru_cache(maxsize=QUEUES_KEPT)
def _receiving(queue: QueueAddress, operation: str, inbox: QueueAddress) -> Query:
    """Return what receives as the operation of a queue does, and notes what is received."""
    query = load_upon(
        f"transport/queues/sql/postgresql/{operation}.sql",
        "transport/deduplication/sql/postgresql/note_received.sql",
        {"schema": queue.schema, "queue": queue.table, "inbox": inbox.table},
        {},
        failing=f"Failed to receive from {queue}, and to note that in {inbox}",
        queue=str(queue),
    )
    return query._replace(by_index=True)


def _once_each(rows: list[MessageRow]) -> list[MessageRow]:
    """Return messages of which only the first of an id is noted: of another it is asked when its turn comes."""
    first = {row.noted: row for row in reversed(rows)}
    if len(first) == len(rows):
        return rows
    return [row if row is first[row.noted] else row._replace(noted=None) for row in rows]


def _is_new(rows: Rows, _count: int) -> bool:
    return bool(rows)
