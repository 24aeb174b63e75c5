"""The table of pauses on PostgreSQL.

Invariant: as in `pauses/table.py`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rowbus.database.statements import Statement, no_rows
from rowbus.transport.pauses import table
from rowbus.transport.pauses.table import Pause
from rowbus.transport.queues.records.postgresql import RecordTable

if TYPE_CHECKING:
    from datetime import datetime

    from rowbus.database.statements import Rows
    from rowbus.transport.pauses.table import PauseSubject


class PausesTable(table.PausesTable, RecordTable):
    """Statements on one table of pauses."""

    def create(self) -> list[Statement[None]]:
        """Create the table if it is missing: to run in one transaction. Another creator may make this fail."""
        share = self._load("share", "Failed to let others look into")
        return [*super().create(), Statement(share, {}, no_rows)]

    def pause(self, what: PauseSubject, *, person: str, why: str, until: datetime | None) -> Statement[int]:
        """Pause something, or say anew why and until when."""
        parameters = {**what._asdict(), "person": person, "why": why, "until": until}
        return Statement(self._load("pause", "Failed to add to"), parameters, self._counted)

    def scale(
        self, what: PauseSubject, amount: int, *, person: str, why: str, until: datetime | None
    ) -> Statement[int]:
        """Have so much of something run, or say anew how much, why and until when."""
        parameters = {**what._asdict(), "person": person, "why": why, "until": until, "amount": amount}
        return Statement(self._load("scale", "Failed to add to"), parameters, self._counted)

    def widen(self) -> Statement[None]:
        """Give a table that is older than scales its column."""
        return Statement(self._load("widen", "Failed to add a column to"), {}, no_rows)

    def is_wide(self) -> Statement[bool]:
        """Say whether the table has the column of scales."""
        return self._asked(self._load("is_wide", "Failed to look for"))

    def resume(self, what: PauseSubject) -> Statement[int]:
        """End a pause or a scale; say 0 if there was none."""
        return Statement(self._load("resume", "Failed to end a pause in"), what._asdict(), self._counted)

    def list(self) -> Statement[list[Pause]]:
        """Return the pauses and scales in force."""
        return Statement(self._load("list", "Failed to look into", prepare=True), {}, _pauses)


def _pauses(rows: Rows, _count: int) -> list[Pause]:
    return [Pause._make(row) for row in rows]
