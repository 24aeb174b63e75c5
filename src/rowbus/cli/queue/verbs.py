"""`rowbus queue`: create, list, send to, peek at, purge and drop queues.

Invariant: only `purge` and `drop` take messages away, and they ask first.
"""

from __future__ import annotations

import asyncio
import sys
from typing import TYPE_CHECKING, Annotated

import typer

from rowbus.cli.endpoint import confirm_drop, drop_all
from rowbus.cli.options import (
    BodyString,
    CreateSchema,
    Database,
    Json,
    NotifyTrigger,
    QueueName,
    Schema,
    Verbose,
    addresses_in,
    noting,
    open_database,
    queue_addresses,
    queue_names,
)
from rowbus.cli.output import complain, say, show_json, show_table, show_text
from rowbus.cli.queue import listing
from rowbus.cli.queue.listing import cut_note, message_as_json
from rowbus.cli.queue.send import send
from rowbus.database.backends import inspecting
from rowbus.database.sessions import connected
from rowbus.errors import QueueNotFoundError
from rowbus.errors.strangers import printable
from rowbus.messages.message import read_body, read_headers, short_type, time_sent
from rowbus.transport.lanes.lane_table import LaneTable
from rowbus.transport.queues.catalog.looking import find_queues
from rowbus.transport.queues.catalog.table import catalog_of
from rowbus.transport.queues.diagnosis import named_with_lanes
from rowbus.transport.queues.installer import create_queue, create_schema
from rowbus.transport.queues.table import queue_table

if TYPE_CHECKING:
    from rowbus.database.sessions import Database as Location
    from rowbus.database.sessions import Session
    from rowbus.messages.address import QueueAddress
    from rowbus.messages.message import PeekedMessage
    from rowbus.transport.operations.table import Note
    from rowbus.transport.queues.catalog.table import Catalog

PURGE_BATCH = 1000  # expired messages deleted in one transaction
BODY_PREVIEW = 80  # characters
EXTRAS = {"body_string": "the column bodystring", "notify_trigger": "a notifying trigger"}

app = typer.Typer(
    help="Create, list, fill, look into, empty and drop queues.", no_args_is_help=True, rich_markup_mode=None
)


# ------------------------------------------------------------------------------------------------------------ create


@app.command()
def create(
    names: Annotated[list[str], typer.Argument(metavar="QUEUE...", help="Queues to create.")],
    *,
    schema: Schema = None,
    make_schema: CreateSchema = False,
    body_string: BodyString = False,
    notify_trigger: NotifyTrigger = False,
    database: Database = None,
    _verbose: Verbose = False,
) -> None:
    """Create queues.

    Those that are there already stay as they are, but for what is asked for.
    """
    names_in = addresses_in(database, schema)
    addresses = queue_addresses(names, names_in)
    schemas = {address.schema for address in addresses} if make_schema else set[str]()
    extras = {"body_string": body_string, "notify_trigger": notify_trigger}
    asyncio.run(create_all(open_database(database), catalog_of(names_in), addresses, schemas, extras))


async def create_all(
    database: Location,
    catalog: Catalog,
    addresses: list[QueueAddress],
    schemas: set[str],
    extras: dict[str, bool],
) -> None:
    """Create schemas and queues, saying of each whether it was missing."""
    async with connected(database) as session:
        for schema in sorted(schemas):
            made = await create_schema(session, catalog, schema)
            say(f"Created the schema {schema}." if made else f"The schema {schema} was there already.")
        for address in addresses:
            made = await create_queue(session, address, **extras)
            say((f"Created {address}" if made else f"{address} was there already") + _with(extras))


def _with(extras: dict[str, bool]) -> str:
    wanted = [EXTRAS[name] for name, is_wanted in extras.items() if is_wanted]
    return f"; it has {' and '.join(wanted)} now." if wanted else "."


# -------------------------------------------------------------------------------------------------------------- list


