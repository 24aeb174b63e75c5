"""The keeper of an inbox: deletes, once a minute, the entries that are older than the retention.

Invariant: as of every `RecordKeeper`.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from rowbus.transport.queues.records.keeper import INTERVAL, RecordKeeper

if TYPE_CHECKING:
    from datetime import timedelta

    from rowbus.database.sessions import SessionPool
    from rowbus.database.statements import Statement
    from rowbus.running.critical import Alarm
    from rowbus.transport.deduplication.table import InboxTable

BATCH: Final = 1000  # rows deleted in one transaction


class InboxKeeper(RecordKeeper):
    """Keeps one endpoint's inbox within its retention. For one event loop."""

    what = "messages"
    logger = logging.getLogger("rowbus.inbox")

    def __init__(
        self,
        pool: SessionPool,
        table: InboxTable,
        remember: timedelta,
        alarm: Alarm,
        *,
        interval: float = INTERVAL,
    ) -> None:
        """Forget what was accepted longer ago than `remember`. No I/O."""
        super().__init__(pool, table.address, alarm, interval=interval)
        self._table = table
        self._remember = remember

    def purge(self) -> Statement[int]:
        """Return the statement that forgets one batch of messages."""
        return self._table.purge(self._remember, BATCH)
