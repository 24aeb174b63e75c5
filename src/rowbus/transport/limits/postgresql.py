"""The tokens of an endpoint's rate limits: one row a key, for as long as it lacks tokens.

Invariant: what time it is the database's clock says.
"""

from __future__ import annotations

from operator import attrgetter
from typing import TYPE_CHECKING

from rowbus.database.statements import Statement
from rowbus.messages.message import MessageRow
from rowbus.transport.limits import table
from rowbus.transport.limits.decisions import LONGEST, TokenGrant
from rowbus.transport.queues.records.postgresql import RecordTable

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from rowbus.database.statements import Rows
    from rowbus.messages.address import QueueAddress
    from rowbus.transport.limits.decisions import TokenRequest
    from rowbus.transport.limits.rate import Bucket


class LimitTable(table.LimitTable, RecordTable):
    """Statements on one endpoint's table."""

    def __init__(self, address: QueueAddress) -> None:
        """Bind the SQL files to the table. No I/O."""
        super().__init__(address)
        self._take = self._load("take", "Failed to take tokens of", prepare=True)

    def take(self, asked: Sequence[TokenRequest], *, defers: bool) -> Statement[dict[str, TokenGrant]]:
        """Take tokens; see the base."""
        parameters = {
            "keys": [each.bucket.key for each in asked],
            "intervals": [each.bucket.interval for each in asked],
            "bursts": [each.bucket.burst for each in asked],
            "waited": [each.waited for each in asked],
            "fresh": [each.fresh for each in asked],
            "defers": defers,
            "longest": LONGEST,
        }
        return Statement(self._take, parameters, _granted)

    def begin(self, keys: Iterable[str]) -> Statement[int]:
        """Begin keys; see the base."""
        return Statement(
            self._load("begin", "Failed to begin a key of"), {"keys": sorted(keys)}, self._counted
        )

    def give_back(self, unused: Sequence[tuple[Bucket, int]]) -> Statement[int]:
        """Give tokens back; see the base."""
        parameters = {
            "keys": [bucket.key for bucket, _ in unused],
            "seconds": [bucket.interval * count for bucket, count in unused],
        }
        return Statement(self._load("give_back", "Failed to give tokens back to"), parameters, self._counted)

    def sweep(self, batch_size: int) -> Statement[int]:
        """Forget keys; see the base."""
        query = self._load("sweep", "Failed to forget idle keys of")
        return Statement(query, {"batch_size": batch_size}, self._counted)

    def receive_these(self, queue: QueueAddress, rows: Sequence[MessageRow]) -> Statement[list[MessageRow]]:
        """Take messages of a queue again; see the base."""
        failing = f"Failed to receive from {queue} by"
        query = self._load("receive_these", failing, queue_schema=queue.schema, queue=queue.table)
        parameters = {"positions": [row.seq for row in rows], "ids": [row.id for row in rows]}
        return Statement(query, parameters, _rows)


def _rows(rows: Rows, _count: int) -> list[MessageRow]:
    return sorted((MessageRow(*row) for row in rows), key=attrgetter("seq"))


def _granted(rows: Rows, _count: int) -> dict[str, TokenGrant]:
    return {key: TokenGrant(*rest) for key, *rest in rows}
