"""`rowbus schema` for an endpoint that keeps delayed messages in a store.

Invariant: a store that is not ours is never guessed about: it sets itself up, and where that cannot be shown as SQL
the output says so.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from rowbus.cli.output import say
from rowbus.database.scripts import scripts_of
from rowbus.transport.delayed_store.protocol import DelayedDeliverySettings
from rowbus.transport.delayed_store.service import set_up, timeouts_queue
from rowbus.transport.delayed_store.stores import TableDelayedMessageStore
from rowbus.transport.delayed_store.table import delayed_store_table

if TYPE_CHECKING:
    from rowbus import Endpoint, TransactionMode
    from rowbus.database.sessions import Database as Location
    from rowbus.database.statements import Statement
    from rowbus.messages.address import QueueAddress
    from rowbus.transport.delayed_store.protocol import DelayedMessageStore


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
