"""Notes operations in the log of operations, in the transactions that carry them out.

Invariant: an operation does nothing before it is noted; what a transaction did is noted in that transaction.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Final, NamedTuple

from rowbus.database.steps import run_steps_now
from rowbus.errors import AlreadyThereError, ConfigurationError, StorageError
from rowbus.transport.operations.table import STOPPING, operations_address, operations_table
from rowbus.transport.queues.owners import refuse_foreign

if TYPE_CHECKING:
    from rowbus.database.sessions import Session
    from rowbus.messages.addresses import Addresses
    from rowbus.transport.operations.table import OperationsTable
    from rowbus.web.operations import Operation

MAY_NOT: Final = "42501"  # the SQLSTATE of a privilege that is missing


class Note(NamedTuple):
    """What is noted when an operation begins."""

    queue: str
    meant: int | None


def begin(session: Session, addresses: Addresses, operation: Operation, note: Note) -> OperationsTable:
    """Note that an operation begins; create the log if it is missing. Raises ConfigurationError if the role may not."""
    table = operations_table(operations_address(addresses))
    try:
        if not session.run(table.exists()):
            _create(session, table)
        session.run(
            table.begin(
                operation.id,
                person=operation.who,
                action=operation.what,
                queue=note.queue,
                subject=operation.subject,
                meant=note.meant,
            )
        )
    except StorageError as error:
        if error.sqlstate == MAY_NOT:
            raise _refusal(table, error) from error
        raise
    return table


def note(session: Session, table: OperationsTable, operation: Operation, done: int, stayed: int) -> None:
    """Note what this transaction did; see that the operation stops, if it was asked to elsewhere."""
    if session.run(table.note(operation.id, done, stayed)) == STOPPING:
        operation.stopping = True


def _create(session: Session, table: OperationsTable) -> None:
    with suppress(AlreadyThereError), session.transaction():
        for statement in table.create():
            session.run(statement)
        run_steps_now(session, refuse_foreign(table.address))


def _refusal(table: OperationsTable, error: StorageError) -> ConfigurationError:
    return ConfigurationError(
        f"Nothing was done: every operation is noted in {table.address}, and this role may not write there, or create "
        f"it ({error}). Its owner can create and grant it: `rowbus schema grants --web --role ROLE` prints what to run."
    )
