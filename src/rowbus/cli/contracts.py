"""`rowbus contracts`: what endpoints take, send and publish, as a document; and what a change of it breaks.

Invariant: no database is looked at; a document is written whole, or not at all.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rowbus.cli.options import Verbose
from rowbus.cli.output import complain, say, show_json
from rowbus.cli.target import load_endpoints, load_runnable
from rowbus.errors import ConfigurationError

if TYPE_CHECKING:
    from rowbus.cli.target import Runnable

app = typer.Typer(
    help="Write down which messages endpoints take, send and publish.",
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
    """Write down which messages endpoints take, send and publish."""


@app.command()
def export(
    targets: Targets,
    *,
    title: Annotated[
        str, typer.Option("--title", help="What the document is called. [default: the endpoints' names]")
    ] = "",
    check: Annotated[
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
    if check is None:
        show_json(document)
        return
    if not check.exists() or _document(check) != document:
        complain(f"{check} is out of date: write it with `rowbus contracts export {' '.join(targets)}`.")
        raise typer.Exit(1)
    say(f"{check} is up to date.")


def _document(path: Path) -> object:
    """Return what a file holds; raises ConfigurationError for what is no JSON."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        raise ConfigurationError(f"{path} is no JSON document.") from None


def _members(target: str) -> list[Runnable]:
    return [load_runnable(target)] if ":" in target else list(load_endpoints(target))
