"""Delayed message stores as commands meet them: what they know of one, and its part of `rowbus schema`.

Invariants: nothing is taken from a store; one that is not ours is asked for its next due time, and nothing else; a
store that is not ours is never guessed about: it sets itself up, and where that cannot be shown as SQL the output says
so.
"""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, NamedTuple

from rowbus.cli.options import open_database
from rowbus.cli.output import say
from rowbus.database.backends import scripts_of
from rowbus.transport.delayed_store.diagnosis import diagnose_answer, diagnose_silence, diagnose_store
from rowbus.transport.delayed_store.guarded_store import GuardedStore
from rowbus.transport.delayed_store.protocol import DelayedDeliverySettings
from rowbus.transport.delayed_store.service import set_up, timeouts_queue
from rowbus.transport.delayed_store.stores import TableDelayedMessageStore
from rowbus.transport.delayed_store.table import delayed_store_table, find_stores
from rowbus.transport.queues.catalog.looking import look_at_each, sort_out
from rowbus.transport.queues.catalog.table import catalog_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rowbus import Endpoint, TransactionMode
    from rowbus.database.sessions import Database, Session
    from rowbus.database.sessions import Database as Location
    from rowbus.database.statements import Statement
    from rowbus.messages.address import Addresses, QueueAddress
    from rowbus.transport.delayed.table import DelayedState
    from rowbus.transport.delayed_store.protocol import DelayedMessageStore
    from rowbus.transport.delayed_store.table import KeptMessage
    from rowbus.transport.queues.diagnosis import Finding


class StorePlan(NamedTuple):
    """The store of one endpoint, and the queue through which messages reach it."""

    endpoint: str
    mode: TransactionMode
    queue: QueueAddress
    store: DelayedMessageStore


def store_plan(endpoint: Endpoint) -> StorePlan | None:
    """Return what an endpoint's store needs; None if it has none."""
    settings = endpoint.delayed_delivery
    if not isinstance(settings, DelayedDeliverySettings):
        return None
    queue = timeouts_queue(endpoint.name, endpoint.addresses)
    return StorePlan(endpoint.name, endpoint.settings.transaction_mode, queue, settings.store)


async def set_up_store(location: Location, plan: StorePlan) -> None:
    """Have a store create what is missing, and say so."""
    session = await location.connect()
    try:
        await plan.store.initialize(plan.endpoint, plan.mode)
        await set_up(plan.store, session)
    finally:
        await plan.store.close()
        await session.close()
    say(f"The delayed message store of {plan.endpoint} is set up.")


def store_sql(plan: StorePlan) -> str:
    """Return the SQL that creates a store's table."""
    if isinstance(plan.store, TableDelayedMessageStore):
        address = plan.store.address(plan.endpoint)
        return scripts_of(address).definition(delayed_store_table(address).create())
    kind = type(plan.store).__qualname__
    return f"-- The store {kind} sets itself up: `rowbus schema install MODULE:ENDPOINT`, or starting the endpoint."


def store_table(plan: StorePlan) -> QueueAddress | None:
    """Return a store's table; None for a store that is not ours."""
    return plan.store.address(plan.endpoint) if isinstance(plan.store, TableDelayedMessageStore) else None


def store_grants(plan: StorePlan, role: str) -> list[Statement[None]]:
    """Return what lets a role use a store's table."""
    address = store_table(plan)
    return [] if address is None else [delayed_store_table(address).grant(role)]


PATIENCE = timedelta(seconds=10)  # with a store that does not answer


class NextMessages(NamedTuple):
    """The messages of a store that are due next, and the time of its database."""

    messages: list[KeptMessage]
    at: datetime


class TableStore(NamedTuple):
    """A store of ours: its table, and the database that this is in."""

    address: QueueAddress
    location: Database

    def peek(self, limit: int) -> NextMessages:
        """Look at its messages; raises StorageError."""
        table = delayed_store_table(self.address)
        with self.location.session() as session:
            return NextMessages(session.run(table.peek(limit)), session.run(table.state(1)).at)

    def state(self, most: int) -> DelayedState:
        """Count its messages; raises StorageError."""
        with self.location.session() as session:
            return session.run(delayed_store_table(self.address).state(most))


def table_store(plan: StorePlan, dsn: str | None) -> TableStore | None:
    """Return where an endpoint's store has its table; None for a store that is not ours. `dsn` is the endpoint's."""
    store = plan.store
    if not isinstance(store, TableDelayedMessageStore):
        return None
    return TableStore(store.address(plan.endpoint), store.own_database or open_database(dsn))


def found_stores(
    session: Session, addresses: Addresses, schema: str | None, most: int
) -> tuple[dict[QueueAddress, DelayedState], dict[QueueAddress, str]]:
    """Find the tables of stores in a database, and count their messages, up to `most`.

    Says which are left out, too, and why.
    """
    found = sort_out(session, catalog_of(addresses), session.run(find_stores(addresses, schema)))
    looked = look_at_each(session, found.tables, lambda address: delayed_store_table(address).state(most))
    return looked.answers, found.left_out | looked.left_out


def next_due(plan: StorePlan) -> datetime | None:
    """Ask a store that is not ours when its next message is due; raises what the store raises."""
    return asyncio.run(_ask(plan))


def examine_endpoint(endpoint: Endpoint, dsn: str | None, most: int) -> Iterator[Finding]:
    """Judge the store of an endpoint, if it has one."""
    plan = store_plan(endpoint)
    if plan is None:
        return
    subject = f"store of {plan.endpoint}"
    try:
        ours = table_store(plan, dsn)
        if ours is not None:
            yield diagnose_store(subject, ours.state(most))
        else:
            yield diagnose_answer(subject, next_due(plan), datetime.now(UTC))
    except Exception as error:  # noqa: BLE001 - a store may raise anything
        yield diagnose_silence(subject, error)


async def _ask(plan: StorePlan) -> datetime | None:
    store = GuardedStore.of(plan.store, PATIENCE)
    try:
        await store.initialize(plan.endpoint, plan.mode)
        async with store.transaction() as inside:
            return await inside.next()
    finally:
        await store.close()
