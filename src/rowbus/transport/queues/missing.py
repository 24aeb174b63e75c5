"""Queues that a sender creates because their endpoint was never started: in the sender's own transaction.

Invariant: nothing is committed here; what fails is undone, and the sender's transaction stays usable.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from rowbus.database.steps import run_steps
from rowbus.errors import (
    AlreadyThereError,
    ConfigurationError,
    PermissionDeniedError,
    QueueNotFoundError,
    SchemaNotFoundError,
)
from rowbus.transport.queues.owners import refuse_foreign

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable

    from rowbus.database.blocking import UserSession
    from rowbus.messages.address import QueueAddress
    from rowbus.transport.queues.table import MessageTable, RecordTable


async def create_missing(session: UserSession, tables: Iterable[MessageTable | RecordTable]) -> None:
    """Create those tables that are missing, in the session's transaction; waits for others that create the same.

    Raises InvalidAddressError, PermissionDeniedError, StorageError, and ConfigurationError when the schema does not
    exist, or a role that this one cannot trust was faster.
    """
    for table in tables:
        table.address.validate()
        if not await session.run(table.exists()):
            with _explained(table.address):
                async with session.transaction():
                    await session.run_all(table.create())
                    await run_steps(session, refuse_foreign(table.address))


@contextmanager
def _explained(address: QueueAddress) -> Generator[None]:
    """Say what to do about an error; that another was faster is none."""
    try:
        yield
    except AlreadyThereError:
        pass
    except (QueueNotFoundError, SchemaNotFoundError) as error:
        raise ConfigurationError(
            f"{address} cannot be created: the schema {address.schema!r} does not exist; create it (`rowbus queue "
            "create --create-schema`) or choose another."
        ) from error
    except PermissionDeniedError as error:
        raise PermissionDeniedError(
            f"{address} is missing, and this role may not create it ({error}). Have it created by a role that may "
            "(`rowbus schema install`, `rowbus queue create`), or grant this one the right to create tables in the "
            f"schema {address.schema!r}.",
            sqlstate=error.sqlstate,
        ) from error
