"""`rowbus pause` and `rowbus resume`: hold back what works on messages or events, in all processes, and let it go on.

Invariant: a pause says who made it and why; what is in hand is finished; whoever starts meanwhile is paused, too.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Annotated

import typer

from rowbus.cli.options import (
    Database,
    Json,
    Schema,
    Verbose,
    addresses_in,
    noting,
    open_database,
    queue_names,
)
from rowbus.cli.output import complain, say, show_json, show_table
from rowbus.cli.queue.send import time_span
from rowbus.errors import ConfigurationError
from rowbus.transport.pauses.table import (
    PauseKind,
    pause_now,
    paused,
    pauses_address,
    pauses_table,
    subject_of,
)
from rowbus.transport.queues.catalog.looking import is_there

if TYPE_CHECKING:
    from rowbus.messages.address import Addresses
    from rowbus.transport.pauses.table import PausesTable

COLUMNS = ("what", "name", "since", "until", "who", "why")


What = Annotated[PauseKind | None, typer.Argument(help="What is paused.")]
Name = Annotated[
    str | None,
    typer.Argument(
        metavar="NAME",
        help="Sales; a queue; LOG/CONSUMER; ENDPOINT/RECURRING; ENDPOINT/TYPE.",
        autocompletion=queue_names,
    ),
]


def pause(
    kind: What = None,
    name: Name = None,
    *,
    why: Annotated[str, typer.Option("--why", metavar="TEXT", help="What others are told.")] = "",
    lasts: Annotated[
        timedelta | None,
        typer.Option("--for", metavar="SPAN", parser=time_span, help="It ends by itself after: 30m."),
    ] = None,
    as_json: Json = False,
    schema: Schema = None,
    database: Database = None,
    _verbose: Verbose = False,
) -> None:
    """Pause an endpoint, a queue, a log's consumer, a recurring message or a message type, everywhere in two seconds.

    What is in hand is finished; nothing more is begun until `rowbus resume`, or --for is over, also after restarts.
    Without arguments: list what is paused; exit code 1: nothing is.
    """
    names = addresses_in(database, schema)
    if kind is None:
        _list(names, database, as_json=as_json)
        return
    what = subject_of(kind, name or "", names)
    if not why:
        raise typer.BadParameter("say why: others will ask.", param_hint="--why")
    until = None if lasts is None else datetime.now(UTC) + lasts
    table = _table(names)
    with (
        open_database(database).session() as session,
        noting(session, names, "pause", table.address, f"{kind.value} {what.name}: {why}") as note,
    ):
        pause_now(session, table.address, what, person=note.person, why=why, until=until)
    say(
        f"Paused {kind.value} {what.name}"
        + ("." if until is None else f" until {until:%Y-%m-%d %H:%M:%S} UTC.")
    )


def resume(
    kind: Annotated[PauseKind, typer.Argument(help="What is paused.")],
    name: Annotated[str, typer.Argument(metavar="NAME", help="As `rowbus pause` lists it.")],
    *,
    schema: Schema = None,
    database: Database = None,
    _verbose: Verbose = False,
) -> None:
    """End a pause, in all processes within two seconds. Exit code 1: it is not paused."""
    names = addresses_in(database, schema)
    what, table = subject_of(kind, name, names), _table(names)
    subject = f"{kind.value} {what.name}"
    with (
        open_database(database).session() as session,
        noting(session, names, "resume", table.address, subject),
    ):
        ended = session.run(table.resume(what)) if is_there(session, table) else 0
    if not ended:
        complain(f"{kind.value} {what.name} is not paused")
        raise typer.Exit(1)
    say(f"Resumed {kind.value} {what.name}.")


def _list(names: Addresses, database: str | None, *, as_json: bool) -> None:
    with open_database(database).session() as session:
        found = paused(session, names)
    if as_json:
        show_json([one._asdict() for one in found])
    elif found:
        rows = [(one.kind, one.name, one.began, one.until or "", one.person, one.why) for one in found]
        show_table(COLUMNS, rows)
    if not found:
        complain("nothing is paused")
        raise typer.Exit(1)


def _table(names: Addresses) -> PausesTable:
    if names.backend != "postgresql":
        raise ConfigurationError("Pausing works on PostgreSQL only.")
    return pauses_table(pauses_address(names))