@app.command("list")
def list_(
    *,
    schema: Annotated[
        str | None, typer.Option("--schema", metavar="NAME", help="Only the queues of this schema.")
    ] = None,
    lanes: Annotated[bool, typer.Option("--lanes", help="Each lane of an endpoint, too.")] = False,
    as_json_: Json = False,
    database: Database = None,
    _verbose: Verbose = False,
) -> None:
    """List queues with their depth and the age of their oldest message.

    An endpoint's lanes count with its own queue, unless they are asked for; in JSON each is there. The sequence of a
    queue ends at 2,147,483,647: from 75% on there is a warning. Messages are counted up to 100,000. `in hand` are those
    of them that are being processed. Exit code 1: there is no queue.
    """
    with inspecting(open_database(database)) as session:
        queues = listing.find(session, catalog_of(addresses_in(database, schema)), schema)
    if as_json_:
        show_json([listing.as_json(queue) for queue in queues])
    elif queues:
        show_table(listing.COLUMNS, map(listing.as_row, queues if lanes else listing.with_lanes(queues)))
        for warning in filter(None, map(listing.warning, queues)):
            complain(warning)
    if not queues:
        complain("there is no queue" + (f" in the schema {schema}" if schema else ""))
        raise typer.Exit(1)


# -------------------------------------------------------------------------------------------------------------- send


app.command()(send)


# -------------------------------------------------------------------------------------------------------------- peek


@app.command()
def peek(
    name: QueueName,
    *,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, help="Most messages to show.")] = 10,
    headers: Annotated[bool, typer.Option("--headers", help="Show all headers, and bodies in full.")] = False,
    schema: Schema = None,
    as_json_: Json = False,
    database: Database = None,
    _verbose: Verbose = False,
) -> None:
    """Show the oldest messages of a queue without taking them.

    Those in flight are included. Exit code 1: the queue is empty.
    """
    address = queue_addresses([name], addresses_in(database, schema))[0]
    with open_database(database).session() as session:
        messages = session.run(queue_table(address).peek(limit))
    if as_json_:
        show_json([message_as_json(message) for message in messages])
    elif headers:
        show_text("\n\n".join(map(_in_full, messages)))
    elif messages:
        show_table(("seq#", "type", "sent", "message id", "body"), map(_in_a_row, messages))
    if not messages:
        complain(f"{address} is empty")
        raise typer.Exit(1)


def _in_a_row(message: PeekedMessage) -> tuple[object, ...]:
    headers, body = read_headers(message.headers), read_body(message.body)
    if headers is None:
        return message.seq, "(headers cannot be read)", "", "", _abridged(message.headers)
    sent = time_sent(headers)
    moment = f"{sent:%Y-%m-%d %H:%M:%S}" if sent else ""
    shown = "(null)" if body.text is None else _abridged(body.text)
    return message.seq, short_type(headers), moment, headers.get("NServiceBus.MessageId") or "", shown


