"""`rowbus queue send`: one message, or one for each line of a file.

Invariant: all the messages of one call are sent, or none.
"""

from __future__ import annotations

import sys
from contextlib import contextmanager
from datetime import timedelta
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, BinaryIO, NamedTuple

import typer

from rowbus.cli.options import (
    Database,
    QueueName,
    Schema,
    Verbose,
    addresses_in,
    open_database,
    queue_addresses,
)
from rowbus.cli.output import complain, say, show_written_json
from rowbus.contracts.bodies import completed, find_example, find_misfits
from rowbus.contracts.published import find_published
from rowbus.errors import ConfigurationError
from rowbus.messages.bodies.json_bodies import JSON, JSON_TYPES, reason_not_json
from rowbus.messages.headers import Header
from rowbus.running import setting_types
from rowbus.transport.client import Client

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator, Mapping, Sequence

    from rowbus.contracts.contract import PublishedContract
    from rowbus.database.sessions import Session
    from rowbus.messages.address import Addresses, QueueAddress


def time_span(text: str) -> timedelta:
    """Read a span of time as people type it: 30s, 1.5h, 500ms, 2d."""
    try:
        return setting_types.time_span(text)
    except ConfigurationError as error:
        raise typer.BadParameter(str(error)) from None


def header(text: str) -> tuple[str, str]:
    """Split NAME=VALUE."""
    name, equals, value = text.partition("=")
    if not (name and equals):
        raise typer.BadParameter(f"{text!r} is not of the form NAME=VALUE.")
    return name, value


ContentType = Annotated[
    str, typer.Option("--content-type", metavar="TYPE", help="Of the body. JSON is checked.")
]
Anyway = Annotated[
    bool, typer.Option("--anyway", help="Send also what does not fit the contract of the queue's endpoint.")
]
Example = Annotated[
    bool,
    typer.Option(
        "--example",
        help="Send nothing: print a body that fits, or the given one with the fields that it lacks.",
    ),
]


def send(  # noqa: PLR0913 - an option is a parameter
    name: QueueName,
    body: Annotated[
        str | None, typer.Argument(metavar="BODY", help="The body; - or nothing: read it from the input.")
    ] = None,
    *,
    type_: Annotated[
        str, typer.Option("--type", metavar="NAME", help="Wire name of the message (a .NET FullName).")
    ],
    headers: Annotated[
        list[str] | None,
        typer.Option("--header", metavar="NAME=VALUE", help="A header; may be given more than once."),
    ] = None,
    file: Annotated[
        Path | None,
        typer.Option(
            "--file", metavar="PATH", exists=True, dir_okay=False, help="Read the body from this file."
        ),
    ] = None,
    lines: Annotated[
        bool, typer.Option("--lines", help="Send each line that is not empty as a message; all or none.")
    ] = False,
    reply_to: Annotated[
        str | None, typer.Option("--reply-to", metavar="QUEUE", help="Where replies shall go.")
    ] = None,
    ttbr: Annotated[
        timedelta | None,
        typer.Option(
            "--ttbr",
            metavar="SPAN",
            parser=time_span,
            help="Time to be received, such as 30s: later the message is dropped.",
        ),
    ] = None,
    content_type: ContentType = JSON,
    anyway: Anyway = False,
    example: Example = False,
    schema: Schema = None,
    database: Database = None,
    _verbose: Verbose = False,
) -> None:
    """Send a message, or one for each line of the input.

    The body is the argument, the content of --file, or the standard input. JSON is compared with what the queue's
    endpoint published of itself, if it did. Exit code 1: the queue does not exist, with --lines there was no
    line, or with --example the endpoint published nothing of this type.
    """
    extra = {Header.CONTENT_TYPE: content_type, **dict(map(header, headers or ()))}
    names = addresses_in(database, schema)
    target = queue_addresses([name], names)[0]
    sender = _Sender(names, target, schema, reply_to, _named(type_), content_type, extra, ttbr)
    if example:
        _print_example(sender, database, "" if body is None and file is None else body, file)
        return
    with opened(body, file) as source:
        (_send_lines if lines else _send_one)(sender, database, source, anyway=anyway)


