"""`rowbus subscriptions`: who gets which events, by hand.

Invariant: a queue's messages are never touched: a subscription says where copies go from now on.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Annotated

import typer

from rowbus.cli.options import (
    Database,
    Json,
    Schema,
    Verbose,
    addresses_in,
    open_database,
    queue_addresses,
    queue_names,
)
from rowbus.cli.output import complain, say, show_json, show_table
from rowbus.database.sessions import connected
from rowbus.transport.pubsub.publication import check_subscription
from rowbus.transport.pubsub.subscribers import existing_queues
from rowbus.transport.pubsub.table import create_subscriptions, subscription_routing
from rowbus.transport.queues.catalog.table import catalog_of

if TYPE_CHECKING:
    from rowbus.database.sessions import Database as Location
    from rowbus.messages.address import Addresses, QueueAddress
    from rowbus.transport.pubsub.table import SubscriptionRouting

app = typer.Typer(
    help="List, add and remove subscriptions to events.", no_args_is_help=True, rich_markup_mode=None
)

Table = Annotated[str, typer.Option("--table", metavar="NAME", help="The table of subscriptions.")]
EndpointName = Annotated[
    str,
    typer.Argument(
        metavar="ENDPOINT",
        help="The logical name of the subscriber: Billing, Shop.Sales.",
        autocompletion=queue_names,
    ),
]
DEFAULT_TABLE = "SubscriptionRouting"


def _table(name: str, addresses: Addresses) -> SubscriptionRouting:
    return subscription_routing(queue_addresses([name], addresses)[0])


# -------------------------------------------------------------------------------------------------------------- list


@app.command("list")
def list_(
    *,
    endpoint: Annotated[
        str | None, typer.Option("--endpoint", metavar="NAME", help="Only those of this endpoint.")
    ] = None,
    topic: Annotated[
        str | None, typer.Option("--event", metavar="TYPE", help="Only those to this event type.")
    ] = None,
    table: Table = DEFAULT_TABLE,
    schema: Schema = None,
    as_json: Json = False,
    database: Database = None,
    _verbose: Verbose = False,
) -> None:
    """List who subscribes to what, where the copies go, and whether that queue exists.

    Publishing to a queue that does not exist fails. Exit code 1: there is no such subscription.
    """
    addresses = addresses_in(database, schema)
    routing = _table(table, addresses)
    with open_database(database).session() as session:
        found = [
            subscription
            for subscription in session.run(routing.list())
            if endpoint in {None, subscription.endpoint} and topic in {None, subscription.topic}
        ]
        existing = existing_queues(session, catalog_of(addresses), routing.address, found)
    if as_json:
        show_json([one._asdict() | {"queue_exists": one.queue in existing} for one in found])
    elif found:
        rows = [(*one, "ok" if one.queue in existing else "no such queue") for one in found]
        show_table(("endpoint", "event", "queue", "state"), rows)
    if not found:
        complain("there is no such subscription" if endpoint or topic else "there are no subscriptions")
        raise typer.Exit(1)


# --------------------------------------------------------------------------------------------------------------- add


@app.command()
def add(
    endpoint: EndpointName,
    topics: Annotated[list[str], typer.Argument(metavar="EVENT...", help="Wire names of events.")],
    *,
    queue: Annotated[
        str | None,
        typer.Option(
            "--queue", metavar="QUEUE", help="Where the copies go. Not given: the endpoint's queue."
        ),
    ] = None,
    table: Table = DEFAULT_TABLE,
    schema: Schema = None,
    database: Database = None,
    _verbose: Verbose = False,
) -> None:
    """Subscribe an endpoint to events, or say where its copies go from now on.

    Publishers notice within their subscription_cache (5 s).
    """
    addresses = addresses_in(database, schema)
    routing = _table(table, addresses)
    address = queue_addresses([queue], addresses)[0] if queue else _queue_of(endpoint, addresses)
    check_subscription(endpoint, topics, address)
    with open_database(database).session() as session:
        changed = session.run(routing.subscribe(endpoint, topics, address))
        found = [
            one for one in session.run(routing.list()) if one.endpoint == endpoint and one.topic in topics
        ]
        existing = existing_queues(session, catalog_of(addresses), routing.address, found)
    for topic in topics:
        say(f"{endpoint} subscribes to {topic}; the copies go to {address}.")
    if not changed:
        say("It did so already.")
    if not existing:
        complain(f"there is no queue {address}: publishing fails until it is created, or `remove` ends this.")


def _queue_of(endpoint: str, addresses: Addresses) -> QueueAddress:
    addresses.validate_endpoint_name(endpoint)
    return addresses.for_endpoint(endpoint)


# ------------------------------------------------------------------------------------------------------------ remove


@app.command()
def remove(
    endpoint: EndpointName,
    topics: Annotated[
        list[str] | None, typer.Argument(metavar="[EVENT...]", help="Wire names of events.")
    ] = None,
    *,
    every: Annotated[bool, typer.Option("--all", help="All subscriptions of the endpoint.")] = False,
    table: Table = DEFAULT_TABLE,
    schema: Schema = None,
    database: Database = None,
    _verbose: Verbose = False,
) -> None:
    """End subscriptions of an endpoint; copies that are in its queue stay there.

    An endpoint that handles an event subscribes again when it starts. Exit code 1: there was no such subscription.
    """
    if bool(topics) == every:
        raise typer.BadParameter("say which events, or --all.")
    routing = _table(table, addresses_in(database, schema))
    with open_database(database).session() as session:
        wanted = topics or [one.topic for one in session.run(routing.list()) if one.endpoint == endpoint]
        removed = session.run(routing.unsubscribe(endpoint, wanted))
    for topic in removed:
        say(f"{endpoint} no longer subscribes to {topic}.")
    missing = [topic for topic in wanted if topic not in removed]
    if missing or not removed:
        complain(f"{endpoint} did not subscribe to {', '.join(missing) or 'anything'}")
        raise typer.Exit(1)


# ------------------------------------------------------------------------------------------------------------ create


@app.command()
def create(
    *,
    table: Table = DEFAULT_TABLE,
    schema: Schema = None,
    database: Database = None,
    _verbose: Verbose = False,
) -> None:
    """Create the table of subscriptions, as starting an endpoint does.

    Publishing needs it even without subscribers.
    """
    asyncio.run(create_table(open_database(database), _table(table, addresses_in(database, schema)).address))


async def create_table(database: Location, address: QueueAddress) -> None:
    """Create a table of subscriptions, saying whether it was missing."""
    async with connected(database) as session:
        made = await create_subscriptions(session, address)
    say(f"Created {address}." if made else f"{address} was there already.")
