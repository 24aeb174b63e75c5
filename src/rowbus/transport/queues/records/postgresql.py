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
    from rowbus.messages.address import QueueAddress


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

    def can_be_used(self) -> Statement[bool]:
        """Say whether this role can use the table; see the base."""
        which = self.which_can_be_used()
        return Statement(which.query, which.parameters, _has_rows)

    def which_can_be_used(self, *others: RecordStatements) -> Statement[list[QueueAddress]]:
        """Return the addresses of the tables that can be used; see the base."""
        tables: list[RecordStatements] = [self, *others]
        file = "transport/queues/records/sql/postgresql/which_can_be_used.sql"
        failing = f"Failed to look for {', '.join(str(one.address) for one in tables)}"
        parameters = {
            "schema_names": [one.address.schema for one in tables],
            "table_names": [one.address.table for one in tables],
            "privileges": [",".join(one.privileges) for one in tables],
        }

        def decode(rows: Rows, _count: int) -> list[QueueAddress]:
            return [tables[int(number) - 1].address for (number,) in rows]

        return Statement(load(file, failing=failing, prepare=True), parameters, decode)

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


def _has_rows(rows: Rows, _count: int) -> bool:
    return bool(rows)
