"""Operations as the log of operations has them: those of other processes, and of this one before it was started.

Invariant: a log that is missing, or that the role may not read, is an empty one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rowbus.errors import StorageError
from rowbus.transport.operations.table import operations_address, operations_table

if TYPE_CHECKING:
    from rowbus.database.sessions import Session
    from rowbus.messages.addresses import Addresses
    from rowbus.transport.operations.table import OperationRow, OperationsTable

MOST: Final = 100


def latest(session: Session, addresses: Addresses) -> list[OperationRow]:
    """Return the latest operations that were noted, the latest first."""
    table = _table(session, addresses)
    try:
        return [] if table is None else session.run(table.list(MOST))
    except StorageError:
        return []


def look(session: Session, addresses: Addresses, identity: str) -> OperationRow | None:
    """Return an operation that was noted, None if there is none."""
    table = _table(session, addresses)
    try:
        return None if table is None or "\0" in identity else session.run(table.look(identity))
    except StorageError:
        return None


def stop(session: Session, addresses: Addresses, identity: str) -> bool:
    """Ask an operation to stop, wherever it runs; say whether it was noted as running."""
    table = _table(session, addresses)
    return table is not None and "\0" not in identity and session.run(table.stop(identity)) > 0


def _table(session: Session, addresses: Addresses) -> OperationsTable | None:
    if addresses.backend != "postgresql":
        return None
    table = operations_table(operations_address(addresses))
    return table if session.run(table.exists()) else None
