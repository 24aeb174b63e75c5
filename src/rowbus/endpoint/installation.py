"""The objects that an endpoint needs in the database are created, or required.

Invariant: what exists stays as it is, also if another process created it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rowbus.database.sessions import connected
from rowbus.database.statements import run_steps
from rowbus.endpoint.delayed_delivery import delay_service
from rowbus.errors import ConfigurationError
from rowbus.messages.address import QueueAddress
from rowbus.transport.lanes import installer
from rowbus.transport.pubsub.table import create_subscriptions
from rowbus.transport.queues.installer import ensure_queues, ensure_table, require_queues, require_table
from rowbus.transport.queues.owners import refuse_foreign

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection, Iterator

    from rowbus.database.sessions import AsyncSession, Database
    from rowbus.endpoint.parts import Parts
    from rowbus.transport.receiving.dispatcher import DelayService

    OnSession = Callable[[AsyncSession], Awaitable[None]]


async def install_only(database: Database, parts: Parts) -> None:
    """Do what `install` does for an endpoint that is not going to be started."""
    delayed = delay_service(parts, database, parts.identity)
    try:
        await install(database, parts, delayed)
    finally:
        await delayed.stop(0)


async def install(
    database: Database, parts: Parts, delayed: DelayService, begin: OnSession | None = None
) -> None:
    """Create the queues that are missing; with install=False, raise QueueNotFoundError for the first instead.

    An endpoint that starts does what it has to `begin`; on this session, as one from a pool would stay open beside an
    idle endpoint. Then this raises ShiftedTimesError as `DelayService.check`, ConfigurationError where row security
    applies to this role on a table that the endpoint reads, and what the check of a table raises.
    """
    _refuse_shared(parts)
    async with connected(database) as session:
        read = () if begin is None else [address for address, _ in _read_tables(parts)]
        await (_create if parts.settings.install else _require)(session, parts, read)
        if parts.address.backend == QueueAddress.backend:
            install = parts.settings.install
            await installer.install_lanes(session, parts.address, parts.lanes, install=install)
        if begin is not None:
            await begin(session)
        await delayed.install(session)
        if begin is not None:
            await delayed.check(session)
            for own in parts.own_tables:
                if own.check is not None:
                    await own.check(session)


async def change_lanes(database: Database, parts: Parts) -> int:
    """Give an endpoint's queue the lanes that it is to have; see `installer.change_lanes`."""
    if parts.address.backend != QueueAddress.backend:
        raise ConfigurationError("Lanes need PostgreSQL.")
    async with connected(database) as session:
        return await installer.change_lanes(
            session, parts.address, parts.lanes, body_string=parts.settings.body_string
        )


def _refuse_shared(parts: Parts) -> None:
    """Raise ConfigurationError if one table is to be two of the endpoint's, as those of two sagas of one name."""
    outputs = ((queue, "the queue of its failed messages, or of copies") for queue in parts.outputs)
    seen: dict[QueueAddress, str] = {}
    for address, called in (*_read_tables(parts), *outputs):
        if address in seen:
            raise ConfigurationError(
                f"Endpoint {parts.name} has {address} twice, as {seen[address]} and as {called}: each would take the "
                "other's rows for its own. Name one of them otherwise (a saga by `name=`, whose last part counts)."
            )
        seen[address] = called


def _read_tables(parts: Parts) -> Iterator[tuple[QueueAddress, str]]:
    """Give the tables that an endpoint reads, each with what it is called."""
    yield from ((queue, "a queue that it receives from") for queue in parts.inputs)
    yield from ((each.table.address, each.called) for each in parts.own_tables)
    yield parts.subscriptions, "the table of subscriptions"
    if parts.delayed is not None:
        yield parts.delayed, "the table of its delayed messages"


async def _require(session: AsyncSession, parts: Parts, read: Collection[QueueAddress]) -> None:
    await run_steps(session, refuse_foreign(read=read))
    await require_queues(session, (*parts.inputs, *parts.outputs))
    for own in parts.own_tables:
        await require_table(session, own)


async def _create(session: AsyncSession, parts: Parts, read: Collection[QueueAddress]) -> None:
    settings, queues = parts.settings, (*parts.inputs, *parts.outputs)
    own = [each.table.address for each in parts.own_tables]
    await run_steps(session, refuse_foreign(*queues, *own, read=read))
    await ensure_queues(
        session, queues, body_string=settings.body_string, notify_trigger=settings.foreign_notifications
    )
    await create_subscriptions(session, parts.subscriptions)
    for each in parts.own_tables:
        await ensure_table(session, each.table, each.called)
