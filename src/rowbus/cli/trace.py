"""`rowbus trace row|message`: who changed a row, and what a message changed and sent.

Invariant: nothing is changed or taken.
"""

from __future__ import annotations

from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from rowbus.cli.options import Database, Json, Verbose, addresses_in, open_log_database
from rowbus.cli.output import complain, show_json, show_table
from rowbus.cli.queue.listing import readable
from rowbus.log.causes import message_changes, row_changes
from rowbus.messages.headers import Header
from rowbus.messages.message import read_headers, short_type
from rowbus.transport.queues.catalog.looking import look_into_each
from rowbus.transport.queues.catalog.ownership import explain
from rowbus.transport.queues.catalog.table import catalog_of
from rowbus.transport.queues.table import queue_table

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rowbus.database.sessions import Session
    from rowbus.log.causes import CausedChange
    from rowbus.messages.address import QueueAddress
    from rowbus.transport.queues.catalog.table import Catalog

MOST_MESSAGES = 1_000  # of each queue, the oldest
CHANGES = ("time", "table", "key", "operation", "message id", "type", "handler", "user", "request")
MESSAGES = ("queue", "message id", "type")

app = typer.Typer(
    help="Say who changed a row of a captured table, and what a message changed and sent.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


class FollowingMessage(NamedTuple):
    """A message that handlers of another sent, and where it is."""

    queue: str
    message_id: str
    type: str


@app.command()
def row(
    table: Annotated[str, typer.Argument(metavar="TABLE", help="A captured table: shop.orders.")],
    key: Annotated[
        list[str], typer.Argument(metavar="KEY...", help="The values of the row's key, in its order.")
    ],
    *,
    as_json: Json = False,
    database: Database = None,
    _verbose: Verbose = False,
) -> None:
    """List who changed a row: the message, its handler, the user and the request, as far as logs still hold it.

    Exit code 1: no log holds a change of it.
    """
    with open_log_database(database).session() as session:
        found = session.run(row_changes(table, key))
    if as_json:
        show_json([_as_json(change) for change in found])
    elif found:
        show_table(CHANGES, map(_as_row, found))
    if not found:
        complain(f"no log holds a change of {table} {' '.join(key)}")
        raise typer.Exit(1)


@app.command()
def message(
    message_id: Annotated[str, typer.Argument(metavar="ID", help="The message's id.")],
    *,
    as_json: Json = False,
    database: Database = None,
    _verbose: Verbose = False,
) -> None:
    """List the rows that a message's handlers changed, and the messages that they sent and queues still hold.

    Of each queue the oldest 1,000 messages are looked at. Exit code 1: nothing is found.
    """
    catalog = catalog_of(addresses_in(database, None))
    with open_log_database(database).session() as session:
        changed = session.run(message_changes(message_id))
        sent = list(_sent(session, catalog, message_id))
    if as_json:
        show_json(
            {"changes": [_as_json(change) for change in changed], "sent": [it._asdict() for it in sent]}
        )
    else:
        if changed:
            show_table(CHANGES, map(_as_row, changed))
        if sent:
            show_table(MESSAGES, sent)
    if not changed and not sent:
        complain(
            f"no log holds a change that message {message_id} caused, and no queue a message that it sent"
        )
        raise typer.Exit(1)


def _sent(session: Session, catalog: Catalog, message_id: str) -> Iterator[FollowingMessage]:
    for address in readable(session, catalog):
        looked = look_into_each(session, [address], partial(_sent_to, session, message_id))
        for reason in looked.left_out.values():
            complain(explain(address, reason))
        yield from chain.from_iterable(looked.answers.values())


def _sent_to(session: Session, message_id: str, address: QueueAddress) -> list[FollowingMessage]:
    read = (
        (each, read_headers(each.headers)) for each in session.run(queue_table(address).peek(MOST_MESSAGES))
    )
    return [
        FollowingMessage(str(address), headers.get(Header.MESSAGE_ID) or each.id, short_type(headers))
        for each, headers in read
        if headers is not None and headers.get(Header.RELATED_TO) == message_id
    ]


def _as_row(change: CausedChange) -> tuple[object, ...]:
    cause = change.cause
    key = ", ".join(f"{name}={value}" for name, value in change.key.items())
    told = (cause.message_id, cause.message_type, cause.handler, cause.user, cause.request)
    return (
        f"{change.time:%Y-%m-%d %H:%M:%S}",
        change.table,
        key,
        change.operation,
        *(it or "" for it in told),
    )


def _as_json(change: CausedChange) -> dict[str, object]:
    return {**change._asdict(), "key": dict(change.key), "cause": change.cause._asdict()}
