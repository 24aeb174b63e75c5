"""Puts messages into queues and events into logs: with the receive transaction, or in one of its own.

Invariant: each dispatch is all or nothing, and collapses equal sends (`model.dispatch`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rowbus.model.dispatch import AppendedEvent, Send, by_destination, by_log, deduplicate
from rowbus.tables.log import LogTable
from rowbus.tables.queue import QueueTable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rowbus.database.postgresql.database import SessionPool
    from rowbus.database.statements import Statement
    from rowbus.model.address import QueueAddress
    from rowbus.model.dispatch import Leaving
    from rowbus.model.message import OutgoingMessage


class Dispatcher:
    """Sends to any queue of one database; `notify` says whether receivers are woken."""

    def __init__(self, pool: SessionPool, *, notify: bool) -> None:
        """Dispatch through the pool's sessions; no I/O."""
        self._pool = pool
        self._notify = notify
        self._tables: dict[QueueAddress, QueueTable] = {}
        self._logs: dict[str, LogTable] = {}

    def statements(self, leaving: Sequence[Leaving]) -> list[Statement[object]]:
        """Return the statements that send and append these, one a queue or log; the caller chooses the transaction."""
        if not leaving:
            return []
        groups = by_destination(deduplicate([send for send in leaving if isinstance(send, Send)]))
        logs = by_log(event for event in leaving if isinstance(event, AppendedEvent))
        return [
            *(self._statement(self._table(address), messages) for address, messages in groups.items()),
            *(self._append(log, events) for log, events in logs.items()),
        ]

    async def dispatch(self, leaving: Sequence[Leaving]) -> None:
        """Send and append in a transaction of its own, committed when this returns.

        Raises QueueNotFoundError, LogNotFoundError or StorageError.
        """
        statements = self.statements(leaving)
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

    def _append(self, log: str, events: list[AppendedEvent]) -> Statement[object]:
        table = self._logs.get(log)
        if table is None:
            table = self._logs[log] = LogTable(log)
        return table.append(events[0]) if len(events) == 1 else table.append_batch(events)
