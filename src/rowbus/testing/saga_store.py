"""The rows of sagas in memory, and the saga that keeps its rows there.

Invariant: it answers as the saga's table does; there are no locks, because one message comes at a time.
"""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any

from rowbus import TransactionConflictError
from rowbus.sagas.component import SagaComponent
from rowbus.sagas.table import Beginning, SagaRow

if TYPE_CHECKING:
    from datetime import datetime, timedelta

    from rowbus.endpoint.context import Context
    from rowbus.sagas.history.table import Transition
    from rowbus.sagas.saga import Saga
    from rowbus.sagas.timeouts import Timeout


class MemoryStore:
    """The rows of one saga class, without locks: one message at a time."""

    def __init__(self) -> None:
        """Begin without sagas."""
        self.rows: dict[str, SagaRow] = {}

    async def find(self, correlation: str) -> SagaRow | None:
        """Return the saga found by this text."""
        return next((row for row in self.rows.values() if row.correlation == correlation), None)

    async def find_by_id(self, saga_id: str) -> SagaRow | None:
        """Return the saga of this id."""
        return self.rows.get(saga_id)

    async def find_or_begin(self, beginning: Beginning) -> SagaRow:
        """Return the saga, which begins now if there is none."""
        return await self.find(beginning.correlation) or self.begin(beginning)

    def begin(self, beginning: Beginning) -> SagaRow:
        """Return the row of a saga that begins."""
        row = SagaRow(
            str(uuid.uuid4()),
            beginning.correlation,
            "{}",
            beginning.version,
            0,
            beginning.originator,
            beginning.original_message_id,
        )
        self.rows[row.id] = row
        return row

    async def write(self, row: SagaRow, state: str, version: int, timeouts: str | None) -> None:  # noqa: ARG002 - see `due`
        """Write a saga's state."""
        self._check(row)
        self.rows[row.id] = row._replace(state=state, version=version, concurrency=row.concurrency + 1)

    async def delete(self, row: SagaRow) -> None:
        """Delete a saga."""
        self._check(row)
        del self.rows[row.id]

    async def record(self, transition: Transition) -> None:
        """Do nothing: a test sees what its messages did."""

    async def due(self, due: timedelta | datetime) -> None:  # noqa: ARG002 - as the protocol has it
        """Return None: the scenario has the timeouts, and drops those of sagas that have completed."""
        return

    def cancel(self, waiting: Timeout) -> None:
        """Do nothing: none was noted."""

    def _check(self, row: SagaRow) -> None:
        if self.rows.get(row.id) != row:
            raise TransactionConflictError(f"Saga {row.id} was changed meanwhile.")


class Given:
    """A saga that keeps its rows in memory, to be added to an endpoint."""

    def __init__(self, saga: type[Saga[Any]], store: MemoryStore) -> None:
        """Keep the rows there."""
        self._saga = saga
        self._store = store

    def component(self) -> SagaComponent:
        """Return what an endpoint serves."""
        return SagaComponent(self._saga, self._in_memory)

    def _in_memory(self, _context: Context) -> MemoryStore:
        return self._store
