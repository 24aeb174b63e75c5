"""The messages an endpoint has processed, so that those that come again are not processed again.

Invariant: what is noted commits with what processing the message did.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from rowbus.database.statements import Statement, affected, load, no_rows, scalar
from rowbus.transport.deduplication.accepted import message_key

if TYPE_CHECKING:
    from datetime import timedelta

    from rowbus.database.statements import Query, Rows
    from rowbus.messages.address import QueueAddress

_FOLDER = "transport/deduplication/sql/postgresql"
_REMEDY = (
    "the table does not exist; starting an endpoint with deduplicate_for creates it, as do "
    "`rowbus schema install MODULE:ENDPOINT` and Inbox.create()."
)


class InboxTable:
    """Statements on one endpoint's table; each runs in its runner's transaction."""

    def __init__(self, address: QueueAddress) -> None:
        """Bind the SQL files to the table. No I/O."""
        self.address = address
        self._accept = self._load("accept", "Failed to note a message in", prepare=True)

    def _load(self, operation: str, failing: str, *, prepare: bool = False, **identifiers: str) -> Query:
        address = self.address
        return load(
            f"{_FOLDER}/{operation}.sql",
            identifiers={"schema": address.schema, "inbox": address.table, **identifiers},
            failing=f"{failing} {address}",
            remedy=_REMEDY,
            prepare=prepare,
        )

    def create(self) -> list[Statement[None]]:
        """Create the table if it is missing: to run in one transaction. Another creator may make this fail."""
        digest = hashlib.md5(self.address.canonical.encode(), usedforsecurity=False).hexdigest()
        create = self._load("create", "Failed to create")
        index = self._load(
            "create_index", "Failed to create the index of", accepted_index=f"inbox_accepted_{digest}"
        )
        return [Statement(create, {}, no_rows), Statement(index, {}, no_rows)]

    def exists(self) -> Statement[bool]:
        """Say whether the table exists."""
        query = self._load("exists", "Failed to look for")
        return Statement(query, {"table_name": str(self.address)}, scalar)

    def accept(self, message_id: str) -> Statement[bool]:
        """Note a message, and say whether it is new.

        Waits for a transaction that has just noted the same: if that commits, it is not new.
        """
        return Statement(self._accept, {"message_key": message_key(message_id)}, _is_new)

    def purge(self, older_than: timedelta, batch_size: int) -> Statement[int]:
        """Forget up to `batch_size` messages accepted longer ago than that, and say how many."""
        query = self._load("purge", "Failed to forget old messages of")
        return Statement(query, {"older_than": older_than, "batch_size": batch_size}, affected)

    def grant(self, role: str) -> Statement[None]:
        """Let a role note and forget messages."""
        return Statement(self._load("grant", f"Failed to grant {role} privileges on", role=role), {}, no_rows)


def _is_new(rows: Rows, _count: int) -> bool:
    return bool(rows)
