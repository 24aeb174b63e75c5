"""Tables of facts on PostgreSQL: create them, find them, read what they answer.

Invariant: a subclass only adds what is its own.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

from rowbus.database.statements import Statement, affected, load, no_rows, scalar
from rowbus.transport.queues.postgresql import exists
from rowbus.transport.queues.records.table import RecordStatements

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from rowbus.database.statements import Query, Rows


class RecordTable(RecordStatements):
    """Statements on one table; each runs in its runner's transaction."""

    loader = load

    def create(self) -> list[Statement[None]]:
        """Create the table if it is missing: to run in one transaction. Another creator may make this fail."""
        return [Statement(self._load("create", "Failed to create"), {}, no_rows)]

    def exists(self) -> Statement[bool]:
        """Say whether the table exists."""
        return exists(self.address)

    def can_be_changed(self) -> Statement[bool]:
        """Say whether this role may read, write and delete from the table; see the base."""
        file = "transport/queues/records/sql/postgresql/can_be_changed.sql"
        return self._asked(load(file, failing=f"Failed to look for {self.address}"))

    def can_be_used(self, *privileges: str) -> Statement[bool]:
        """Say whether the table is there, of a trusted owner, and this role has these privileges on it."""
        file = "transport/queues/records/sql/postgresql/can_be_used.sql"
        query = load(file, failing=f"Failed to look for {self.address}", prepare=True)
        parameters = {"schema_name": self.address.schema, "table_name": self.address.table}
        return Statement(query, {**parameters, "privileges": list(privileges)}, scalar)

    def _asked(self, query: Query) -> Statement[bool]:
        return Statement(
            query, {"schema_name": self.address.schema, "table_name": self.address.table}, scalar
        )

    def _named(self, kind: str) -> str:
        """Name an index or a constraint of the table; PostgreSQL would cut what has the table's whole name in it."""
        digest = hashlib.md5(self.address.canonical.encode(), usedforsecurity=False).hexdigest()
        return f"{kind}_{digest}"

    def _place(self) -> Mapping[str, str]:
        return {"schema": self.address.schema}

    def _counted(self, rows: Rows, count: int) -> int:
        return affected(rows, count)

    def _instant(self, value: Any) -> datetime:  # noqa: ANN401 - what the driver makes of it
        time: datetime = value
        return time
