"""The table of claimed values on SQL Server.

Invariant: as in `table.py`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rowbus.database.sqlserver.statements import span
from rowbus.transport.claims import table
from rowbus.transport.queues.records.sqlserver import RecordTable

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import timedelta


class ClaimedValues(table.ClaimedValues, RecordTable):
    """Statements on a table of claimed values."""

    def _list(self, ids: Sequence[str]) -> object:
        return ",".join(ids)

    def _span(self, keep_for: timedelta) -> dict[str, object]:
        return {**span("keep_for", keep_for)}
