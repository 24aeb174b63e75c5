"""`rowbus contracts`: what endpoints take, send and publish, as a document; and what a change of it breaks.

Invariant: no database is looked at; a document is written whole, or not at all.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rowbus.cli.options import Json, Verbose
from rowbus.cli.output import complain, say, show_json, show_text
from rowbus.cli.target import load_endpoints, load_runnable
from rowbus.errors import ConfigurationError

if TYPE_CHECKING:
    from rowbus.cli.target import Runnable
    from rowbus.contracts import Contract

app = typer.Typer(
    help="Write down which messages endpoints take, send and publish, and what a change breaks.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

Targets = Annotated[
    list[str],
    typer.Argument(
        metavar="MODULE[:NAME]…",
        help="Endpoints and logs, or functions that return one; of a module: all its endpoints.",
    ),
]


Source = Annotated[
    str,
    typer.Argument(
        metavar="SOURCE",
        help="An AsyncAPI document or a JSON Schema, in a file, or MODULE[:NAME] as for export.",
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


@app.command()
def export(
    targets: Targets,
    *,
    title: Annotated[
        str, typer.Option("--title", help="What the document is called. [default: the endpoints' names]")
    ] = "",
    kept: Annotated[
        Path | None,
        typer.Option("--check", metavar="FILE", help="Compare with this document, and print nothing."),
    ] = None,
    _verbose: Verbose = False,
) -> None:
    """Print the contract of endpoints as an AsyncAPI 3 document, in JSON.

    It is read from the code alone: handlers, sagas with their timeouts, routes, recurring messages, logs with their
    consumers. Exit code 1, with --check: the document in the file is out of date.
    """
    from rowbus.contracts import describe, to_asyncapi

    document = to_asyncapi(describe(*(one for target in targets for one in _members(target)), title=title))
    if kept is None:
        show_json(document)
        return
    if not kept.is_file() or _document(kept) != document:
        complain(f"{kept} is out of date: write it with `rowbus contracts export {' '.join(targets)}`.")
        raise typer.Exit(1)
    say(f"{kept} is up to date.")


@app.command()
def check(
    old: Annotated[str, typer.Argument(metavar="OLD", help="A document, as export wrote it, or endpoints.")],
    new: Annotated[str, typer.Argument(metavar="NEW", help="Another, or MODULE[:NAME] as for export.")],
    *,
    as_json: Json = False,
    _verbose: Verbose = False,
) -> None:
    """Say what breaks when programs of OLD and of NEW run side by side, one line for each finding.

    In both directions: old messages that new handlers refuse, and new messages that old handlers refuse. Exit code 1:
    something breaks.
    """
    from rowbus.contracts import compare

    found = compare(_contract(old), _contract(new))
    if as_json:
        show_json([one._asdict() for one in found])
    else:
        show_text("\n".join(map(str, found)) or "Nothing breaks.")
    if found:
        raise typer.Exit(1)


@app.command()
def python(source: Source, *, name: Name = "", _verbose: Verbose = False) -> None:
    """Print Python classes for the messages of a document: a module of msgspec structs.

    They have the names on the wire, the kinds and the parents that the document tells. A JSON Schema tells none: it is
    one plain message.
    """
    from rowbus.contracts import to_python

    show_text(to_python(_contract(source, name)).rstrip("\n"))


@app.command()
def csharp(source: Source, *, name: Name = "", _verbose: Verbose = False) -> None:
    """Print C# records for the messages of a document: one file, with NServiceBus's ICommand, IEvent and IMessage.

    In the namespaces of their names on the wire, for System.Text.Json.
    """
    from rowbus.contracts import to_csharp

    show_text(to_csharp(_contract(source, name)).rstrip("\n"))


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


def _contract(given: str, name: str = "") -> Contract:
    """Return the contract of a document, if there is a file of this name, or of endpoints."""
    from rowbus.contracts import describe, from_asyncapi, from_json_schema
    from rowbus.messages.bodies.shape import is_object

    path = Path(given)
    if path.suffix != ".json" and not path.is_file():
        return describe(*_members(given))
    document = _document(path)
    if is_object(document) and "asyncapi" in document:
        return from_asyncapi(document)
    return from_json_schema(document, name)


def _document(path: Path) -> object:
    """Return what a file holds; raises ConfigurationError for what is no JSON."""
    if not path.is_file():
        raise ConfigurationError(f"There is no file {path}.")
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        raise ConfigurationError(f"{path} is no JSON document.") from None


def _members(target: str) -> list[Runnable]:
    return [load_runnable(target)] if ":" in target else list(load_endpoints(target))
