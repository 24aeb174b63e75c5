"""What commands learn of delayed message stores: from their tables in a database, or from an endpoint's own store.

Invariant: nothing is taken from a store; one that is not ours is asked for its next due time, and nothing else.
"""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, NamedTuple

from rowbus.cli.schema.store import store_plan
from rowbus.cli.target import open_database
from rowbus.transport.delayed_store.diagnosis import diagnose_answer, diagnose_silence, diagnose_store
from rowbus.transport.delayed_store.guarded_store import GuardedStore
from rowbus.transport.delayed_store.stores import TableDelayedMessageStore
from rowbus.transport.delayed_store.table import delayed_store_table, find_stores
from rowbus.transport.queues.catalog.finding import sort_out
from rowbus.transport.queues.catalog.looking import NotLookedAtError, look
from rowbus.transport.queues.catalog.table import catalog_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rowbus import Endpoint
    from rowbus.cli.schema.store import StorePlan
    from rowbus.database.sessions import Database, Session
    from rowbus.messages.address import QueueAddress
    from rowbus.messages.addresses import Addresses
    from rowbus.transport.delayed.table import DelayedState
    from rowbus.transport.delayed_store.table import KeptMessage
    from rowbus.transport.queues.diagnosis import Finding

PATIENCE = timedelta(seconds=10)  # with a store that does not answer


class Peeked(NamedTuple):
    """The messages of a store that are due next, and the time of its database."""

    messages: list[KeptMessage]
    at: datetime


class TableStore(NamedTuple):
    """A store of ours: its table, and the database that this is in."""

    address: QueueAddress
    location: Database

    def peek(self, limit: int) -> Peeked:
        """Look at its messages; raises StorageError."""
        table = delayed_store_table(self.address)
        with self.location.session() as session:
            return Peeked(session.run(table.peek(limit)), session.run(table.state(1)).at)

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
    states: dict[QueueAddress, DelayedState] = {}
    found = sort_out(session, catalog_of(addresses), session.run(find_stores(addresses, schema)))
    for address in found.tables:
        try:
            states[address] = look(session, address, delayed_store_table(address).state(most))
        except NotLookedAtError as error:
            found.left_out[address] = error.reason
    return states, found.left_out


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
