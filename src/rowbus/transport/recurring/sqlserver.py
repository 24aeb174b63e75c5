"""The schedules of an endpoint's recurring messages: one row each, with the tick that it waits for.

Invariant: a schedule advances in the transaction that sends its tick, so no tick is sent twice.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rowbus.database.sqlserver.values import aware, instant, number, truth
from rowbus.database.statements import Statement
from rowbus.transport.queues.record_table import RecordTable
from rowbus.transport.recurring.table import REMEDY, ScheduleRow

if TYPE_CHECKING:
    from datetime import datetime

    from rowbus.database.statements import Rows
    from rowbus.messages.sqlserver_address import SqlServerAddress


class RecurringTable(RecordTable):
    """Statements on one endpoint's table; each runs in its runner's transaction."""

    folder = "transport/recurring/sql/sqlserver"
    variable = "recurring"
    remedy = REMEDY

    def __init__(self, address: SqlServerAddress) -> None:
        """Bind the SQL files to the table. No I/O."""
        super().__init__(address)
        self._list = self._load("list", "Failed to look for recurring messages in", prepare=True)
        self._advance = self._load("advance", "Failed to advance a schedule of", prepare=True)

    def declare(self, name: str, schedule: str, next_due: datetime) -> Statement[int]:
        """Note a schedule, or another text for one; what is noted with this text stays as it is.

        Waits for a transaction that sends its tick. Says for how many schedules that was news.
        """
        query = self._load("declare", "Failed to note a schedule in")
        return Statement(query, {"name": name, "schedule": schedule, "next_due": next_due}, number)

    def list(self) -> Statement[list[ScheduleRow]]:
        """Return all schedules, by name. Waits for a transaction that changes one; keeps no lock."""
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
        return Statement(self._advance, parameters, truth)

    def remove(self, name: str) -> Statement[int]:
        """Forget a schedule; say how many there were of this name. Waits for a transaction that sends its tick."""
        return Statement(self._load("remove", "Failed to remove a schedule of"), {"name": name}, number)


def _schedules(rows: Rows, _count: int) -> list[ScheduleRow]:
    return [
        ScheduleRow(name, schedule, instant(next_due), aware(last_sent), instant(at))
        for name, schedule, next_due, last_sent, at in rows
    ]
