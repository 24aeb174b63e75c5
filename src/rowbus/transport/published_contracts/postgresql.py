"""The table of published contracts on PostgreSQL.

Invariant: as in `published_contracts/table.py`.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from rowbus.database.statements import Statement
from rowbus.transport.published_contracts import table
from rowbus.transport.published_contracts.table import (
    BESIDE,
    KEPT,
    LARGEST,
    MOST_READ,
    SEEN_EVERY,
    PublishedDocument,
)
from rowbus.transport.queues.records.postgresql import RecordTable

if TYPE_CHECKING:
    from rowbus.database.statements import Rows


class PublishedContractsTable(table.PublishedContractsTable, RecordTable):
    """Statements on one table of published contracts."""

    def publish(self, endpoint: str, version: str, document: str) -> Statement[int]:
        """Note that a process of this version is there; see the base."""
        parameters = {
            "endpoint": endpoint,
            "version": version,
            "document": document,
            "days": KEPT.days,
            "minutes": SEEN_EVERY // timedelta(minutes=2),
        }
        return Statement(self._load("publish", "Failed to publish a contract in"), parameters, self._counted)

    def list(self) -> Statement[list[PublishedDocument]]:
        """Return the versions that run; see the base."""
        parameters = {"minutes": BESIDE // timedelta(minutes=1), "largest": LARGEST, "most_bytes": MOST_READ}
        return Statement(self._load("list", "Failed to look into"), parameters, _documents)


def _documents(rows: Rows, _count: int) -> list[PublishedDocument]:
    return [PublishedDocument._make(row) for row in rows]
