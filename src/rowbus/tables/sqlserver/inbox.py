"""The messages an endpoint has processed, so that those that come again are not processed again.

Invariant: what is noted commits with what processing the message did.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rowbus.database.sqlserver.statements import load
from rowbus.database.statements import Statement, no_rows
from rowbus.model.inbox import message_key
from rowbus.tables.sqlserver.delayed_store import lock_name
from rowbus.tables.sqlserver.queue import exists, lock_creation
from rowbus.tables.sqlserver.values import number, span, truth

if TYPE_CHECKING:
    from datetime import timedelta

    from rowbus.database.statements import Query
    from rowbus.model.sqlserver_address import SqlServerAddress

_FOLDER = "sqlserver/inbox"
_REMEDY = (
    "the table does not exist; starting an endpoint with deduplicate_for creates it, as do "
    "`rowbus schema install MODULE:ENDPOINT` and Inbox.create()."
)


class InboxTable:
    """Statements on one endpoint's table; each runs in its runner's transaction."""

    def __init__(self, address: SqlServerAddress) -> None:
        """Bind the SQL files to the table. No I/O."""
        self.address = address
        self._accept = self._load("accept", "Failed to note a message in", prepare=True)

    def _load(self, operation: str, failing: str, *, prepare: bool = False, **names: str) -> Query:
        address = self.address
        identifiers = {"catalog": address.catalog, "schema": address.schema, "inbox": address.table}
        return load(
            f"{_FOLDER}/{operation}.sql",
            identifiers=identifiers | names,
            failing=f"{failing} {address}",
            remedy=_REMEDY,
            prepare=prepare,
        )

    def create(self) -> list[Statement[None]]:
        """Create the table with its index if it is missing: in one transaction; waits for other creators."""
        create = self._load("create", "Failed to create")
        return [
            lock_creation(self.address),
            Statement(create, {"inbox_name": self.address.qualified}, no_rows),
        ]

    def exists(self) -> Statement[bool]:
        """Say whether the table exists."""
        return exists(self.address)

    def accept(self, message_id: str) -> Statement[bool]:
        """Note a message, and say whether it is new.

        Waits for a transaction that has just noted the same: if that commits, it is not new.
        """
        key = message_key(message_id)
        parameters = {"resource": lock_name("inbox", self.address, key), "message_key": key}
        return Statement(self._accept, parameters, truth)

    def purge(self, older_than: timedelta, batch_size: int) -> Statement[int]:
        """Forget up to `batch_size` messages accepted longer ago than that, and say how many."""
        query = self._load("purge", "Failed to forget old messages of")
        return Statement(query, {"batch_size": batch_size, **span("older_than", older_than)}, number)

    def grant(self, role: str) -> Statement[None]:
        """Let a role note and forget messages."""
        return Statement(self._load("grant", f"Failed to grant {role} privileges on", role=role), {}, no_rows)
