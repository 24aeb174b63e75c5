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


def _contract(given: str) -> Contract:
    """Return the contract of a document, if there is a file of this name, or of endpoints."""
    from rowbus.contracts import describe, from_asyncapi

    path = Path(given)
    if path.suffix == ".json" or path.is_file():
        return from_asyncapi(_document(path))
    return describe(*_members(given))


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
