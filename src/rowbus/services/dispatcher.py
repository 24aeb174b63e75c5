"""Puts messages into queues: with the receive transaction, or in one of its own.

Invariant: each dispatch is all or nothing, and collapses equal sends (`model.dispatch`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rowbus.model.dispatch import by_destination, deduplicate
from rowbus.tables.queue import QueueTable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rowbus.database.postgresql.database import SessionPool
    from rowbus.database.statements import Statement
    from rowbus.model.address import QueueAddress
    from rowbus.model.dispatch import Send
    from rowbus.model.message import OutgoingMessage


class Dispatcher:
    """Sends to any queue of one database; `notify` says whether receivers are woken."""

    def __init__(self, pool: SessionPool, *, notify: bool) -> None:
        """Dispatch through the pool's sessions; no I/O."""
        self._pool = pool
        self._notify = notify
        self._tables: dict[QueueAddress, QueueTable] = {}

    def statements(self, sends: Sequence[Send]) -> list[Statement[None]]:
        """Return the statements that send these, one for each queue; the caller chooses the transaction."""
        if not sends:
            return []
        groups = by_destination(deduplicate(sends))
        return [self._statement(self._table(address), messages) for address, messages in groups.items()]

    async def dispatch(self, sends: Sequence[Send]) -> None:
        """Send in a transaction of its own, committed when this returns. Raises QueueNotFoundError or StorageError."""
        statements = self.statements(sends)
        if not statements:
            return
        async with self._pool.session() as session, session.transaction():
            await session.run_all(statements)

    def _table(self, address: QueueAddress) -> QueueTable:
        table = self._tables.get(address)
        if table is None:
            table = self._tables[address] = QueueTable(address)
        return table

    def _statement(self, table: QueueTable, messages: list[OutgoingMessage]) -> Statement[None]:
        if len(messages) == 1:
            return table.send(messages[0], notify=self._notify)
        return table.send_batch(messages, notify=self._notify)
