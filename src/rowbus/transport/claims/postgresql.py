"""The table of claimed values on PostgreSQL.

Invariant: as in `table.py`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rowbus.database.statements import Statement, no_rows
from rowbus.transport.claims import table
from rowbus.transport.queues.records.postgresql import RecordTable

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import timedelta


class ClaimedValues(table.ClaimedValues, RecordTable):
    """Statements on a table of claimed values."""

    def create(self) -> list[Statement[None]]:
        """Create the table if it is missing: to run in one transaction. Another creator may make this fail."""
        failing, name = "Failed to create the index of", self._named("keep_until")
        index = self._load("create_index", failing, keep_until_index=name)
        return [*super().create(), Statement(index, {}, no_rows)]

    def _list(self, ids: Sequence[str]) -> object:
        return list(ids)

    def _span(self, keep_for: timedelta) -> dict[str, object]:
        return {"keep_for": keep_for}
