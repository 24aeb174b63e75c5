"""Creates queues: those an endpoint needs, and those a sender misses because their endpoint was never started.

Invariant: never creates a schema unless that is what was asked for, never changes a queue that exists except to add
what was asked for, and ends with the queue there, also if another process created it. In a transaction of the caller's
what fails is undone, and that transaction stays usable.
"""

from __future__ import annotations

import asyncio
import logging
import random
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from rowbus.database.statements import Statement, load, no_rows, run_steps
from rowbus.errors import (
    AlreadyThereError,
    ConfigurationError,
    PermissionDeniedError,
    QueueNotFoundError,
    SchemaNotFoundError,
    StorageError,
)
from rowbus.messages.address import QueueAddress
from rowbus.running.backoff import jittered
from rowbus.transport.queues.owners import refuse_foreign
from rowbus.transport.queues.table import queue_table

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from rowbus.database.sessions import AsyncSession
    from rowbus.database.statements import UserSession
    from rowbus.transport.queues.catalog.table import Catalog
    from rowbus.transport.queues.records.table import OwnTable
    from rowbus.transport.queues.table import MessageTable, QueueTable, RecordTable

logger = logging.getLogger("rowbus.install")

LOCKED: Final = "55P03"
LOCK_WAIT: Final = 200  # milliseconds for which senders and receivers may have to wait behind a change
PAUSE: Final = 1.0  # seconds between two tries
TRIES: Final = 120


async def create_queue(
    session: AsyncSession, address: QueueAddress, *, body_string: bool = False, notify_trigger: bool = False
) -> bool:
    """Create a queue if it is missing, with the extras asked for; say whether it was missing.

    Raises InvalidAddressError for a name that is too long, ConfigurationError when the schema does not exist, or what
    is there belongs to a role that this one cannot trust.
    """
    missing = await create_table(session, queue_table(address), "queue")
    await _add_extras(session, address, body_string=body_string, notify_trigger=notify_trigger)
    return missing


async def ensure_queues(
    session: AsyncSession,
    addresses: Sequence[QueueAddress],
    *,
    body_string: bool = False,
    notify_trigger: bool = False,
) -> None:
    """Do what `create_queue` does for many, of which the caller has asked whose they are, in few questions."""
    for address in addresses:
        address.validate()
    for address in await _missing(session, addresses):
        await _make(session, queue_table(address), "queue")
    for address in addresses:
        await _add_extras(session, address, body_string=body_string, notify_trigger=notify_trigger)


async def _missing(session: AsyncSession, addresses: Sequence[QueueAddress]) -> list[QueueAddress]:
    """Return the queues that are missing, found in one round trip."""
    there = await session.run_together([queue_table(address).exists() for address in addresses])
    return [address for address, is_there in zip(addresses, there, strict=True) if not is_there]


async def _add_extras(
    session: AsyncSession, address: QueueAddress, *, body_string: bool, notify_trigger: bool
) -> None:
    table = queue_table(address)
    if body_string:
        await add_body_string(session, address)
    if notify_trigger:
        await _change(session, table, table.has_notify_trigger(), table.create_notify_trigger())


async def add_body_string(session: AsyncSession, address: QueueAddress) -> None:
    """Add the column BodyString to a queue, or to a table of delayed messages, if it is missing. As `create_queue`."""
    table = queue_table(address)
    await _change(session, table, table.has_body_string(), table.create_body_string())


async def create_table(session: AsyncSession, table: MessageTable | RecordTable, called: str) -> bool:
    """Create a table if it is missing; say whether it was. Raises as `create_queue`.

    `called` is what the log calls it.
    """
    missing = await ensure_table(session, table, called)
    if not missing:  # else it was asked when it had been made
        await run_steps(session, refuse_foreign(table.address))
    return missing


async def ensure_table(session: AsyncSession, table: MessageTable | RecordTable, called: str) -> bool:
    """Do what `create_table` does, of which the caller has asked whose it is."""
    table.address.validate()
    missing = not await session.run(table.exists())
    if missing:
        await _make(session, table, called)
    return missing


async def _make(session: AsyncSession, table: MessageTable | RecordTable, called: str) -> None:
    if await make_table(session, table):
        logger.info("Created %s %s", called, table.address)