class _Sender(NamedTuple):
    """The common part of all messages of one call."""

    names: Addresses
    address: QueueAddress
    schema: str | None
    reply_to: str | None
    type: str
    content_type: str
    headers: Mapping[str, str]
    time_to_be_received: timedelta | None

    def client(self, session: Session) -> Client:
        return Client(session.connection, schema=self.schema, reply_to=self.reply_to)

    def options(self) -> dict[str, Any]:
        return {"type": self.type, "headers": self.headers, "time_to_be_received": self.time_to_be_received}


def _send_one(sender: _Sender, database: str | None, source: BinaryIO, *, anyway: bool) -> None:
    body = _checked(source.read(), sender.content_type, "The body")
    with open_database(database).session() as session:
        published = () if anyway else _published(session, sender)
        _refuse_misfit(published, sender, body, "The body")
        message_id = sender.client(session).send(sender.address, body, **sender.options())
    say(f"Sent {message_id} to {sender.address}.")


def _send_lines(sender: _Sender, database: str | None, source: BinaryIO, *, anyway: bool) -> None:
    with open_database(database).session() as session:
        published = () if anyway else _published(session, sender)
        bodies = (_refuse_misfit(published, sender, body, what) for what, body in _lines(source, sender))
        count = sender.client(session).send_many(sender.address, bodies, **sender.options())
    if not count:
        complain("there was no line to send")
        raise typer.Exit(1)
    say(f"Sent {count} {'message' if count == 1 else 'messages'} to {sender.address}.")


def _print_example(sender: _Sender, database: str | None, text: str | None, file: Path | None) -> None:
    with opened(text, file) as source:
        body = source.read()
    with open_database(database).session() as session:
        found = find_published(session, sender.names)
    told = find_example(found, sender.address, sender.type)
    if not told:
        complain(f"no endpoint of {sender.address} has published that it handles {sender.type}")
        raise typer.Exit(1)
    if body.strip():
        told = completed(found, sender.address, sender.type, _checked(body, JSON, "The body"))
    show_written_json(told.decode())


def _published(session: Session, sender: _Sender) -> Sequence[PublishedContract]:
    """Return what endpoints published, for a body that is JSON."""
    if not JSON_TYPES.match(sender.content_type):
        return ()
    return find_published(session, sender.names)


def _refuse_misfit(published: Sequence[PublishedContract], sender: _Sender, body: bytes, what: str) -> bytes:
    """Return the body; refuse one that the queue's endpoint would refuse."""
    if told := find_misfits(published, sender.address, sender.type, body):
        raise typer.BadParameter(f"{what} does not fit {sender.type}. {'. '.join(told)}. Else say --anyway.")
    return body


@contextmanager
def opened(body: str | None, file: Path | None) -> Generator[BinaryIO]:
    """Open what the body comes from; only one of the two may be given."""
    if body not in {None, "-"} and file is not None:
        raise typer.BadParameter("give the body itself or --file, not both.")
    if file is not None:
        with file.open("rb") as source:
            yield source
    elif body is not None and body != "-":
        yield BytesIO(body.encode())
    elif body is None and sys.stdin.isatty():
        raise typer.BadParameter("give a body, --file, or - to type one here.")
    else:
        yield sys.stdin.buffer


def _lines(source: BinaryIO, sender: _Sender) -> Iterator[tuple[str, bytes]]:
    for number, line in enumerate(source, 1):
        if body := line.strip():
            yield f"Line {number}", _checked(body, sender.content_type, f"Line {number}")


def _named(type_: str) -> str:
    if not type_.strip():
        raise typer.BadParameter("it is empty: name the message.", param_hint="--type")
    return type_


def _checked(body: bytes, content_type: str, what: str) -> bytes:
    """Return the body; refuse one that calls itself JSON and is none, which would only end in the error queue."""
    if JSON_TYPES.match(content_type) and (reason := reason_not_json(body)):
        raise typer.BadParameter(
            f"{what} is not JSON ({reason}); is it meant to be? Else say --content-type text/plain."
        )
    return body
