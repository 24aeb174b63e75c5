"""`rowbus contracts`: what endpoints take, send and publish, as a document; and what a change of it breaks.

Invariant: no database is looked at but with --live or for `queue:NAME`, and then only read; a document is written
whole, or not at all.
"""

from __future__ import annotations

from contextlib import nullcontext, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rowbus.cli.options import (
    Database,
    Json,
    Queues,
    Verbose,
    addresses_in,
    load_endpoints,
    load_runnable,
    open_database,
    queue_addresses,
)
from rowbus.cli.output import complain, say, show_json, show_text
from rowbus.database.backends import inspecting
from rowbus.errors import QueueNotFoundError
from rowbus.messages.message import read_headers
from rowbus.transport.queues.table import queue_table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rowbus.cli.options import Runnable
    from rowbus.contracts import Break, Contract
    from rowbus.contracts.contract import PublishedContract
    from rowbus.database.sessions import Session
    from rowbus.messages.address import Addresses

MOST_SEEN = 1000  # messages of a queue from which a contract is inferred
_QUEUE = "queue:"
_FILES = frozenset({".json", ".yaml", ".yml", ".dll", ".exe"})

app = typer.Typer(
    help="Write down which messages endpoints take, send and publish, and what a change breaks.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

TARGET = typer.Argument(
    metavar="MODULE[:NAME]…",
    help="Endpoints and logs, or functions that return one; of a module: all its endpoints.",
)


Source = Annotated[
    str,
    typer.Argument(
        metavar="SOURCE",
        help="A file (an AsyncAPI document or a JSON Schema, in JSON or YAML; a .NET assembly), queue:NAME for the "
        "messages in a queue, or MODULE[:NAME] as for export.",
    ),
]
Name = Annotated[
    str,
    typer.Option(
        "--name", metavar="TYPE", help="The message's wire name, for a JSON Schema without a title."
    ),
]


@app.callback()
def contracts() -> None:
    """Write down which messages endpoints take, send and publish, and what a change breaks."""


Live = Annotated[bool, typer.Option("--live", help="What endpoints published of themselves in the database.")]


@app.command()
def export(
    targets: Annotated[list[str] | None, TARGET] = None,
    *,
    title: Annotated[
        str, typer.Option("--title", help="What the document is called. [default: the endpoints' names]")
    ] = "",
    kept: Annotated[
        Path | None,
        typer.Option("--check", metavar="FILE", help="Compare with this document, and print nothing."),
    ] = None,
    as_yaml: Annotated[bool, typer.Option("--yaml", help="Print YAML instead of JSON.")] = False,
    live: Live = False,
    database: Database = None,
    _verbose: Verbose = False,
) -> None:
    """Print the contract of endpoints as an AsyncAPI 3 document, in JSON or YAML.

    It is read from the code alone: handlers, sagas with their timeouts, routes, recurring messages, logs with their
    consumers; with --live, from the database alone. Exit code 1, with --check: the document in the file is out of date.
    """
    from rowbus.contracts import describe, merge, to_asyncapi
    from rowbus.contracts.files import document_of, to_yaml

    if live == bool(targets):
        raise typer.BadParameter("say of what: MODULE[:NAME], or --live.")
    if live:
        contract = merge(*(one.contract for one in _published(database)), title=title)
    else:
        contract = describe(*(one for target in targets or () for one in _members(target)), title=title)
    document = to_asyncapi(contract)
    if kept is None and as_yaml:
        show_text(to_yaml(document).rstrip("\n"))
        return
    if kept is None:
        show_json(document)
        return
    if not kept.is_file() or document_of(kept) != document:
        of = "--live" if live else " ".join(targets or ())
        complain(f"{kept} is out of date: write it with `rowbus contracts export {of}`.")
        raise typer.Exit(1)
    say(f"{kept} is up to date.")


@app.command()
def check(
    old: Annotated[str, typer.Argument(metavar="OLD", help="A document, as export wrote it, or endpoints.")],
    new: Annotated[
        str | None, typer.Argument(metavar="NEW", help="Another, or MODULE[:NAME] as for export.")
    ] = None,
    *,
    live: Live = False,
    queues: Queues = None,
    last: Annotated[
        int, typer.Option("--last", metavar="N", min=0, help="So many messages of each queue, with --live.")
    ] = 100,
    as_json: Json = False,
    database: Database = None,
    _verbose: Verbose = False,
) -> None:
    """Say what breaks when programs of OLD and of NEW run side by side, one line for each finding.

    In both directions: old messages that new handlers refuse, and new messages that old handlers refuse. With --live
    and one of them: beside what endpoints published in the database, and with the last messages of its endpoints'
    queues, or those of --queue. Exit code 1: something breaks.
    """
    from rowbus.contracts import compare

    if live == (new is not None):
        raise typer.BadParameter("give OLD and NEW, or one and --live.")
    found = (
        _live_breaks(old, queues, last, database) if new is None else compare(_contract(old), _contract(new))
    )
    if as_json:
        show_json([one._asdict() for one in found])
    else:
        show_text("\n".join(map(str, found)) or "Nothing breaks.")
    if found:
        raise typer.Exit(1)


@app.command()
def python(source: Source, *, name: Name = "", database: Database = None, _verbose: Verbose = False) -> None:
    """Print Python classes for the messages of a document: a module of msgspec structs.

    They have the names on the wire, the kinds and the parents that the document tells. A JSON Schema tells none: it is
    one plain message. What messages in a queue tell is inferred, and its docstrings say so. Exit code 1: none tell any.
    """
    from rowbus.contracts import to_python

    show_text(to_python(_contract(source, name, database)).rstrip("\n"))


@app.command()
def csharp(source: Source, *, name: Name = "", database: Database = None, _verbose: Verbose = False) -> None:
    """Print C# records for the messages of a document: one file, with NServiceBus's ICommand, IEvent and IMessage.

    In the namespaces of their names on the wire, for System.Text.Json.
    """
    from rowbus.contracts import to_csharp

    show_text(to_csharp(_contract(source, name, database)).rstrip("\n"))


@app.command("map")
def map_(
    sources: Annotated[
        list[str],
        typer.Argument(
            metavar="SOURCE…", help="AsyncAPI documents in files, or MODULE[:NAME] as for export."
        ),
    ],
    *,
    title: Annotated[str, typer.Option("--title", help="What the picture is called.")] = "",
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the joint AsyncAPI document instead.")
    ] = False,
    _verbose: Verbose = False,
) -> None:
    """Print a picture of several documents, as SVG: who sends what to whom.

    A line for each endpoint, an arrow for each message; `elsewhere` stands for who is in none of the documents.
    """
    from rowbus.contracts import merge, to_asyncapi, to_svg

    merged = merge(*(_contract(source) for source in sources), title=title)
    if as_json:
        show_json(to_asyncapi(merged))
    else:
        show_text(to_svg(merged).rstrip("\n"))


