"""Where an attempt finds and leaves its saga's row: in the database, in the transaction of the message.

Invariant: a row that was found is this attempt's alone until the transaction ends.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

from rowbus.errors import AlreadyThereError, TransactionConflictError
from rowbus.messages.dispatch import Cancellation

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from datetime import datetime

    from rowbus.database.statements import Statement
    from rowbus.sagas.history.table import Transition
    from rowbus.sagas.table import Beginning, SagaRow, SagaTable
    from rowbus.sagas.timeouts import Timeout
    from rowbus.transport.delayed.table import DelayedTable, Due
    from rowbus.transport.receiving.delivery import Delivery

    Keep = Callable[[Transition], Iterable[Statement[None]]]

MOST_LOOKS: Final = 20
"""The number of times that a saga is looked for that others begin and complete at the same time."""


class SagaStore(Protocol):
    """The rows of one saga class, as one attempt sees them."""

    async def find(self, correlation: str) -> SagaRow | None:
        """Return the saga found by this text."""
        raise NotImplementedError

    async def find_by_id(self, saga_id: str) -> SagaRow | None:
        """Return the saga of this id."""
        raise NotImplementedError

    async def find_or_begin(self, beginning: Beginning) -> SagaRow:
        """Return the saga, which begins now if there is none."""
        raise NotImplementedError

    async def write(self, row: SagaRow, state: str, version: int, timeouts: str | None) -> None:
        """Write a saga's state, and timeouts unless None; raises TransactionConflictError if another has written it."""
        raise NotImplementedError

    async def delete(self, row: SagaRow) -> None:
        """Delete a saga; raises TransactionConflictError when another has written it."""
        raise NotImplementedError

    async def record(self, transition: Transition) -> None:
        """Keep what a message did, as the saga's class says."""
        raise NotImplementedError

    async def due(self, due: Due) -> datetime | None:
        """Return when a message delayed now is due; None: what is delayed here cannot be cancelled."""
        raise NotImplementedError

    def cancel(self, waiting: Timeout) -> None:
        """Cancel a timeout that waits in the table of delayed messages, if it still does, when the attempt succeeds."""
        raise NotImplementedError


class DatabaseStore:
    """The rows in the saga's table, in the transaction of a message."""

    def __init__(
        self, table: SagaTable, delivery: Delivery, delayed: DelayedTable | None, keep: Keep | None = None
    ) -> None:
        """Run the tables' statements in this delivery's attempt; timeouts wait in `delayed`, `keep` writes history."""
        self._table = table
        self._delayed = delayed
        self._keep = keep
        self._run = delivery.run
        self._sends = delivery.sends

    async def find(self, correlation: str) -> SagaRow | None:
        """Return the saga found by this text. Waits for who holds it."""
        return await self._run(self._table.find(correlation))

    async def find_by_id(self, saga_id: str) -> SagaRow | None:
        """Return the saga of this id. Waits for who holds it."""
        return await self._run(self._table.find_by_id(saga_id))

    async def find_or_begin(self, beginning: Beginning) -> SagaRow:
        """Return the saga, which begins now if there is none. Waits for who holds it or begins it."""
        for _ in range(MOST_LOOKS):
            if row := await self._found_or_begun(beginning):
                return row
        raise TransactionConflictError(
            f"The saga {beginning.correlation!r} of {self._table.address} began and ended {MOST_LOOKS} times while it "
            "was looked for."
        )

    async def _found_or_begun(self, beginning: Beginning) -> SagaRow | None:
        """Ask once; None if another began the saga in this instant, one of .NET's that takes no lock of ours."""
        try:
            return await self._run(self._table.find_or_begin(beginning))
        except AlreadyThereError:  # on SQL Server: the statement failed, the transaction goes on
            return None

    async def write(self, row: SagaRow, state: str, version: int, timeouts: str | None) -> None:
        """Write a saga's state, and its timeouts unless None."""
        self._check(row, await self._run(self._table.write(row, state, version, timeouts)))

    async def delete(self, row: SagaRow) -> None:
        """Delete a saga."""
        self._check(row, await self._run(self._table.delete(row)))

    async def record(self, transition: Transition) -> None:
        """Keep what a message did, as the saga's class says."""
        for statement in self._keep(transition) if self._keep else ():
            await self._run(statement)

    async def due(self, due: Due) -> datetime | None:
        """Return when a message delayed now is due, by the database's clock; None without a table of such messages."""
        return None if self._delayed is None else await self._run(self._delayed.due(due))

    def cancel(self, waiting: Timeout) -> None:
        """Cancel a timeout, if it still waits, after what is sent: a batch may have sent it in this transaction."""
        if self._delayed is not None:
            self._sends.append(Cancellation(self._delayed.address, waiting.id, waiting.due))

    def _check(self, row: SagaRow, affected: int) -> None:
        if affected != 1:
            raise TransactionConflictError(
                f"Saga {row.id} of {self._table.address} was changed by another writer, one that takes no lock."
            )
