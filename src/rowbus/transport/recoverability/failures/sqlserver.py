"""A long error queue, as those look at it who page through it and search it; rows in flight are passed over.

Invariant: nothing here keeps a lock, and no statement reads more of the queue than it was told to.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rowbus.database.sqlserver.statements import load
from rowbus.database.statements import Query, Statement, no_rows
from rowbus.settings import LONGEST_HEADERS_READ, LONGEST_READ
from rowbus.transport.queues.sqlserver_shape import merged
from rowbus.transport.recoverability import failed_message
from rowbus.transport.recoverability.failures.table import Copy, written

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rowbus.database.statements import Rows
    from rowbus.messages.sqlserver_address import SqlServerAddress
    from rowbus.transport.recoverability.failed_message import FailedMessage


class FailuresTable:
    """Statements on one queue; each runs in its runner's transaction."""

    def __init__(self, address: SqlServerAddress) -> None:
        """Bind the SQL files to the queue's table. No I/O."""
        self.address = address

    def _load(self, operation: str) -> Query:
        address = self.address
        return load(
            f"transport/recoverability/failures/sql/sqlserver/{operation}.sql",
            identifiers={"catalog": address.catalog, "schema": address.schema, "queue": address.table},
            failing=f"Failed to look into {address}",
            queue=str(address),
            prepare=False,
        )

    def positions(self, most: int) -> Statement[list[int]]:
        """Ask where messages are, the newest first, up to so many."""
        return Statement(self._load("positions"), {"most": most}, _numbers)

    def stories(self, positions: Sequence[int]) -> Statement[list[FailedMessage]]:
        """Read the stories of the messages at these positions, in any order, without those that are gone."""
        parameters = {"positions": _listed(positions), "most_bytes": LONGEST_HEADERS_READ}
        return Statement(self._load("stories"), parameters, self._stories)

    def containing(self, positions: Sequence[int], text: str) -> Statement[list[int]]:
        """Find which of the messages at these positions hold a text; see the protocol. Reads all of them."""
        texts = written(text)

        def holding(rows: Rows, _count: int) -> list[int]:
            return [position for position, *content in rows if _holds(texts, *content)]

        parameters = {"positions": _listed(positions), "most_bytes": LONGEST_READ}
        return Statement(self._load("looked_into"), parameters, holding)

    def newest_with(self, text: str, *, looked_at: int, most: int) -> Statement[list[Copy]]:
        """Find messages whose headers hold a text, among the newest, the oldest first."""
        ways = written(text) or [text]
        parameters = {
            "plain": ways[0],
            "written": ways[len(ways) // 2],
            "escaped": ways[-1],
            "looked_at": looked_at,
            "most": most,
            "most_bytes": LONGEST_HEADERS_READ,
        }
        return Statement(self._load("newest_with"), parameters, _copies)

    def bound_time(self, seconds: float) -> Statement[None]:  # noqa: ARG002 - as the protocol has it
        """Ask nothing: T-SQL bounds no statement's time, and chunks are small."""
        return Statement(load("database/sql/sqlserver/state.sql", failing="Failed to ask"), {}, no_rows)

    def _stories(self, rows: Rows, _count: int) -> list[FailedMessage]:
        return [
            failed_message.read(
                row_id,
                position,
                None if headers is None else merged(headers),
                error_queue=self.address,
                size=size,
            )
            for row_id, position, headers, size in rows
        ]


def _listed(positions: Sequence[int]) -> str:
    return ",".join(map(str, positions))


def _numbers(rows: Rows, _count: int) -> list[int]:
    return [int(position) for (position,) in rows]


def _holds(texts: Sequence[str], headers: str | None, body: bytes | None) -> bool:
    return any(text in (headers or "") or text.encode() in bytes(body or b"") for text in texts)


def _copies(rows: Rows, _count: int) -> list[Copy]:
    return [Copy(row_id, position, merged(headers)) for row_id, position, headers in rows]
