"""`rowbus running`: the messages whose handlers run, how far those are that take long, and an end to one of them.

Invariant: a handler is ended by the process that runs it; here that is only asked for.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from rowbus.cli.options import Database, Json, Schema, Verbose, addresses_in, noting, open_database
from rowbus.cli.output import complain, say, show_json, show_table
from rowbus.cli.queue.listing import readable, tell_left_out
from rowbus.errors import ConfigurationError
from rowbus.transport.long_work.table import (
    COLUMNS,
    Cancelling,
    WorkStatus,
    long_work_address,
    long_work_table,
)
from rowbus.transport.operations.table import person_here
from rowbus.transport.pauses.table import pauses_address
from rowbus.transport.queues.catalog.looking import NotLookedAtError, find_tables, look, refuse_strangers
from rowbus.transport.queues.catalog.table import catalog_of
from rowbus.transport.queues.diagnosis import duration
from rowbus.transport.queues.traffic import in_hand
from rowbus.transport.receiving.handler_watch import cancel_in_hand

if TYPE_CHECKING:
    from rowbus.database.sessions import Session
    from rowbus.database.statements import Statement
    from rowbus.messages.address import Addresses, QueueAddress
    from rowbus.transport.queues.traffic import MessageInHand

T = TypeVar("T")

HEAD = ("endpoint", "message", "type", "process", "since#", "failures#", "progress", "cancelled by")

app = typer.Typer(
    help="List the messages in hand, and end the handler of one of them.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

Endpoint = Annotated[
    str | None, typer.Option("--endpoint", metavar="NAME", help="Of this endpoint alone: Sales.")
]


@app.command("list")
def list_(
    *,
    endpoint: Endpoint = None,
    schema: Schema = None,
    as_json: Json = False,
    database: Database = None,
    _verbose: Verbose = False,
) -> None:
    """List the messages in hand: who has each, since when, how far one is that takes long. Exit code 1: there are none.

    Without a process: it waits for one. Of each queue the oldest 1,000 messages are looked at.
    """
    addresses, found = _names(database, schema), list[WorkStatus]()
    with open_database(database).session() as session:
        for table in _tables(session, addresses, endpoint):
            found += _looked(session, table, long_work_table(table).list())
        for queue in _queues(session, addresses, endpoint):
            found += [_status(queue, one) for one in _looked(session, queue, in_hand(queue))]
    if as_json:
        show_json([row._asdict() for row in found])
    elif found:
        show_table(HEAD, [_cells(row) for row in found])
    if not found:
        complain("no handler is running")
        raise typer.Exit(1)


@app.command()
def cancel(
    message_id: Annotated[str, typer.Argument(metavar="ID", help="The message, as `list` shows it.")],
    *,
    why: Annotated[
        str, typer.Option("--why", help="The reason, for those who find it in the error queue.")
    ] = "",
    endpoint: Endpoint = None,
    schema: Schema = None,
    database: Database = None,
    _verbose: Verbose = False,
) -> None:
    """End the handler of a message, within two seconds: its message moves to the error queue with who and why.

    What it did in the database is undone. A `def` that goes on is left to itself. Exit code 1: none runs for this id.
    """
    addresses, cancelled = _names(database, schema), 0
    with open_database(database).session() as session:
        cancelling = Cancelling(person_here(session, addresses), why or "no reason was given")
        for table in _tables(session, addresses, endpoint):
            with noting(session, addresses, "cancel running work", table, message_id) as note:
                asked = session.run(long_work_table(table).cancel(message_id, cancelling))
                note(asked.count(cancelling.by))
            cancelled += len(asked)
            for other in {*asked} - {cancelling.by}:
                complain(f"{other} has cancelled it before")
        for queue in _queues(session, addresses, endpoint):
            if any(one.message_id == message_id for one in _looked(session, queue, in_hand(queue))):
                with noting(session, addresses, "cancel running work", queue, message_id):
                    cancel_in_hand(session, pauses_address(addresses), message_id, cancelling)
                cancelled += 1
    if not cancelled:
        complain(f"no handler is running for message {message_id}")
        raise typer.Exit(1)
    say(f"Cancelled the work of message {message_id}.")


def _tables(session: Session, addresses: Addresses, endpoint: str | None) -> list[QueueAddress]:
    """Return an endpoint's table, or those of all endpoints; strangers' are told of."""
    if endpoint is not None:
        addresses.validate_endpoint_name(endpoint)
        return _trusted(session, long_work_address(endpoint, addresses))
    found = find_tables(session, catalog_of(addresses), COLUMNS)
    for table, reason in found.left_out.items():
        complain(f"{table} is not looked at: {reason}")
    return found.tables


def _names(database: str | None, schema: str | None) -> Addresses:
    """Return how names become addresses; only PostgreSQL says who has a message in hand."""
    names = addresses_in(database, schema)
    if names.backend != "postgresql":
        raise ConfigurationError("Running handlers are seen, and ended, on PostgreSQL only.")
    return names


def _trusted(session: Session, table: QueueAddress) -> list[QueueAddress]:
    """Return an endpoint's table if it may be read and written to; one of a stranger's is told of."""
    try:
        refuse_strangers(session, table)
    except NotLookedAtError as error:
        tell_left_out(table, error.reason)
        return []
    return [table]


def _queues(session: Session, addresses: Addresses, endpoint: str | None) -> list[QueueAddress]:
    """Return an endpoint's queue, or all that this role may read."""
    if endpoint is not None:
        return [addresses.for_endpoint(endpoint)]
    return [*readable(session, catalog_of(addresses))]


def _looked(session: Session, table: QueueAddress, statement: Statement[list[T]]) -> list[T]:
    """Look into a table; one that is not looked at is told of, and has nothing."""
    try:
        return look(session, table, statement)
    except NotLookedAtError as error:
        complain(f"{table} is not looked at: {error.reason}")
        return []


def _status(queue: QueueAddress, one: MessageInHand) -> WorkStatus:
    process = f"{one.place or '?'}, session {one.pid}"
    return WorkStatus(queue.table, one.message_id, one.type, process, one.since, 0, None, None, None)


def _cells(row: WorkStatus) -> tuple[object, ...]:
    since = "" if row.since is None else duration(datetime.now(UTC) - row.since)
    progress = "" if row.fraction is None else f"{row.fraction:.0%} {row.note or ''}".strip()
    kind = row.types.partition(";")[0]
    return (
        row.endpoint,
        row.message_id,
        kind,
        row.process or "",
        since,
        row.failures,
        progress,
        row.cancelled_by or "",
    )
