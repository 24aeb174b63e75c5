"""The log of operations: the operations on its table, on every database.

Invariant: nothing here names a database. What an operation did is noted in the transaction that did it, so the log has
no more and no less than what was done.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from rowbus.database.backends import bound_table
from rowbus.database.statements import Statement
from rowbus.transport.queues.records.table import RecordStatements

if TYPE_CHECKING:
    from datetime import datetime

    from rowbus.messages.addresses import Addresses

OPERATIONS: Final = "Rowbus.Operations"
"""The name of the table, in the schema of names that are given without one."""

RUNNING: Final = "running"
STOPPING: Final = "stopping"
"""A person asked to stop it; its work looks between two transactions."""


class OperationRow(NamedTuple):
    """An operation as the table has it; times are aware, by the database's clock.

    `meant` is how many messages it was to be done to, if that was known; `noted` is when its work was last heard of.
    """

    id: str
    person: str
    action: str
    queue: str
    subject: str
    meant: int | None
    done: int
    stayed: int
    state: str
    result: str
    began: datetime
    noted: datetime

    @property
    def is_running(self) -> bool:
        """Whether it has not ended, as far as is noted."""
        return self.state in {RUNNING, STOPPING}


class OperationsTable(RecordStatements):
    """Statements on the log of operations; each runs in its runner's transaction."""

    folder = "transport/operations"
    variable = "operations"
    remedy = (
        "the table does not exist; the first operation of `rowbus web` creates it, if its role may, and "
        "`rowbus schema grants --web --role ROLE` prints it."
    )

    def begin(
        self, identity: str, *, person: str, action: str, queue: str, subject: str, meant: int | None
    ) -> Statement[int]:
        """Note that an operation begins, before it does anything."""
        parameters = {
            "id": identity,
            "person": person,
            "action": action,
            "queue_name": queue,
            "subject": subject,
            "meant": meant,
        }
        return Statement(self._load("begin", "Failed to note an operation in"), parameters, self._counted)

    def note(self, identity: str, done: int, stayed: int) -> Statement[str | None]:
        """Add what this transaction did, and return the state: None for an operation that is not there.

        Waits for a transaction that notes something of the same operation.
        """
        raise NotImplementedError

    def end(self, identity: str, state: str, result: str) -> Statement[int]:
        """Note how an operation ended; one that has ended stays as it is."""
        parameters = {"id": identity, "state": state, "result": result}
        return Statement(self._load("end", "Failed to note an operation in"), parameters, self._counted)

    def stop(self, identity: str) -> Statement[int]:
        """Ask an operation to stop, wherever it runs; say 0 for one that does not run."""
        return Statement(
            self._load("stop", "Failed to stop an operation in"), {"id": identity}, self._counted
        )

    def role(self) -> Statement[str]:
        """Say as which role the session works."""
        raise NotImplementedError

    def beside(self, identity: str) -> Statement[list[OperationRow]]:
        """Find what others did to the same queue while an operation ran, or has run until now; the latest first.

        What runs and was not heard of for an hour is taken for one whose process was killed.
        """
        raise NotImplementedError

    def list(self, most: int) -> Statement[list[OperationRow]]:
        """Return the latest operations, the latest first."""
        raise NotImplementedError

    def look(self, identity: str) -> Statement[OperationRow | None]:
        """Return one operation, None if it is not there."""
        raise NotImplementedError


def operations_table(addresses: Addresses) -> OperationsTable:
    """Return the statements on the log of operations of a database. No I/O."""
    address = addresses.for_endpoint(OPERATIONS)
    table: OperationsTable = bound_table("rowbus.transport.operations", "OperationsTable", address)
    return table
