"""The table of a saga: the operations on it, on every database.

Invariant: nothing here names a database but `COLUMNS`.
"""

from __future__ import annotations

from contextlib import suppress
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final, NamedTuple
from uuid import UUID

from rowbus.database.backends import bound_table
from rowbus.database.statements import Statement
from rowbus.sagas.timeouts import NONE
from rowbus.transport.queues.records.table import RecordStatements

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rowbus.database.statements import Rows
    from rowbus.messages.address import Addresses, QueueAddress


COLUMNS: Final = {
    "id": "pg_catalog.uuid",
    "correlation": "pg_catalog.text",
    "state": "pg_catalog.jsonb",
    "version": "pg_catalog.int4",
    "concurrency": "pg_catalog.int4",
    "originator": "pg_catalog.text",
    "original_message_id": "pg_catalog.text",
    "timeouts": "pg_catalog.jsonb",
    "began": "pg_catalog.timestamptz",
    "changed": "pg_catalog.timestamptz",
}
"""By which such a table is found, on PostgreSQL."""

STUCK_AFTER: Final = timedelta(minutes=1)
"""So long a timeout may be overdue: by then, what delayed it for a moment is over."""

LOOKED_AT: Final = 10_000  # sagas of a table
MOST_STUCK: Final = 100

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


class StuckSaga(NamedTuple):
    """A saga whose timeout is overdue, by how much: its message fails again and again, waits, or is lost."""

    correlation: str
    overdue: timedelta


class Beginning(NamedTuple):
    """The keys by which a beginning saga is found, and who began it."""

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

    def stuck(self) -> Statement[list[StuckSaga]]:
        """Find up to `MOST_STUCK` sagas with a timeout that is overdue, among `LOOKED_AT`. On PostgreSQL."""
        parameters = {
            "looked_at": LOOKED_AT,
            "most": MOST_STUCK,
            "overdue_by": int(STUCK_AFTER.total_seconds()),
        }
        return Statement(self._load("overdue", "Failed to look into"), parameters, _stuck)

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


def _stuck(rows: Rows, _count: int) -> list[StuckSaga]:
    found: list[StuckSaga] = []
    for correlation, due, at in rows:
        with suppress(ValueError, TypeError):  # no text of ours
            found.append(StuckSaga(correlation, at - datetime.fromisoformat(due)))
    return found


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