def _abridged(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= BODY_PREVIEW else f"{line[: BODY_PREVIEW - 1]}…"


def _in_full(message: PeekedMessage) -> str:
    headers, body = read_headers(message.headers), read_body(message.body)
    expires = f", expires {message.expires:%Y-%m-%d %H:%M:%S} UTC" if message.expires else ""
    lines = [f"--- seq {message.seq}, row {message.id}{expires}"]
    if headers is None:
        lines.append(f"(headers cannot be read) {printable(message.headers)}")
    else:
        lines += [
            printable(f"{header}: {'(null)' if value is None else value}")
            for header, value in headers.items()
        ]
    note = "" if body.encoding == "utf-8" else f" ({body.encoding})"
    return "\n".join(
        [*lines, f"body{note}{cut_note(message)}: {'(null)' if body.text is None else body.text}"]
    )


# ------------------------------------------------------------------------------------------------------------- purge


@app.command()
def purge(
    name: QueueName,
    *,
    expired: Annotated[
        bool, typer.Option("--expired", help="Only messages whose time to be received is over.")
    ] = False,
    lanes: Annotated[bool, typer.Option("--lanes", help="Those of the endpoint's lanes, too.")] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    schema: Schema = None,
    database: Database = None,
    _verbose: Verbose = False,
) -> None:
    """Delete all messages of a queue, or the expired ones.

    Waits for messages in flight; with --expired passes over them. A queue's lanes keep theirs without --lanes. Asks
    first; without a terminal, --yes must be given.
    """
    names = addresses_in(database, schema)
    address = queue_addresses([name], names)[0]
    location = open_database(database)
    with location.session() as session:
        others = _lanes_of(session, address)
        queues = [address, *others] if lanes else [address]
        if not yes:
            _confirm(session, catalog_of(names), queues, location.name, expired=expired)
        purged = 0
        for queue in queues:
            with noting(session, names, "purge", queue, "the expired ones" if expired else "all") as note:
                purged += (_purge_expired if expired else _purge_all)(session, queue, note)
    called = named_with_lanes(address, len(queues) - 1)
    say(f"Deleted {purged} {'expired ' if expired else ''}{_messages(purged)} of {called}.")
    if others and not lanes:
        say(f"Its {len(others)} lanes keep theirs: add --lanes.")


def _lanes_of(session: Session, address: QueueAddress) -> list[QueueAddress]:
    """Return the lanes into which a queue's trigger puts messages: a name like that of one is not enough."""
    rule = session.run(LaneTable(address).find_rule()) if address.backend == "postgresql" else None
    return [] if rule is None else rule.lanes.addresses(address)


# -------------------------------------------------------------------------------------------------------------- drop


@app.command()
def drop(
    names: Annotated[
        list[str], typer.Argument(metavar="QUEUE...", help="Queues to drop.", autocompletion=queue_names)
    ],
    *,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    schema: Schema = None,
    database: Database = None,
    _verbose: Verbose = False,
) -> None:
    """Drop queues with their messages, for good: all of them or none.

    Lists them first, and asks; without a terminal, --yes must be given. Refuses while a process receives from one, and
    what is no queue. `rowbus endpoint drop` drops all tables of an endpoint. Exit code 1: a queue is missing.
    """
    addresses = addresses_in(database, schema)
    wanted, catalog = queue_addresses(names, addresses), catalog_of(addresses)
    location = open_database(database)
    with location.session() as session:
        _list_queues(session, catalog, wanted)
        confirm_drop(session, catalog, wanted, location.name, yes=yes)
        called = ", ".join(map(str, wanted))
        with noting(session, addresses, "drop", wanted[0], called) as note, session.transaction():
            drop_all(session, wanted)
            note(len(wanted))
    say(f"Dropped {called}.")


def _list_queues(session: Session, catalog: Catalog, wanted: list[QueueAddress]) -> None:
    """Say how deep queues are; raise QueueNotFoundError for one that is missing, or is none."""
    known = {shape.address for shape in find_queues(session, catalog, wanted) if shape.is_queue}
    for address in wanted:
        if address not in known:
            raise QueueNotFoundError(f"{address} is no queue, or there is none.", queue=str(address))
        depth = listing.bounded(session.run(catalog.queue_state(address, listing.MOST)).depth)
        say(f"{address}: {depth} {_messages(int(depth.rstrip('+')))}")


def _confirm(
    session: Session, catalog: Catalog, queues: list[QueueAddress], where: str, *, expired: bool
) -> None:
    if not sys.stdin.isatty():
        raise typer.BadParameter("there is no terminal to ask on; add --yes.", param_hint="--yes")
    depths = [session.run(catalog.queue_state(one, listing.MOST)).depth for one in queues]
    depth = listing.bounded(min(sum(depths), listing.MOST))
    what = f"the expired ones of the {depth} messages" if expired else f"the {depth} messages"
    called = named_with_lanes(queues[0], len(queues) - 1)
    typer.confirm(f"Delete {what} of {called} in {where}?", abort=True, err=True)


def _purge_all(session: Session, address: QueueAddress, note: Note) -> int:
    with session.transaction():
        purged = session.run(queue_table(address).purge())
        note(purged)
    return purged


def _purge_expired(session: Session, address: QueueAddress, note: Note) -> int:
    """Delete the expired messages that are not in flight, a batch a transaction, until none is left."""
    table, total, purged = queue_table(address), 0, PURGE_BATCH
    while purged:
        with session.transaction():
            purged = session.run(table.purge_expired(PURGE_BATCH))
            note(purged)
        total += purged
    return total


def _messages(count: int) -> str:
    return "message" if count == 1 else "messages"
