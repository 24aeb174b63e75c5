"""`rowbus delayed`: what waits to become due, and a mover in a process of its own.

Invariant: only `send-now` lets a message go before it is due.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Annotated

import typer

from rowbus.cli.options import (
    BodyString,
    Database,
    Json,
    LogLines,
    Metrics,
    Schema,
    Verbose,
    addresses_in,
    endpoint_argument,
    load_endpoint,
    noting,
    open_database,
)
from rowbus.cli.output import LogFormat, complain, say, show_json, show_logs, show_table
from rowbus.cli.serving import serve
from rowbus.cli.store import found_stores, next_due, store_plan, table_store
from rowbus.database.backends import inspecting
from rowbus.database.locks import find_holders_now
from rowbus.errors import ConfigurationError
from rowbus.messages.address import DEFAULT_DELAYED_SUFFIX
from rowbus.messages.headers import Header
from rowbus.messages.message import read_headers, short_type
from rowbus.settings import NativeDelayedDelivery
from rowbus.transport.delayed.installer import create_delayed
from rowbus.transport.delayed.policy import route
from rowbus.transport.delayed.standalone_mover import DelayedMover
from rowbus.transport.delayed.table import delayed_table
from rowbus.transport.queues.catalog.looking import look_into_each, sort_out
from rowbus.transport.queues.catalog.ownership import not_looked_at
from rowbus.transport.queues.catalog.table import catalog_of
from rowbus.transport.queues.diagnosis import duration

if TYPE_CHECKING:
    from datetime import datetime

    from rowbus import Endpoint
    from rowbus.cli.store import StorePlan
    from rowbus.database.sessions import Database as Location
    from rowbus.database.sessions import Session
    from rowbus.messages.address import Addresses, QueueAddress
    from rowbus.transport.delayed.table import DelayedState
    from rowbus.transport.delayed.waiting import WaitingMessage
    from rowbus.transport.delayed_store.table import KeptMessage
    from rowbus.transport.queues.catalog.looking import FoundTables

MOST = 100_000  # messages are counted up to here
COLUMNS = ("table", "waiting#", "overdue#", "next due", "in#", "mover")
MESSAGE_COLUMNS = ("due", "in#", "message", "type", "for")

app = typer.Typer(
    help="List delayed messages, move them when they are due, cancel them, send them now.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

EndpointName = Annotated[str, endpoint_argument("The endpoint whose delayed messages they are: Sales.")]
MessageId = Annotated[
    str, typer.Argument(metavar="ID", help="The message's id, as `rowbus delayed list ENDPOINT` shows it.")
]
Suffix = Annotated[str, typer.Option("--suffix", metavar="NAME", help="The table is called ENDPOINT.NAME.")]


# -------------------------------------------------------------------------------------------------------------- list


@app.command("list")
def list_(
    endpoint: Annotated[
        str | None,
        typer.Argument(
            metavar="ENDPOINT",
            help="Show the messages of this endpoint that are due next; MODULE:ENDPOINT: also in its store.",
        ),
    ] = None,
    *,
    limit: Annotated[int, typer.Option("--limit", min=1, metavar="N", help="How many messages.")] = 20,
    suffix: Suffix = DEFAULT_DELAYED_SUFFIX,
    schema: Annotated[
        str | None,
        typer.Option("--schema", metavar="NAME", help="Only this schema. Of an ENDPOINT: public, or dbo."),
    ] = None,
    as_json: Json = False,
    database: Database = None,
    _verbose: Verbose = False,
) -> None:
    """List the tables of delayed messages, or the messages of one that are due next; nothing is taken.

    Overdue messages wait for a mover, or in a delayed message store for a poller: their endpoint does not run, or
    fails. `mover` is the session that has the lock of the one mover; the table of a store has none. MODULE:ENDPOINT is
    imported; of a store that is not ours only the next due time is known. Exit code 1: there is no table.
    """
    if endpoint is None:
        _list_tables(schema, database, as_json=as_json)
    elif ":" in endpoint:
        _list_endpoint(load_endpoint(endpoint), limit, database, as_json=as_json)
    else:
        _list_messages(
            _address(endpoint, suffix, addresses_in(database, schema)), limit, database, as_json=as_json
        )


def _list_tables(schema: str | None, database: str | None, *, as_json: bool) -> None:
    addresses = addresses_in(database, schema)
    catalog = catalog_of(addresses)
    with inspecting(open_database(database)) as session:
        found = sort_out(session, catalog, session.run(catalog.find_delayed(schema)))
        states, left_out = _states(session, found)
        stores, strange = found_stores(session, addresses, schema, MOST)
    left_out |= strange
    states |= {address: (state, None) for address, state in stores.items()}
    if as_json:
        show_json(
            [
                {
                    "table": str(address),
                    **_state_as_json(state),
                    "mover": mover,
                    "store": address in stores,
                    "not_looked_at": None,
                }
                for address, (state, mover) in states.items()
            ]
            + [_left_out_as_json(address, reason) for address, reason in left_out.items()]
        )
    elif states or left_out:
        rows = [
            (address, *_state_cells(state), mover or ("(a store)" if address in stores else ""))
            for address, (state, mover) in states.items()
        ]
        rows += [(address, not_looked_at(reason)) for address, reason in left_out.items()]
        show_table(COLUMNS, rows)
    if not states and not left_out:
        complain("there is no table of delayed messages")
        raise typer.Exit(1)


def _states(
    session: Session, found: FoundTables
) -> tuple[dict[QueueAddress, tuple[DelayedState, str | None]], dict[QueueAddress, str]]:
    """Count what waits in each table, and say who moves it; say which are left out, and why."""

    def read(address: QueueAddress) -> tuple[DelayedState, str | None]:
        table = delayed_table(address)
        return session.run(table.state(MOST)), find_holders_now(session, table.leaders())

    states, left_out = look_into_each(session, found.tables, read)
    return states, found.left_out | left_out


def _state_as_json(state: DelayedState) -> dict[str, object]:
    return {"waiting": state.waiting, "overdue": state.overdue, "next_due": state.next_due}


def _left_out_as_json(address: QueueAddress, reason: str) -> dict[str, object]:
    unknown = dict.fromkeys(("waiting", "overdue", "next_due", "mover"))
    return {"table": str(address), **unknown, "store": None, "not_looked_at": reason}


def _state_cells(state: DelayedState) -> tuple[object, ...]:
    if state.next_due is None:
        return (0, 0, "", "")
    return (
        _bounded(state.waiting),
        _bounded(state.overdue),
        _moment(state.next_due),
        _distance(state.next_due, state.at),
    )


def _bounded(count: int) -> str:
    return f"{MOST:,} or more" if count >= MOST else f"{count:,}"


def _list_endpoint(endpoint: Endpoint, limit: int, database: str | None, *, as_json: bool) -> None:
    """List what waits in an endpoint's table or store."""
    dsn = database or endpoint.database
    plan = store_plan(endpoint)
    if plan is not None:
        _list_store(plan, limit, dsn, as_json=as_json)
    elif (delayed := endpoint.parts.delayed) is not None:
        _list_messages(delayed, limit, dsn, as_json=as_json)
    else:
        raise ConfigurationError(
            f"Endpoint {endpoint.name} delays no messages: its delayed_delivery is None."
        )


