"""The table of an endpoint's schedules: the operations on it, on every database, and the ticks that nobody sends.

Invariants: nothing here names a database but `COLUMNS`. `diagnose_schedules` is pure, and never complains about a
schedule whose endpoint runs: it is looked at every second.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final, NamedTuple

from rowbus.database.backends import bound_table
from rowbus.database.statements import Statement
from rowbus.transport.queues.diagnosis import Finding, Level, duration
from rowbus.transport.queues.records.table import OwnTable, RecordStatements

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from rowbus.database.statements import Rows
    from rowbus.messages.address import Addresses, QueueAddress

RECURRING: Final = "Recurring"
"""The qualifier of the table: `Billing.Recurring`."""
COLUMNS: Final = {
    "name": "pg_catalog.text",
    "schedule": "pg_catalog.text",
    "next_due": "pg_catalog.timestamptz",
    "last_sent": "pg_catalog.timestamptz",
}
"""By which such a table is found, on PostgreSQL."""

MISSED_AFTER: Final = timedelta(seconds=30)


class ScheduleRow(NamedTuple):
    """A schedule as the table has it; times are aware. `last_sent` is the last tick that was sent, None for none."""

    name: str
    schedule: str
    next_due: datetime
    last_sent: datetime | None
    at: datetime
    """The time by the database's clock."""


class RecurringTable(RecordStatements):
    """Statements on the table of an endpoint's schedules; each runs in its runner's transaction."""

    folder = "transport/recurring"
    variable = "recurring"
    remedy = (
        "the table does not exist; starting an endpoint with recurring messages creates it, as does "
        "`rowbus schema install MODULE:ENDPOINT`."
    )

    def __init__(self, address: QueueAddress) -> None:
        """Bind the SQL files to the table. No I/O."""
        super().__init__(address)
        self._list = self._load("list", "Failed to look for recurring messages in", prepare=True)
        self._advance = self._load("advance", "Failed to advance a schedule of", prepare=True)

    def declare(self, name: str, schedule: str, next_due: datetime) -> Statement[int]:
        """Note a schedule, or another text for one; what is noted with this text stays as it is.

        Waits for a transaction that sends its tick. Says for how many schedules that was news.
        """
        query = self._load("declare", "Failed to note a schedule in")
        return Statement(query, {"name": name, "schedule": schedule, "next_due": next_due}, self._counted)

    def _schedules(self, rows: Rows, _count: int) -> list[ScheduleRow]:
        return [self._schedule(*row) for row in rows]

    def _schedule(
        self, name: str, schedule: str, next_due: object, last_sent: object, at: object
    ) -> ScheduleRow:
        sent = None if last_sent is None else self._instant(last_sent)
        return ScheduleRow(name, schedule, self._instant(next_due), sent, self._instant(at))

    def list(self) -> Statement[list[ScheduleRow]]:
        """Return all schedules, by name. Keeps no lock; may wait for a transaction that changes one."""
        return Statement(self._list, {}, self._schedules)

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
        return Statement(self._advance, parameters, self._is_advanced)

    def hasten(self, name: str) -> Statement[int]:
        """Have the next tick of a schedule be due now; say how many there were of this name. On PostgreSQL."""
        return Statement(
            self._load("hasten", "Failed to hasten a schedule of"), {"name": name}, self._counted
        )

    def remove(self, name: str) -> Statement[int]:
        """Forget a schedule; say how many there were of this name. Waits for a transaction that sends its tick."""
        query = self._load("remove", "Failed to remove a schedule of")
        return Statement(query, {"name": name}, self._counted)

    def _is_advanced(self, rows: Rows, count: int) -> bool:
        return self._counted(rows, count) > 0


def recurring_table(address: QueueAddress) -> RecurringTable:
    """Return the statements on a table of schedules. No I/O."""
    table: RecurringTable = bound_table("rowbus.transport.recurring", "RecurringTable", address)
    return table


def own_schedules(address: QueueAddress) -> OwnTable:
    """Return a table of schedules as an endpoint has it."""
    return OwnTable(recurring_table(address), "the table of schedules", is_viewed=True)


def recurring_address(endpoint: str, addresses: Addresses) -> QueueAddress:
    """Return the table of an endpoint's schedules."""
    return addresses.for_endpoint(endpoint, qualifier=RECURRING)


def diagnose_schedules(subject: str, rows: Iterable[ScheduleRow]) -> Iterator[Finding]:
    """Find the schedules of an endpoint that are missed."""
    for row in rows:
        if (late := lateness(row)) > MISSED_AFTER:
            text = f"{row.name} is due since {duration(late)}, and nobody sends it"
            advice = (
                "start its endpoint: `rowbus run MODULE:ENDPOINT`; or resume what is paused (`rowbus pause` lists it); "
                "or `rowbus recurring remove` it, if no program has it any more"
            )
            yield Finding(Level.WARN, subject, text, advice)


def lateness(row: ScheduleRow) -> timedelta:
    """Return for how long a tick is due, by the database's clock."""
    return max(row.at - row.next_due, timedelta())
