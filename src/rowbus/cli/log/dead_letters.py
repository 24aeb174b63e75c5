"""`rowbus log dead-letters`: the events that consumers have given up on.

Invariant: only `purge` takes dead letters away for good, and it asks first.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from rowbus.cli.log import listing as log_listing
from rowbus.cli.options import ConsumerName, Database, Json, LogName, Verbose, open_log_database
from rowbus.cli.output import complain, say, show_json, show_table
from rowbus.database.statements import run_steps_now
from rowbus.log.consumers.table import ConsumerTable
from rowbus.log.log import Log
from rowbus.log.range import NOTATION, Position

if TYPE_CHECKING:
    from rowbus.database.sessions import Session

app = typer.Typer(
    help="List, replay and purge the events that consumers have given up on.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


@app.command("list")
def list_(
    name: LogName,
    consumer: ConsumerName,
    *,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, help="Most to show.")] = 10,
    as_json: Json = False,
    database: Database = None,
    _verbose: Verbose = False,
) -> None:
    """List a consumer's dead letters with their reasons, the oldest first.

    Exit code 1: there is none.
    """
    with open_log_database(database).session() as session:
        found = _log(session, name, consumer).dead_letters(consumer, most=limit)
    if as_json:
        show_json([log_listing.dead_letter_json(dead) for dead in found])
    elif found:
        show_table(log_listing.DEAD_LETTERS, map(log_listing.dead_letter_row, found))
    if not found:
        _complain_of_none(name, consumer)


@app.command()
def replay(
    name: LogName,
    consumer: ConsumerName,
    ids: Annotated[
        list[int] | None, typer.Argument(metavar="DEAD-LETTER...", help="Only these.", show_default=False)
    ] = None,
    *,
    database: Database = None,
    _verbose: Verbose = False,
) -> None:
    """Deliver dead letters to their consumer again, all or those given, with their retries counted anew.

    Exit code 1: there is none.
    """
    with open_log_database(database).session() as session:
        count = _log(session, name, consumer).replay(consumer, ids or None)
    if not count:
        _complain_of_none(name, consumer)
    say(f"{count} dead {_letters(count)} of {consumer} will be delivered again.")


@app.command()
def purge(
    name: LogName,
    consumer: ConsumerName,
    *,
    before: Annotated[
        Position | None,
        typer.Option(
            "--before", metavar="TIME", parser=log_listing.position, help="Only those given up on before."
        ),
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    database: Database = None,
    _verbose: Verbose = False,
) -> None:
    """Delete dead letters of a consumer, all or the older ones.

    Asks first; without a terminal, --yes must be given. Exit code 1: there is none.
    """
    if before is not None and before.time is None:
        raise typer.BadParameter(f"a time is wanted, not one of the others of: {NOTATION}.")
    location = open_log_database(database)
    with location.session() as session:
        log = _log(session, name, consumer)
        if not yes:
            _confirm(f"Delete dead letters of {consumer} of log {name} in {location.name}?")
        count = log.purge(consumer, before=before.time if before else None)
    if not count:
        _complain_of_none(name, consumer)
    say(f"Deleted {count} dead {_letters(count)} of {consumer}.")


def _confirm(question: str) -> None:
    if not sys.stdin.isatty():
        raise typer.BadParameter("there is no terminal to ask on; add --yes.", param_hint="--yes")
    typer.confirm(question, abort=True, err=True)


def _log(session: Session, name: str, consumer: str) -> Log:
    run_steps_now(session, ConsumerTable(name, consumer).find())
    return Log(session.connection, name)


def _complain_of_none(name: str, consumer: str) -> None:
    complain(f"consumer {consumer} of log {name} has no such dead letter")
    raise typer.Exit(1)


def _letters(count: int) -> str:
    return "letter" if count == 1 else "letters"
