"""The schedules of an endpoint's recurring messages: one row each, with the tick that it waits for.

Invariant: a schedule advances in the transaction that sends its tick, so no tick is sent twice.
"""

from __future__ import annotations

from rowbus.transport.queues.records.postgresql import RecordTable
from rowbus.transport.recurring import table


class RecurringTable(table.RecurringTable, RecordTable):
    """Statements on one endpoint's table."""
