"""The table of discarded messages on PostgreSQL.

Invariant: as in `discarded/table.py`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rowbus.database.statements import Statement, scalar
from rowbus.transport.operations.discarded import table
from rowbus.transport.operations.discarded.table import KEPT_DAYS, DiscardedMessages
from rowbus.transport.queues.records.postgresql import RecordTable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rowbus.database.statements import Rows
    from rowbus.messages.address import QueueAddress


class DiscardedTable(table.DiscardedTable, RecordTable):
    """Statements on one table of discarded messages."""

    def keep(self, operation: str, queue: QueueAddress, row_ids: Sequence[str]) -> Statement[int]:
        """Move rows of a queue here and say how many; see the base."""
        query = self._load(
            "keep",
            f"Failed to keep what is discarded of {queue} in",
            queue_schema=queue.schema,
            queue=queue.table,
        )
        parameters = {"operation": operation, "queue_name": str(queue), "row_ids": list(row_ids)}
        return Statement(query, parameters, self._counted)

    def bring_back(self, operation: str, queue: QueueAddress) -> Statement[int]:
        """Move what an operation discarded back to its queue; see the base."""
        query = self._load(
            "bring_back",
            f"Failed to bring messages back to {queue} from",
            queue_schema=queue.schema,
            queue=queue.table,
        )
        return Statement(query, {"operation": operation, "queue_name": str(queue)}, scalar)

    def forget(self) -> Statement[int]:
        """Delete what is older than a week; see the base."""
        query = self._load("forget", "Failed to forget old messages of")
        return Statement(query, {"days": KEPT_DAYS}, self._counted)

    def list(self, most: int) -> Statement[list[DiscardedMessages]]:
        """Return what can be brought back, the latest first."""
        query = self._load("list", "Failed to look into")
        return Statement(query, {"most": most, "days": KEPT_DAYS}, _discarded)


def _discarded(rows: Rows, _count: int) -> list[DiscardedMessages]:
    return [DiscardedMessages._make(row) for row in rows]
