"""An error queue on SQL Server, which is a queue like any other, as those look at it who put its messages back.

Rows in flight are locked, and passed over.

Invariant: nothing here changes the table's shape, and nothing waits for those who have messages in hand.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rowbus.database.sqlserver.statements import load, number
from rowbus.transport.queues.sqlserver import peeked
from rowbus.transport.queues.sqlserver_shape import merged
from rowbus.transport.recoverability import table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rowbus.database.statements import Query, Row, Rows
    from rowbus.messages.message import PeekedMessage
    from rowbus.messages.sqlserver_address import SqlServerAddress


class ErrorQueueTable(table.ErrorQueueTable):
    """Statements on one error queue; each runs in its runner's transaction."""

    address: SqlServerAddress

    def _load(self, operation: str, failing: str) -> Query:
        address = self.address
        return load(
            f"transport/recoverability/sql/sqlserver/{operation}.sql",
            identifiers={"catalog": address.catalog, "schema": address.schema, "queue": address.table},
            failing=f"{failing} {address}",
            queue=str(address),
        )

    def _ids(self, row_ids: Sequence[str]) -> object:
        return ",".join(row_ids)

    def _counted(self, rows: Rows, count: int) -> int:
        return number(rows, count)

    def _headers(self, text: str) -> str:
        return merged(text)

    def _peeked(self, row: Row) -> PeekedMessage:
        return peeked(row)
