"""The table of a saga: the operations on it, on every database.

Invariant: nothing here names a database.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple, Protocol
from uuid import UUID

from rowbus.database.backends import bound_table
from rowbus.sagas.timeouts import NONE
from rowbus.transport.queues.table import RecordTable

if TYPE_CHECKING:
    from datetime import datetime

    from rowbus.database.statements import Statement
    from rowbus.messages.address import QueueAddress
    from rowbus.messages.addresses import Addresses


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
    """The timeouts that it waits for; see `timeouts.py`."""


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


class SagaTable(RecordTable, Protocol):
    """Statements on the table of one saga."""

    def find(self, correlation: str) -> Statement[SagaRow | None]:
        """Lock the saga found by this text, and return its row. Waits for others who hold it."""
        raise NotImplementedError

    def find_by_id(self, saga_id: str) -> Statement[SagaRow | None]:
        """Lock the saga of this id, and return its row. Waits for others who hold it."""
        raise NotImplementedError

    def find_or_begin(self, beginning: Beginning) -> Statement[SagaRow | None]:
        """Lock the saga, or write the row of one that begins. Waits for others who hold it, or who begin it.

        None: another began it in this instant and has committed; ask again.
        """
        raise NotImplementedError

    def peek(self, most: int) -> Statement[list[KeptSaga]]:
        """Look at up to so many sagas, those first that have changed least recently. Takes no lock of theirs."""
        raise NotImplementedError

    def look(self, key: str) -> Statement[list[KeptSaga]]:
        """Look at the saga of an id, or found by a text: one, none, or both."""
        raise NotImplementedError

    def write(self, row: SagaRow, state: str, version: int, timeouts: str | None = None) -> Statement[int]:
        """Write a saga's state, and the timeouts it waits for unless they are None, if its row is as it was found.

        Returns how many rows were.
        """
        raise NotImplementedError

    def delete(self, row: SagaRow) -> Statement[int]:
        """Delete a saga, if its row is as it was found; return how many rows were."""
        raise NotImplementedError


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