def _list_store(plan: StorePlan, limit: int, dsn: str | None, *, as_json: bool) -> None:
    ours = table_store(plan, dsn)
    if ours is None:
        _tell_next(plan, as_json=as_json)
        return
    messages, at = ours.peek(limit)
    if as_json:
        show_json([_kept_as_json(message) for message in messages])
    elif messages:
        show_table(MESSAGE_COLUMNS, [_kept_cells(message, at) for message in messages])
    else:
        say("No message waits.")


def _tell_next(plan: StorePlan, *, as_json: bool) -> None:
    """Say when the next message of a store that is not ours is due."""
    due, kind = next_due(plan), type(plan.store).__qualname__
    if as_json:
        show_json({"store": kind, "next_due": due})
    elif due is None:
        say("No message waits.")
    else:
        say(f"The next message of the store {kind} is due {_moment(due)}; the store shows no more.")


def _kept_as_json(message: KeptMessage) -> dict[str, object]:
    headers = read_headers(message.headers)
    return {
        "row_id": message.id,
        "due": message.due,
        "destination": message.destination,
        "headers": headers,
        **({"raw_headers": message.headers} if headers is None else {}),
        "size": message.size,
        "failures": message.failures,
    }


def _kept_cells(message: KeptMessage, at: datetime) -> tuple[object, ...]:
    headers = read_headers(message.headers)
    return (
        _moment(message.due),
        _distance(message.due, at),
        (headers or {}).get(Header.MESSAGE_ID) or message.id,
        short_type(headers),
        message.destination,
    )


def _list_messages(address: QueueAddress, limit: int, database: str | None, *, as_json: bool) -> None:
    table = delayed_table(address)
    with open_database(database).session() as session:
        state = session.run(table.state(1))
        messages = session.run(table.peek(limit))
    if as_json:
        show_json([_message_as_json(message, address) for message in messages])
    elif messages:
        show_table(MESSAGE_COLUMNS, [_message_cells(message, state.at, address) for message in messages])
    else:
        say("No message waits.")


def _message_as_json(message: WaitingMessage, table: QueueAddress) -> dict[str, object]:
    headers, found = read_headers(message.headers), route(message.headers, table)
    return {
        "row_id": message.id,
        "due": message.due,
        "destination": None if found is None else str(found.destination),
        "headers": headers,
        **({"raw_headers": message.headers} if headers is None else {}),
        "size": message.size,
    }


def _message_cells(message: WaitingMessage, at: datetime, table: QueueAddress) -> tuple[object, ...]:
    headers, found = read_headers(message.headers), route(message.headers, table)
    return (
        _moment(message.due),
        _distance(message.due, at),
        (headers or {}).get(Header.MESSAGE_ID) or message.id,
        short_type(headers),
        "" if found is None else found.destination,
    )


