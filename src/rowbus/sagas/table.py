"""The table of a saga: the operations on it, on every database.

Where an attempt finds and leaves its saga's row: in the database, in the transaction of the message.

Invariants: nothing here names a database. A row that was found is this attempt's alone until the transaction ends.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple, Protocol
from uuid import UUID

from rowbus.database.backends import bound_table
from rowbus.database.statements import Statement
from rowbus.errors import AlreadyThereError, TransactionConflictError
from rowbus.messages.dispatch import Cancellation
from rowbus.sagas.context import NONE
from rowbus.transport.queues.records.table import RecordStatements

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from datetime import datetime

    from rowbus.database.statements import Rows
    from rowbus.messages.address import Addresses, QueueAddress
    from rowbus.sagas.context import Timeout
    from rowbus.sagas.history.table import Transition
    from rowbus.transport.delayed.table import DelayedTable, Due
    from rowbus.transport.receiving.delivery import Delivery

    Keep = Callable[[Transition], Iterable[Statement[None]]]


NO_ID: Final = str(UUID(int=0))


class SagaRow(NamedTuple):
    """A saga's row, locked by this transaction. `concurrency` counts its writes; 0: it begins with this message."""

    id: str
    correlation: str
    state: str
    version: int
    concurrency: int
    originator: str | None
    original_message_id: str | None
    timeouts: str = NONE
    """The timeouts that it waits for; see `context.py`."""


class KeptSaga(NamedTuple):
    """A saga looked at without being locked; its times are aware."""

    row: SagaRow
    began: datetime
    changed: datetime


class Beginning(NamedTuple):
    """What a saga that begins is found by, and who began it."""

    correlation: str
    version: int
    originator: str | None
    original_message_id: str


class SagaTable(RecordStatements):
    """Statements on the table of one saga; each runs in its runner's transaction."""

    folder = "sagas"
    variable = "saga"
    remedy = (
        "the table of the saga does not exist; starting its endpoint creates it, as does "
        "`rowbus schema install MODULE:ENDPOINT`."
    )

    def __init__(self, address: QueueAddress) -> None:
        """Bind the SQL files to the table. No I/O."""
        super().__init__(address)
        self._find = self._load("find", "Failed to find a saga in", prepare=True)
        self._find_by_id = self._load("find_by_id", "Failed to find a saga in", prepare=True)
        self._find_or_begin = self._load("find_or_begin", "Failed to begin a saga in", prepare=True)
        self._write = self._load("write", "Failed to write a saga into", prepare=True)
        self._delete = self._load("delete", "Failed to delete a saga from", prepare=True)

    def find(self, correlation: str) -> Statement[SagaRow | None]:
        """Lock the saga found by this text, and return its row. Waits for others who hold it."""
        return Statement(self._find, {"correlation": correlation}, self._found)

    def find_by_id(self, saga_id: str) -> Statement[SagaRow | None]:
        """Lock the saga of this id, and return its row. Waits for others who hold it."""
        return Statement(self._find_by_id, {"id": saga_id}, self._found)

    def find_or_begin(self, beginning: Beginning) -> Statement[SagaRow | None]:
        """Lock the saga, or write the row of one that begins. Waits for others who hold it, or who begin it.

        None: another began it in this instant and has committed; ask again.
        """
        return Statement(self._find_or_begin, self._parameters(beginning), self._found)

    def peek(self, most: int) -> Statement[list[KeptSaga]]:
        """Look at up to so many sagas, those first that have changed least recently. Takes no lock of theirs."""
        return Statement(self._load("peek", "Failed to look into"), {"most": most}, self._kept)

    def page(self, most: int, *, after: str = "", beginning: str = "") -> Statement[list[KeptSaga]]:
        """Look at up to so many sagas in the order of the texts that find them, `after` one of these.

        With `beginning`, at those whose text begins so. Takes no lock of theirs, and costs what the page costs, however
        many there are; with a beginning that few have, what those cost that come after `after`.
        """
        query = self._load("page", "Failed to look into")
        return Statement(query, {"after": after, "beginning": beginning, "most": most}, self._kept)

    def look(self, key: str) -> Statement[list[KeptSaga]]:
        """Look at the saga of an id, or found by a text: one, none, or both."""
        query = self._load("look", "Failed to look into")
        return Statement(query, {"key": key, "id": id_in(key)}, self._kept)

    def write(self, row: SagaRow, state: str, version: int, timeouts: str | None = None) -> Statement[int]:
        """Write a saga's state, and the timeouts it waits for unless they are None, if its row is as it was found.

        Returns how many rows were.
        """
        parameters = {
            "id": row.id,
            "concurrency": row.concurrency,
            "state": state,
            "version": version,
            "timeouts": timeouts,
        }
        return Statement(self._write, parameters, self._counted)

    def delete(self, row: SagaRow) -> Statement[int]:
        """Delete a saga, if its row is as it was found; return how many rows were."""
        return Statement(self._delete, {"id": row.id, "concurrency": row.concurrency}, self._counted)

    def _parameters(self, beginning: Beginning) -> Mapping[str, object]:
        """Return what a saga that may begin is written with."""
        return beginning._asdict()

    def _found(self, rows: Rows, _count: int) -> SagaRow | None:
        return SagaRow._make(rows[0]) if rows else None

    def _kept(self, rows: Rows, _count: int) -> list[KeptSaga]:
        return [
            KeptSaga(SagaRow._make(row), self._instant(began), self._instant(changed))
            for *row, began, changed in rows
        ]


def id_in(key: str) -> str:
    """Return what a key is as an id; for one that is only a text that sagas are found by, an id that none has."""
    try:
        return str(UUID(key))
    except ValueError:
        return NO_ID


def saga_address(endpoint: str, saga: str, addresses: Addresses) -> QueueAddress:
    """Return the table of an endpoint's saga."""
    return addresses.for_endpoint(endpoint, qualifier=saga)


def saga_table(address: QueueAddress) -> SagaTable:
    """Return the statements on a saga's table. No I/O."""
    table: SagaTable = bound_table("rowbus.sagas", "SagaTable", address)
    return table


MOST_LOOKS: Final = 20
"""How often a saga is looked for that others begin and complete at the same time."""


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
