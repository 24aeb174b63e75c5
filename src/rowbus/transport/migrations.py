"""The objects of an endpoint on PostgreSQL, as SQL for a migration: its tables, and what a role needs.

Invariant: no I/O; each statement may run again over what it made before, and none of them ends a transaction.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rowbus.database.statements import script
from rowbus.messages.address import (
    DEFAULT_DELAYED_SUFFIX,
    DEFAULT_SCHEMA,
    PostgresAddresses,
    QueueAddress,
    address_of,
)
from rowbus.transport.delayed.table import delayed_table
from rowbus.transport.lanes.lane_table import LaneTable
from rowbus.transport.pubsub.table import subscription_routing
from rowbus.transport.queues.catalog.table import catalog_of
from rowbus.transport.queues.owners import guard
from rowbus.transport.queues.table import queue_table

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rowbus.database.statements import Statement
    from rowbus.transport.lanes.rule import Lanes
    from rowbus.transport.queues.table import MessageTable, RecordTable

SUBSCRIPTIONS = "SubscriptionRouting"


def queue_sql(name: str, *, schema: str | None = None) -> list[str]:
    """Return the statements that create a queue if it is missing: `error`, or one that others receive from.

    The last one fails if a role that the migration's cannot trust has made it before. `schema` is that of a name
    without one (None: public). Raises InvalidAddressError.
    """
    address = address_of(name, _addresses(schema))
    address.validate()
    return _texts([*queue_table(address).create(), *guard([address])])


def endpoint_sql(
    name: str,
    *,
    schema: str | None = None,
    error_queue: str = "error",
    subscription_table: str = SUBSCRIPTIONS,
    lanes: Lanes | None = None,
) -> list[str]:
    """Return the statements that create what an endpoint needs, where it is missing.

    Its queue, its table of delayed messages, its error queue and the table of subscriptions; not the tables of sagas,
    schedules and processed messages, which it creates when it starts. The last one fails if a role that the migration's
    cannot trust has made one of them before. The arguments are as in EndpointSettings, and `lanes` as the endpoint's;
    they are not for a queue that has other lanes. Raises InvalidAddressError.
    """
    addresses = _addresses(schema)
    addresses.validate_endpoint_name(name)
    error, routing = address_of(error_queue, addresses), address_of(subscription_table, addresses)
    queue = addresses.for_endpoint(name)
    tables: list[MessageTable | RecordTable] = [
        queue_table(queue),
        *(queue_table(lane) for lane in _lanes(queue, lanes)),
        delayed_table(_delayed(name, addresses)),
        queue_table(error),
        subscription_routing(routing),
    ]
    create = [statement for table in tables for statement in table.create()]
    if lanes is not None:
        create += LaneTable(queue).create(lanes)
    return _texts([*create, *guard(table.address for table in tables)])


def grant_sql(
    role: str,
    *,
    receive: Iterable[str] = (),
    send: Iterable[str] = (),
    schema: str | None = None,
    error_queue: str = "error",
    subscription_table: str = SUBSCRIPTIONS,
    lanes: Lanes | None = None,
) -> list[str]:
    """Return the statements that let a role run the endpoints `receive`, and send to the endpoints `send`.

    The fewest privileges, as `rowbus schema grants` prints them. The tables must be there; `lanes` are those of each of
    the endpoints. Raises InvalidAddressError.
    """
    addresses = _addresses(schema)
    catalog = catalog_of(addresses)
    statements: list[Statement[None]] = []
    error, routing = address_of(error_queue, addresses), address_of(subscription_table, addresses)
    for name in receive:
        own = addresses.for_endpoint(name)
        for queue in (own, *_lanes(own, lanes)):
            statements += [catalog.grant_receive(queue, role), catalog.grant_send(queue, role)]
        statements += [catalog.grant_send(error, role), subscription_routing(routing).grant(role)]
        statements.append(delayed_table(_delayed(name, addresses)).grant_move(role))
    for name in send:
        own = addresses.for_endpoint(name)
        statements += [catalog.grant_send(queue, role) for queue in (own, *_lanes(own, lanes))]
        statements.append(delayed_table(_delayed(name, addresses)).grant_store(role))
    return list(dict.fromkeys(_texts(statements)))


def _addresses(schema: str | None) -> PostgresAddresses:
    return PostgresAddresses(schema or DEFAULT_SCHEMA)


def _lanes(queue: QueueAddress, lanes: Lanes | None) -> list[QueueAddress]:
    return [] if lanes is None else lanes.addresses(queue)


def _delayed(name: str, addresses: PostgresAddresses) -> QueueAddress:
    return addresses.for_endpoint(name, qualifier=DEFAULT_DELAYED_SUFFIX)


def _texts(statements: Iterable[Statement[None]]) -> list[str]:
    return [script(statement).removesuffix(";") for statement in statements]