def _published(database: str | None) -> list[PublishedContract]:
    with inspecting(open_database(database)) as session:
        return _told(session, addresses_in(database, None))


def _told(session: Session, names: Addresses) -> list[PublishedContract]:
    """Return what endpoints published; tell of the tables that are not looked at."""
    from rowbus.cli.queue.listing import tell_left_out
    from rowbus.contracts.published import look_for_published

    found = look_for_published(session, names)
    for address, reason in found.left_out.items():
        tell_left_out(address, reason)
    return found.contracts


def _live_breaks(given: str, queues: Sequence[str] | None, last: int, database: str | None) -> list[Break]:
    """Compare a contract with what endpoints published, and with messages; tell who has published nothing."""
    from rowbus.contracts.live import compare_with_messages, compare_with_published

    new, names = _contract(given), addresses_in(database, None)
    with inspecting(open_database(database)) as session:
        published = _told(session, names)
        found = compare_with_published(new, published)
        for queue in queue_addresses(queues or [party.queue for party in new.parties], names):
            with nullcontext() if queues else suppress(QueueNotFoundError):
                found += compare_with_messages(session, new, queue, last)
    known = {one.endpoint for one in published}
    for party in new.parties:
        if party.name not in known:
            complain(f"{party.name} has published no contract in this database")
    return found


def _contract(given: str, name: str = "", database: str | None = None) -> Contract:
    """Return the contract of a file, if there is one of this name, of a queue's messages, or of endpoints."""
    from rowbus.contracts import describe, from_file

    queue = given.removeprefix(_QUEUE)
    if queue != given:
        return _seen(queue, database)
    path = Path(given)
    if path.suffix.lower() in _FILES or path.is_file():
        return from_file(path, name)
    return describe(*_members(given))


def _seen(name: str, database: str | None) -> Contract:
    """Return the contract that the oldest messages of a queue let infer, those left out that were too long to read."""
    from rowbus.contracts import SeenMessage, infer

    address = queue_addresses([name], addresses_in(database, None))[0]
    with inspecting(open_database(database)) as session:
        messages = session.run(queue_table(address).peek(MOST_SEEN))
    read = [(read_headers(one.headers), one.body) for one in messages if one.cut_from is None]
    found = infer(
        (SeenMessage(headers, body) for headers, body in read if headers is not None), f"{address}, as seen"
    )
    if not found.messages:
        complain(f"{address} has no message with a type and a body of JSON to infer classes from.")
        raise typer.Exit(1)
    return found


def _members(target: str) -> list[Runnable]:
    return [load_runnable(target)] if ":" in target else list(load_endpoints(target))
