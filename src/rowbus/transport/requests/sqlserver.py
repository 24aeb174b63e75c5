"""The queues of answers, and the application lock by which each is owned.

Invariant: a queue is owned as long as its owner's session lasts, and no longer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rowbus.database.locks.names import answers_lock
from rowbus.database.sqlserver.statements import load
from rowbus.database.sqlserver.values import truth
from rowbus.database.statements import Statement
from rowbus.transport.requests.decisions import is_for_answers

if TYPE_CHECKING:
    from rowbus.database.statements import Query, Rows
    from rowbus.messages.sqlserver_address import SqlServerAddress

_FOLDER = "transport/requests/sql/sqlserver"


class AnswerQueue:
    """Statements on one queue of answers; none waits."""

    def __init__(self, address: SqlServerAddress) -> None:
        """Say which queue. No I/O."""
        self.address = address

    def own(self) -> Statement[bool]:
        """Own the queue for as long as the session lasts, whether it exists or not; say whether no other owns it."""
        lock = {"resource": answers_lock(str(self.address))}
        return Statement(self._load("own", "Failed to own"), lock, truth)

    def beside(self) -> Statement[list[str]]:
        """Find the tables of its schema whose names are those of such queues, its own too. Keeps no lock."""
        query = self._load("beside", "Failed to look for queues beside")
        return Statement(query, {"schema_name": self.address.schema}, _for_answers)

    def _load(self, operation: str, failing: str) -> Query:
        return load(f"{_FOLDER}/{operation}.sql", failing=f"{failing} {self.address}", prepare=False)


def _for_answers(rows: Rows, _count: int) -> list[str]:
    return [name for (name,) in rows if is_for_answers(name)]
