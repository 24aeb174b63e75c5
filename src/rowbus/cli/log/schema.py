"""`rowbus log install|upgrade|adopt|uninstall`, and what `rowbus schema … --log` does.

Invariant: `show_sql` and `show_grants` touch no database; `verify` changes nothing.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from rowbus.cli.options import Database, Json, Verbose, open_log_database
from rowbus.cli.output import complain, say, show_json, show_table
from rowbus.database.backends import inspecting
from rowbus.database.statements import script
from rowbus.errors import PermissionDeniedError
from rowbus.log.diagnosis import OLD_GRANTS, OLD_GRANTS_ADVICE
from rowbus.log.schema import installer as log_installer
from rowbus.log.schema import table as log_schema
from rowbus.log.schema import verifier as log_verifier

app = typer.Typer(help="Install and look after the event log's schema.", rich_markup_mode=None)


class Style(StrEnum):
    """The users of the log."""

    NEW = "new"
    OLD = "old"


_MEANINGS = {
    Style.NEW: "granted by role: members of pgq_writer, pgq_reader and pgq_admin may use the log",
    Style.OLD: OLD_GRANTS,
}


@app.command("install")
def install(*, database: Database = None, _verbose: Verbose = False) -> None:
    """Install the event log (schema pgq), or bring an older one of Rowbus's up to date; safe to repeat."""
    with open_log_database(database).session() as session:
        try:
            report = log_installer.install_and_report(session)
        except PermissionDeniedError as error:
            raise _refused(error) from error
    version = log_schema.VERSION
    say(
        f"installed the event log, version {version}"
        if report.changed
        else f"the event log has version {version}"
    )
    tell_of_grants(report)


def _refused(error: PermissionDeniedError) -> PermissionDeniedError:
    """Return the error with who may install the log."""
    return PermissionDeniedError(
        f"{error}. A role that may create schemas in this database, and roles if they are missing, can install it: "
        "rowbus log install --database …",
        sqlstate=error.sqlstate,
        transient=error.transient,
    )


def tell_of_grants(report: log_installer.Installation) -> None:
    """Say what an operator should know of who may use the log."""
    _warn_if_open(report.grants)
    for note in report.notes:
        complain(f"roles are the whole server's, and their members may use this log too: {note}")


def _warn_if_open(style: str) -> None:
    if style == Style.OLD:
        complain(f"as before, {OLD_GRANTS}; {OLD_GRANTS_ADVICE}")


@app.command("upgrade")
def upgrade(*, database: Database = None, _verbose: Verbose = False) -> None:
    """Bring the event log up to date; exit code 1 when none is installed."""
    with open_log_database(database).session() as session:
        if not session.run(log_schema.state()).is_ours:
            complain("there is no event log of Rowbus's in this database; `rowbus log install` makes one")
            raise typer.Exit(1)
    install(database=database)


@app.command("adopt")
def adopt(
    *,
    release_dependents: Annotated[
        bool,
        typer.Option(
            "--release-dependents",
            help="Also where other extensions need PgQ's, as londiste: they cease to be extensions, and all that they "
            "made stays. Their upgrades are SQL files from then on.",
        ),
    ] = False,
    database: Database = None,
    _verbose: Verbose = False,
) -> None:
    """Take over a schema that PgQ's extension or SQL file made: queues, events, positions and triggers stay.

    Needs the owner of the extensions, or a superuser. Queues remain in use meanwhile.
    """
    with open_log_database(database).session() as session:
        origin = log_installer.adopt_now(session, release_dependents=release_dependents)
        style = session.run(log_schema.grant_style())
    say(f"took over the event log from {origin}")
    _warn_if_open(style)


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


@app.command("grants")
def grants(
    *,
    style: Annotated[
        Style | None,
        typer.Option("--style", help="new: by role; old: every role that can connect may do everything."),
    ] = None,
    as_json: Json = False,
    database: Database = None,
    _verbose: Verbose = False,
) -> None:
    """Say who may use the log, by role or every role; --style changes it, and needs the owner of the schema.

    Before the style becomes new, grant roles what they need: see `rowbus schema grants --log`. Exit code 1: there is no
    event log.
    """
    with open_log_database(database).session() as session:
        if not session.run(log_schema.state()).is_ours:
            complain("there is no event log of Rowbus's in this database; `rowbus log install` makes one")
            raise typer.Exit(1)
        before = Style(session.run(log_schema.grant_style()))
        if style is not None:
            session.run(log_schema.set_grants(style))
    now = style or before
    if as_json:
        show_json({"style": now.value, "before": before.value})
    else:
        was = "" if style is None else f" (before: {before.value})"
        say(f"{now.value}{was}: {_MEANINGS[now]}")


def show_sql() -> None:
    """Print what an installation runs, as one script for psql."""
    parts = [
        "begin;",
        script(log_schema.lock()),
        script(log_schema.guard()),
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
    with inspecting(open_log_database(database)) as session:
        differences, warnings = log_verifier.verify(session)
    if as_json:
        facts = {"verified": not differences, "differences": differences, "warnings": warnings}
        show_json([{"log": "pgq", **facts}])
    else:
        rows = [("pgq", "differs", difference) for difference in differences]
        rows += [("pgq", "warn", warning) for warning in warnings]
        show_table(("log", "shape", "difference"), rows or [("pgq", "ok", "")])
    if differences:
        raise typer.Exit(1)
