"""The table of claimed values: the operations on it, on every database.

Invariant: nothing here names a database.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final, NamedTuple

from rowbus.database.backends import bound_table
from rowbus.database.statements import Statement, no_rows
from rowbus.messages.dispatch import DelayedSend
from rowbus.transport.claims.decisions import parts_of, time_to_keep
from rowbus.transport.queues.records.table import INSTALL, OwnTable, RecordStatements

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from datetime import timedelta

    from rowbus.database.statements import Rows
    from rowbus.messages.address import QueueAddress
    from rowbus.messages.dispatch import AnySend
    from rowbus.messages.message import KeptValue, OutgoingMessage

SWEPT_AT_ONCE: Final = 100  # parts of values, of some MB each, deleted in one transaction


class Part(NamedTuple):
    """A part of a value, and of how many it is one."""

    parts: int
    content: bytes


class ClaimedValues(RecordStatements):
    """Statements on a table of claimed values; each runs in its runner's transaction, and none waits."""

    folder = "transport/claims"
    variable = "claimed"
    remedy = (
        "the table does not exist; starting an endpoint with a ClaimCheck creates it, as do "
        "`rowbus schema install MODULE:ENDPOINT` and a client with create_missing."
    )

    def __init__(self, address: QueueAddress) -> None:
        """Bind the SQL files to the table. No I/O."""
        super().__init__(address)
        self._keep = self._load("keep", "Failed to keep a value in", prepare=True)
        self._read = self._load("read", "Failed to read a value of", prepare=True)
        self._sizes = self._load("sizes", "Failed to look for values of", prepare=True)
        self._sweep = self._load("sweep", "Failed to sweep")

    def keep(self, value: KeptValue, keep_for: timedelta) -> Iterator[Statement[None]]:
        """Give the statements that keep a value for so long: one for each part."""
        parts = list(parts_of(value.content))
        for number, content in enumerate(parts):
            parameters = {"value_id": value.id, "part": number, "parts": len(parts), "content": content}
            yield Statement(self._keep, {**parameters, **self._span(keep_for)}, no_rows)

    def read(self, value_id: str, number: int) -> Statement[Part | None]:
        """Return a part of a value, None when it is not there."""
        return Statement(self._read, {"value_id": value_id, "part": number}, _part)

    def sizes(self, value_ids: Sequence[str]) -> Statement[dict[str, int]]:
        """Return the bytes of each of these values that is there, by its id in small letters; reads none of them."""
        return Statement(self._sizes, {"value_ids": self._list(value_ids)}, _sizes)

    def sweep(self) -> Statement[int]:
        """Delete some of the parts whose time is over, passing over those that others delete; say how many."""
        return Statement(self._sweep, {"batch_size": SWEPT_AT_ONCE}, self._counted)

    def grant_keep(self, role: str) -> Statement[None]:
        """Let a role keep values, for what it sends, and read none."""
        query = self._load("grant_keep", f"Failed to grant {role} privileges on", role=role)
        return Statement(query, {}, no_rows)

    def _list(self, ids: Sequence[str]) -> object:
        """Return ids as the statement's parameter."""
        raise NotImplementedError

    def _span(self, keep_for: timedelta) -> dict[str, object]:
        """Return a span of time as the statement's parameters."""
        raise NotImplementedError


def claimed_values(address: QueueAddress) -> ClaimedValues:
    """Return the statements on a table of claimed values. No I/O."""
    table: ClaimedValues = bound_table("rowbus.transport.claims", "ClaimedValues", address)
    return table


def own_values(address: QueueAddress) -> OwnTable:
    """Return a table of claimed values as an endpoint has it."""
    table = claimed_values(address)
    return OwnTable(
        table, "the table of claimed values", f"{INSTALL}, or give ClaimCheck another store", sender=table
    )


def keeping(message: OutgoingMessage, due: timedelta | datetime | None = None) -> list[Statement[None]]:
    """Return the statements that keep what leaves with a message: to run in the transaction that sends it."""
    now = datetime.now(UTC)
    return [
        statement
        for value in message.kept
        for statement in claimed_values(value.table).keep(
            value,
            time_to_keep(value.keep_for, due=due, time_to_be_received=message.time_to_be_received, now=now),
        )
    ]


def keeping_all(sends: Iterable[AnySend]) -> list[Statement[None]]:
    """Return the statements that keep what leaves with messages, once for all copies of an event."""
    kept = {send.message.kept[0].id: send for send in sends if send.message.kept}
    return [
        statement
        for send in kept.values()
        for statement in keeping(send.message, send.due if isinstance(send, DelayedSend) else None)
    ]


def _sizes(rows: Rows, _count: int) -> dict[str, int]:
    return {str(value_id): int(size) for value_id, size in rows}


def _part(rows: Rows, _count: int) -> Part | None:
    return Part(int(rows[0][0]), bytes(rows[0][1])) if rows else None
