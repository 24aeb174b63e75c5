"""The table of an endpoint's schedules: the operations on it, on every database.

Invariant: nothing here names a database.
"""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from rowbus.database.backends import bound_table
from rowbus.transport.queues.table import RecordTable

if TYPE_CHECKING:
    from rowbus.database.statements import Statement
    from rowbus.messages.address import QueueAddress
    from rowbus.messages.addresses import Addresses

RECURRING: Final = "Recurring"
"""The qualifier of the table: `Billing.Recurring`."""

REMEDY: Final = (
    "the table does not exist; starting an endpoint with recurring messages creates it, as does "
    "`rowbus schema install MODULE:ENDPOINT`."
)


class ScheduleRow(NamedTuple):
    """A schedule as the table has it; times are aware. `last_sent` is the last tick that was sent, None for none."""

    name: str
    schedule: str
    next_due: datetime
    last_sent: datetime | None
    at: datetime
    """What time it is by the database's clock."""


class RecurringTable(RecordTable, Protocol):
    """Statements on the table of an endpoint's schedules."""

    def declare(self, name: str, schedule: str, next_due: datetime) -> Statement[int]:
        """Note a schedule, or another text for one; what is noted with this text stays as it is.

        Waits for a transaction that sends its tick. Says for how many schedules that was news.
        """
        raise NotImplementedError

    def list(self) -> Statement[list[ScheduleRow]]:
        """Return all schedules, by name. Locks nothing."""
        raise NotImplementedError

    def advance(self, row: ScheduleRow, following: datetime, sent: datetime | None) -> Statement[bool]:
        """Have a schedule wait for its next tick; say whether it did: if not, another sends the tick, or has sent it.

        Locks the row and never waits. `sent` is the last tick that this transaction sends, if it sends one.
        """
        raise NotImplementedError

    def remove(self, name: str) -> Statement[int]:
        """Forget a schedule; say how many there were of this name. Waits for a transaction that sends its tick."""
        raise NotImplementedError


def recurring_table(address: QueueAddress) -> RecurringTable:
    """Return the statements on a table of schedules. No I/O."""
    table: RecurringTable = bound_table("rowbus.transport.recurring", "RecurringTable", address)
    return table


def recurring_address(endpoint: str, addresses: Addresses) -> QueueAddress:
    """Return the table of an endpoint's schedules."""
    return addresses.for_endpoint(endpoint, qualifier=RECURRING)