async def create_schema(session: AsyncSession, catalog: Catalog, schema: str) -> bool:
    """Create a schema if it is missing; say whether it was. Raises ConfigurationError for one of an untrusted role."""
    missing = not await session.run(catalog.schema_exists(schema))
    if missing:
        with suppress(AlreadyThereError):
            await session.run(catalog.create_schema(schema))
    await run_steps(session, catalog.refuse_foreign(schema))
    return missing


async def require_queues(session: AsyncSession, addresses: Sequence[QueueAddress]) -> None:
    """Raise QueueNotFoundError for the first queue that is missing."""
    for address in await _missing(session, addresses):
        raise QueueNotFoundError(
            f"The queue {address} does not exist; create it with `rowbus queue create` or install=True.",
            queue=str(address),
        )


async def require_table(session: AsyncSession, own: OwnTable) -> None:
    """Raise QueueNotFoundError if an endpoint's own table is missing."""
    if not await session.run(own.table.exists()):
        called = own.called[:1].upper() + own.called[1:]
        raise QueueNotFoundError(
            f"{called} {own.table.address} does not exist; {own.remedy}.", queue=str(own.table.address)
        )


async def make_table(session: UserSession, table: MessageTable | RecordTable) -> bool:
    """Create a table that is missing; say whether no other did at the same moment. Raises as `create_queue`."""
    address = table.address
    try:
        await _run_in_transaction(session, table.create(), address)
    except AlreadyThereError:  # another was faster
        await session.run_all(_await_creator(address))
        await run_steps(session, refuse_foreign(address))
        return False
    except (QueueNotFoundError, SchemaNotFoundError) as error:
        raise ConfigurationError(
            f"{address} cannot be created: the schema {address.schema!r} does not exist; create it (`rowbus queue "
            "create --create-schema`) or choose another."
        ) from error
    return True


def _await_creator(address: QueueAddress) -> list[Statement[None]]:
    """Have a table that another has just created be there for this session; on SQL Server it is."""
    if address.backend != QueueAddress.backend:
        return []
    query = load(
        "transport/queues/sql/postgresql/await_creator.sql",
        failing="Failed to await a table's creator",
        prepare=False,
    )
    return [Statement(query, {"schema": address.schema, "table": address.table}, no_rows)]


async def _change(
    session: AsyncSession, table: QueueTable, asked: Statement[bool], statements: Sequence[Statement[None]]
) -> None:
    """Change a table, unless it is so, in short tries: others wait behind one that waits for a table in use.

    Raises StorageError when transactions have held the table for all of `TRIES`.
    """
    changes, left = [*table.limit_lock_wait(LOCK_WAIT), *statements], TRIES
    while not await session.run(asked):
        try:
            await _run_in_transaction(session, changes, table.address)
        except StorageError as error:
            left -= 1
            if error.sqlstate != LOCKED or not left:
                raise
            logger.info("%s is to be changed, and in use; tried again: %s", table.address, error)
            await asyncio.sleep(jittered(PAUSE, random.random))


async def _run_in_transaction(
    session: UserSession, statements: Sequence[Statement[None]], address: QueueAddress
) -> None:
    """Run statements, or, where they build upon something of a stranger's, undo them."""
    async with session.transaction():
        await session.run_all(statements)
        await run_steps(session, refuse_foreign(address))


async def create_missing(session: UserSession, tables: Iterable[MessageTable | RecordTable]) -> None:
    """Create those tables that are missing, in the session's transaction; waits for others that create the same.

    Raises InvalidAddressError, PermissionDeniedError, StorageError, and ConfigurationError when the schema does not
    exist, or a role that this one cannot trust was faster.
    """
    for table in tables:
        table.address.validate()
        if not await session.run(table.exists()):
            try:
                await make_table(session, table)
            except PermissionDeniedError as error:
                raise _may_not_create(table.address, error) from error


def _may_not_create(address: QueueAddress, error: PermissionDeniedError) -> PermissionDeniedError:
    return PermissionDeniedError(
        f"{address} is missing, and this role may not create it ({error}). Have it created by a role that may "
        "(`rowbus schema install`, `rowbus queue create`), or grant this one the right to create tables in the "
        f"schema {address.schema!r}.",
        sqlstate=error.sqlstate,
    )
