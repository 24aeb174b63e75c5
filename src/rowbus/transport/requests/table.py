"""The queues of answers in a database, and the lock by which each is owned: the operations, on every database.

Invariant: a queue is owned as long as its owner's session lasts, and no longer. Nothing here names a database.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from rowbus.database.backends import bound_table
from rowbus.database.locks import answers_lock
from rowbus.database.statements import Statement
from rowbus.transport.requests.decisions import is_for_answers

if TYPE_CHECKING:
    from rowbus.database.statements import Loader, Query, Rows
    from rowbus.messages.address import QueueAddress


class AnswerQueue:
    """Statements on one queue of answers beyond those of every queue; none waits."""

    loader: ClassVar[Loader]
    """Loads the database's files."""

    def __init__(self, address: QueueAddress) -> None:
        """Say which queue. No I/O."""
        self.address = address

    def own(self) -> Statement[bool]:
        """Own the queue for as long as the session lasts, whether it exists or not; say whether no other owns it."""
        lock = {"lock_name": answers_lock(str(self.address))}
        return Statement(self._load("own", "Failed to own"), lock, self._owns)

    def beside(self) -> Statement[list[str]]:
        """Find the tables of its schema whose names are those of such queues, its own too. Keeps no lock.

        On PostgreSQL only those that this role may drop.
        """
        query = self._load("beside", "Failed to look for queues beside")
        return Statement(query, {"schema_name": self.address.schema}, _for_answers)

    def _load(self, operation: str, failing: str) -> Query:
        file = f"transport/requests/sql/{self.address.backend}/{operation}.sql"
        return self.loader(file, failing=f"{failing} {self.address}", prepare=False)

    def _owns(self, rows: Rows, count: int) -> bool:
        """Decode whether the lock was taken."""
        raise NotImplementedError


def _for_answers(rows: Rows, _count: int) -> list[str]:
    return [name for (name,) in rows if is_for_answers(name)]


def answer_queue(address: QueueAddress) -> AnswerQueue:
    """Return the statements on a queue of answers. No I/O."""
    table: AnswerQueue = bound_table("rowbus.transport.requests", "AnswerQueue", address)
    return table
