"""Tables of facts on SQL Server: create them, find them, grant rights on them.

Invariant: a subclass only names its files and adds what is its own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from rowbus.database.sqlserver.statements import load
from rowbus.database.statements import Statement, no_rows
from rowbus.transport.queues.sqlserver import exists, lock_creation

if TYPE_CHECKING:
    from rowbus.database.statements import Query
    from rowbus.messages.sqlserver_address import SqlServerAddress


class RecordTable:
    """Statements on one table; each runs in its runner's transaction."""

    folder: ClassVar[str]
    """Where its files are."""

    variable: ClassVar[str]
    """What its files call it; `<variable>_name` is its qualified name."""

    remedy: ClassVar[str]
    """What to do when it is missing."""

    def __init__(self, address: SqlServerAddress) -> None:
        """Bind the SQL files to the table. No I/O."""
        self.address = address

    def _load(self, operation: str, failing: str, *, prepare: bool = False, **names: str) -> Query:
        address = self.address
        identifiers = {"catalog": address.catalog, "schema": address.schema, self.variable: address.table}
        return load(
            f"{self.folder}/{operation}.sql",
            identifiers=identifiers | names,
            failing=f"{failing} {address}",
            remedy=self.remedy,
            prepare=prepare,
        )

    def create(self) -> list[Statement[None]]:
        """Create the table with its index if it is missing: in one transaction; waits for other creators."""
        create = self._load("create", "Failed to create")
        names = {f"{self.variable}_name": self.address.qualified}
        return [lock_creation(self.address), Statement(create, names, no_rows)]

    def exists(self) -> Statement[bool]:
        """Say whether the table exists."""
        return exists(self.address)

    def grant(self, role: str) -> Statement[None]:
        """Let a role do what endpoints do with it."""
        return Statement(self._load("grant", f"Failed to grant {role} privileges on", role=role), {}, no_rows)
