"""The schedules of an endpoint's recurring messages: one row each, with the tick that it waits for.

Invariant: a schedule advances in the transaction that sends its tick, so no tick is sent twice.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rowbus.database.statements import Statement, affected, load, no_rows, scalar
from rowbus.transport.recurring.table import REMEDY, ScheduleRow

if TYPE_CHECKING:
    from datetime import datetime

    from rowbus.database.statements import Query, Rows
    from rowbus.messages.address import QueueAddress

_FOLDER = "transport/recurring/sql/postgresql"


class RecurringTable:
    """Statements on one endpoint's table; each runs in its runner's transaction."""

    def __init__(self, address: QueueAddress) -> None:
        """Bind the SQL files to the table. No I/O."""
        self.address = address
        self._list = self._load("list", "Failed to look for recurring messages in", prepare=True)
        self._advance = self._load("advance", "Failed to advance a schedule of", prepare=True)

    def _load(self, operation: str, failing: str, *, prepare: bool = False, **identifiers: str) -> Query:
        address = self.address
        return load(
            f"{_FOLDER}/{operation}.sql",
            identifiers={"schema": address.schema, "recurring": address.table, **identifiers},
            failing=f"{failing} {address}",
            remedy=REMEDY,
            prepare=prepare,
        )

    def create(self) -> list[Statement[None]]:
        """Create the table if it is missing: to run in one transaction. Another creator may make this fail."""
        return [Statement(self._load("create", "Failed to create"), {}, no_rows)]

    def exists(self) -> Statement[bool]:
        """Say whether the table exists."""
        query = self._load("exists", "Failed to look for")
        return Statement(query, {"table_name": str(self.address)}, scalar)

    def declare(self, name: str, schedule: str, next_due: datetime) -> Statement[int]:
        """Note a schedule, or another text for one; what is noted with this text stays as it is.

        Waits for a transaction that sends its tick. Says for how many schedules that was news.
        """
        query = self._load("declare", "Failed to note a schedule in")
        return Statement(query, {"name": name, "schedule": schedule, "next_due": next_due}, affected)

    def list(self) -> Statement[list[ScheduleRow]]:
        """Return all schedules, by name. Locks nothing."""
        return Statement(self._list, {}, _schedules)

    def advance(self, row: ScheduleRow, following: datetime, sent: datetime | None) -> Statement[bool]:
        """Have a schedule wait for its next tick; say whether it did: if not, another sends the tick, or has sent it.

        Locks the row and never waits. `sent` is the last tick that this transaction sends, if it sends one.
        """
        parameters = {
            "name": row.name,
            "schedule": row.schedule,
            "expected": row.next_due,
            "following": following,
            "sent": sent,
        }
        return Statement(self._advance, parameters, _is_advanced)

    def remove(self, name: str) -> Statement[int]:
        """Forget a schedule; say how many there were of this name. Waits for a transaction that sends its tick."""
        return Statement(self._load("remove", "Failed to remove a schedule of"), {"name": name}, affected)

    def grant(self, role: str) -> Statement[None]:
        """Let a role note schedules and advance them."""
        return Statement(self._load("grant", f"Failed to grant {role} privileges on", role=role), {}, no_rows)


def _schedules(rows: Rows, _count: int) -> list[ScheduleRow]:
    return [ScheduleRow._make(row) for row in rows]


def _is_advanced(_rows: Rows, count: int) -> bool:
    return count > 0
