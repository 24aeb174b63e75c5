"""`rowbus log install|upgrade|adopt|uninstall`, and what `rowbus schema … --log` does.

Invariant: `show_sql` and `show_grants` touch no database; `verify` changes nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from rowbus.cli.options import Database, Verbose
from rowbus.cli.output import complain, say, show_json, show_table
from rowbus.cli.target import open_log_database
from rowbus.database.statements import script
from rowbus.services import log_installer
from rowbus.tables import log_schema

if TYPE_CHECKING:
    from rowbus.database.sessions import Session

app = typer.Typer(help="Install and look after the event log's schema.", rich_markup_mode=None)


@app.command("install")
def install(*, database: Database = None, _verbose: Verbose = False) -> None:
    """Install the event log (schema pgq), or bring an older one of Rowbus's up to date; safe to repeat."""
    with open_log_database(database).session() as session:
        changed = log_installer.install_now(session)
    version = log_schema.VERSION
    say(f"installed the event log, version {version}" if changed else f"the event log has version {version}")


@app.command("upgrade")
def upgrade(*, database: Database = None, _verbose: Verbose = False) -> None:
    """Bring the event log up to date; exit code 1 when none is installed."""
    with open_log_database(database).session() as session:
        if not session.run(log_schema.state()).is_ours:
            complain("there is no event log of Rowbus's in this database; `rowbus log install` makes one")
            raise typer.Exit(1)
    install(database=database)


@app.command("adopt")
def adopt(*, database: Database = None, _verbose: Verbose = False) -> None:
    """Take over a schema that PgQ's extension or SQL file made: queues, events, positions and triggers stay.

    Needs the owner of the extension, or a superuser. Queues remain in use meanwhile.
    """
    with open_log_database(database).session() as session:
        origin = log_installer.adopt_now(session)
    say(f"took over the event log from {origin}")


@app.command("uninstall")
def uninstall(
    *,
    force: Annotated[
        bool, typer.Option("--force", help="Also with queues in it, and triggers on other tables.")
    ] = False,
    database: Database = None,
    _verbose: Verbose = False,
) -> None:
    """Remove the event log with everything in it; exit code 1 when there is none. The roles stay."""
    with open_log_database(database).session() as session:
        removed = log_installer.uninstall_now(session, force=force)
    if not removed:
        complain("there is no event log in this database")
        raise typer.Exit(1)
    say("removed the event log")


def show_sql() -> None:
    """Print what an installation runs, as one script for psql."""
    parts = [
        "begin;",
        script(log_schema.lock()),
        log_schema.text(),
        script(log_schema.record_version()),
        "commit;",
    ]
    typer.echo("\n\n".join(parts))


def show_grants(role: str, *, send: bool, receive: bool, operate: bool) -> None:
    """Print the separation of readers, writers and administrators, and what makes a role one of them."""
    statements = [log_schema.set_grants("new")]
    if send:
        statements.append(log_schema.grant_role("pgq_writer", role))
    if receive:
        statements.append(log_schema.grant_role("pgq_reader", role))
    if operate:
        statements.append(log_schema.grant_role("pgq_admin", role))
    typer.echo("\n".join(script(statement) for statement in statements))


def verify(database: str | None, *, as_json: bool) -> None:
    """Compare the event log with what this Rowbus would install; exit code 1: it differs, or there is none."""
    with open_log_database(database).session() as session:
        found = _differences(session)
    if as_json:
        show_json([{"log": "pgq", "verified": not found, "differences": found}])
    else:
        show_table(("log", "shape", "difference"), [("pgq", "differs" if found else "ok", "; ".join(found))])
    if found:
        raise typer.Exit(1)


def _differences(session: Session) -> list[str]:
    state = session.run(log_schema.state())
    if not state.has_queues:
        return ["it is not installed"]
    if not state.is_ours:
        return ["PgQ made it; `rowbus log adopt` takes it over"]
    installed = session.run(log_schema.version())
    wrong = (
        [] if installed == log_schema.VERSION else [f"it has version {installed}, not {log_schema.VERSION}"]
    )
    return [*wrong, *session.run(log_schema.missing())]