def _moment(moment: datetime) -> str:
    return moment.isoformat(" ", "seconds")


def _distance(due: datetime, at: datetime) -> str:
    return duration(due - at) if due > at else f"-{duration(at - due)}"


# -------------------------------------------------------------------------------------------------------------- move


@app.command()
def move(  # noqa: PLR0913 - options, each by keyword
    endpoint: EndpointName,
    *,
    once: Annotated[bool, typer.Option("--once", help="Move what is due now, and end; for cron.")] = False,
    error_queue: Annotated[
        str,
        typer.Option("--error-queue", metavar="QUEUE", help="For what cannot be moved to its queue."),
    ] = "error",
    suffix: Suffix = DEFAULT_DELAYED_SUFFIX,
    metrics: Metrics = None,
    log_format: LogLines = LogFormat.TEXT,
    schema: Schema = None,
    database: Database = None,
    verbose: Verbose = False,
) -> None:
    """Move an endpoint's delayed messages to their queues when they are due.

    A running endpoint does so itself; this is for senders that are no endpoint, and for endpoints that are down.
    Serves until SIGTERM or Ctrl-C; of several movers of a table one leads, and another takes over when it ends.
    """
    mover = DelayedMover(
        endpoint,
        database=database,
        schema=schema,
        error_queue=error_queue,
        settings=NativeDelayedDelivery(table_suffix=suffix),
    )
    if once:
        moved = mover.run_once()
        say(f"Moved {moved:,} {'message' if moved == 1 else 'messages'}.")
    else:
        show_logs(logging.DEBUG if verbose else logging.INFO, log_format)
        serve(mover, metrics)


# ------------------------------------------------------------------------------------------------------------ cancel


@app.command()
def cancel(
    endpoint: EndpointName,
    message_id: MessageId,
    *,
    suffix: Suffix = DEFAULT_DELAYED_SUFFIX,
    schema: Schema = None,
    database: Database = None,
    _verbose: Verbose = False,
) -> None:
    """Cancel a delayed message: it is deleted, and never delivered.

    A message that waits for a delayed retry has been delivered before, and is not cancelled. Exit code 1: no message of
    this id waits; it was never there, or it has become due and was moved.
    """
    table = delayed_table(_address(endpoint, suffix, addresses_in(database, schema)))
    names = addresses_in(database, schema)
    with (
        open_database(database).session() as session,
        noting(session, names, "cancel", table.address, message_id) as note,
        session.transaction(),
    ):
        cancelled = session.run(table.cancel(message_id))
        note(cancelled)
    if not cancelled:
        complain(f"no message {message_id} waits in {table.address}")
        raise typer.Exit(1)
    say(f"Cancelled {message_id}.")


# ---------------------------------------------------------------------------------------------------------- send now


@app.command()
def send_now(
    endpoint: EndpointName,
    message_id: MessageId,
    *,
    suffix: Suffix = DEFAULT_DELAYED_SUFFIX,
    schema: Schema = None,
    database: Database = None,
    _verbose: Verbose = False,
) -> None:
    """Move a delayed message to its queue now, before it is due.

    One that waits for its next delayed retry is tried again at once. A mover may run beside: nothing is sent twice.
    Exit code 1: no message of this id waits, or a mover has it in its hands.
    """
    mover = DelayedMover(
        endpoint,
        database=database,
        schema=schema,
        settings=NativeDelayedDelivery(table_suffix=suffix),
    )
    if not mover.send_now(message_id):
        complain(f"no message {message_id} waits in {mover.address}")
        raise typer.Exit(1)
    say(f"Sent {message_id}.")


# ------------------------------------------------------------------------------------------------------------ create


@app.command()
def create(
    endpoint: EndpointName,
    *,
    body_string: BodyString = False,
    suffix: Suffix = DEFAULT_DELAYED_SUFFIX,
    schema: Schema = None,
    database: Database = None,
    _verbose: Verbose = False,
) -> None:
    """Create an endpoint's table of delayed messages if it is missing; starting the endpoint does the same."""
    asyncio.run(
        create_delayed_table(
            open_database(database),
            _address(endpoint, suffix, addresses_in(database, schema)),
            body_string=body_string,
        )
    )


async def create_delayed_table(
    location: Location, address: QueueAddress, *, body_string: bool = False
) -> None:
    """Create a table of delayed messages if it is missing, and say what was done."""
    session = await location.connect()
    try:
        created = await create_delayed(session, address, body_string=body_string)
    finally:
        await session.close()
    say(f"Created {address}." if created else f"{address} was there already.")


def _address(endpoint: str, suffix: str, addresses: Addresses) -> QueueAddress:
    addresses.validate_endpoint_name(endpoint, delayed_suffix=suffix)
    return addresses.for_endpoint(endpoint, qualifier=suffix)
