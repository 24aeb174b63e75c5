"""An error queue on PostgreSQL, which is a queue like any other, as those look at it who put its messages back.

Invariant: nothing here changes the table's shape, and nothing waits for those who have messages in hand.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rowbus.database.statements import Query, affected, load
from rowbus.messages.message import PeekedMessage
from rowbus.transport.recoverability import table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rowbus.database.statements import Row, Rows


class ErrorQueueTable(table.ErrorQueueTable):
    """Statements on one error queue; each runs in its runner's transaction."""

    def _load(self, operation: str, failing: str) -> Query:
        address = self.address
        return load(
            f"transport/recoverability/sql/postgresql/{operation}.sql",
            identifiers={"schema": address.schema, "queue": address.table},
            failing=f"{failing} {address}",
            queue=str(address),
        )

    def _ids(self, row_ids: Sequence[str]) -> object:
        return [*row_ids]

    def _counted(self, rows: Rows, count: int) -> int:
        return affected(rows, count)

    def _headers(self, text: str) -> str:
        return text

    def _peeked(self, row: Row) -> PeekedMessage:
        return PeekedMessage._make(row)
