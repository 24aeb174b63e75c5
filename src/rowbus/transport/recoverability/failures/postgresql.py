"""A long error queue, as those look at it who page through it and search it.

Invariant: nothing here locks a row, and no statement reads more of the queue than it was told to.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rowbus.database.statements import Query, Statement, load, load_repeating, no_rows, scalar
from rowbus.settings import LONGEST_HEADERS_READ, LONGEST_READ
from rowbus.transport.recoverability import failed_message
from rowbus.transport.recoverability.failures.table import Copy, written

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rowbus.database.statements import Rows
    from rowbus.messages.address import QueueAddress
    from rowbus.transport.recoverability.failed_message import FailedMessage

_FOLDER: Final = "transport/recoverability/failures/sql/postgresql"


def newest_holding(
    addresses: Sequence[QueueAddress], text: str, *, looked_at: int, most: int, bodies: bool
) -> Statement[dict[QueueAddress, list[int]]]:
    """Find which of the newest messages of several queues hold a text; see `failures.table`."""
    query = load_repeating(
        f"{_FOLDER}/newest_holding.sql",
        [{"schema": each.schema, "queue": each.table} for each in addresses],
        failing=f"Failed to look into {', '.join(map(str, addresses))}",
    )
    parameters = {
        **_texts(text),
        "looked_at": looked_at,
        "most": most,
        "most_bytes": LONGEST_READ if bodies else -1,
    }

    def decode(rows: Rows, _count: int) -> dict[QueueAddress, list[int]]:
        return dict(zip(addresses, rows[0], strict=True))

    return Statement(query, parameters, decode)


def _texts(text: str) -> dict[str, object]:
    """Return the texts looked for, and the same as bytes."""
    texts = written(text)
    return {"texts": texts, "fragments": [one.encode() for one in texts]}


class FailuresTable:
    """Statements on one queue; each runs in its runner's transaction."""

    def __init__(self, address: QueueAddress) -> None:
        """Bind the SQL files to the queue's table. No I/O."""
        self.address = address

    def _load(self, operation: str) -> Query:
        address = self.address
        return load(
            f"{_FOLDER}/{operation}.sql",
            identifiers={"schema": address.schema, "queue": address.table},
            failing=f"Failed to look into {address}",
            queue=str(address),
            prepare=False,
        )

    def positions(self, most: int) -> Statement[list[int]]:
        """Ask where messages are, the newest first, up to so many."""
        return Statement(self._load("positions"), {"most": most}, scalar)

    def stories(self, positions: Sequence[int]) -> Statement[list[FailedMessage]]:
        """Read the stories of the messages at these positions, in any order, without those that are gone."""
        parameters = {"positions": list(positions), "most_bytes": LONGEST_HEADERS_READ}
        return Statement(self._load("stories"), parameters, self._stories)

    def containing(self, positions: Sequence[int], text: str) -> Statement[list[int]]:
        """Find which of the messages at these positions hold a text; see the protocol."""
        parameters = {"positions": list(positions), **_texts(text), "most_bytes": LONGEST_READ}
        return Statement(self._load("containing"), parameters, scalar)

    def newest_with(self, text: str, *, looked_at: int, most: int) -> Statement[list[Copy]]:
        """Find messages whose headers hold a text, among the newest, the oldest first."""
        parameters = {
            "texts": written(text),
            "looked_at": looked_at,
            "most": most,
            "most_bytes": LONGEST_HEADERS_READ,
        }
        return Statement(self._load("newest_with"), parameters, _copies)

    def bound_time(self, seconds: float) -> Statement[None]:
        """Have no statement of this transaction run longer."""
        return Statement(
            self._load("bound_time"), {"statement_timeout": max(1, round(seconds * 1000))}, no_rows
        )

    def _stories(self, rows: Rows, _count: int) -> list[FailedMessage]:
        return [
            failed_message.read(row_id, position, headers, error_queue=self.address, size=size)
            for row_id, position, headers, size in rows
        ]


def _copies(rows: Rows, _count: int) -> list[Copy]:
    return [Copy._make(row) for row in rows]
