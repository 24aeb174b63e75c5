"""`rowbus log capture|release|captures|ddl`: the triggers that write changes of tables to logs, and their shapes.

Invariant: a trigger is made and dropped by the functions of schema `pgq`, which generate its code; nothing else is
changed about a table.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from rowbus.cli.log import listing as log_listing
from rowbus.cli.options import AnyLog, Database, IntoLog, Json, LogName, Verbose, open_log_database
from rowbus.cli.output import complain, say, show_json, show_table
from rowbus.log import catalog as log_catalog
from rowbus.log.consumers.table import log_not_found
from rowbus.log.diagnosis import OLD_GRANTS, OLD_GRANTS_ADVICE
from rowbus.log.schema import table as log_schema

TableName = Annotated[
    str, typer.Argument(metavar="TABLE", help='A table: orders, shop.orders, or "Orders" with its quotes.')
]


class Format(StrEnum):
    """The form in which a changed row is written."""

    JSON = "json"
    URL = "url"
    SQL = "sql"


def capture(
    table: TableName,
    *,
    log: IntoLog,
    form: Annotated[
        Format,
        typer.Option("--format", help="json: an object; url: url-encoded pairs; sql: the statement's tail."),
    ] = Format.JSON,
    arguments: Annotated[
        list[str] | None,
        typer.Option(
            "--arg",
            metavar="ARGUMENT",
            help="An argument of the trigger, such as backup, ignore=note or when=…; may be given more than once.",
        ),
    ] = None,
    masks: Annotated[
        list[str] | None,
        typer.Option(
            "--mask",
            metavar="COLUMN=RULE",
            help="Write a column as its hash, null, or truncate:n (its first n letters); may be given more than once.",
        ),
    ] = None,
    as_root: Annotated[
        bool,
        typer.Option("--as-root", help="Events of a partitioned table name it, and not its partitions."),
    ] = False,
    trigger: Annotated[
        str | None, typer.Option("--trigger", metavar="NAME", help="The trigger's name.")
    ] = None,
    database: Database = None,
    _verbose: Verbose = False,
) -> None:
    """Write each change of a table's rows to a log, in the transaction that makes it.

    Waits for transactions that write to the table. Rows that are there already are not written.
    """
    given = [*(arguments or ()), *map(_mask, masks or ()), *(["as-root"] if as_root else [])]
    with open_log_database(database).session() as session:
        made = session.run(log_catalog.capture(table, log, form=form.value, arguments=given, trigger=trigger))
        is_open = session.run(log_schema.grant_style()) == "old"
    say(f"Changes of {table} are written to log {log} as {form.value}, by the trigger {made}.")
    if is_open:
        complain(f"who may not read {table} may read its changes, for {OLD_GRANTS}; {OLD_GRANTS_ADVICE}")


def _mask(given: str) -> str:
    """Return the trigger's argument for COLUMN=RULE."""
    column, _, rule = given.rpartition("=")
    return f"mask={column}:{rule}"


def release(table: TableName, *, log: IntoLog, database: Database = None, _verbose: Verbose = False) -> None:
    """Stop writing a table's changes to a log; what is in the log stays.

    Exit code 1: they were not written there.
    """
    with open_log_database(database).session() as session:
        dropped = session.run(log_catalog.release(table, log))
    if not dropped:
        complain(f"changes of {table} are not written to log {log}")
        raise typer.Exit(1)
    say(
        f"Changes of {table} are no longer written to log {log}; dropped {dropped} trigger{'s'[: dropped > 1]}."
    )


def captures(
    name: AnyLog = None, *, as_json: Json = False, database: Database = None, _verbose: Verbose = False
) -> None:
    """List the tables whose changes are written to logs.

    Exit code 1: there is none.
    """
    with open_log_database(database).session() as session:
        found = session.run(log_catalog.captures(name))
    if as_json:
        show_json([capture._asdict() for capture in found])
    elif found:
        show_table(log_listing.CAPTURES, map(log_listing.capture_row, found))
    if not found:
        complain("no table is captured" + (f" into log {name}" if name else ""))
        raise typer.Exit(1)


def ddl(
    name: LogName, *, as_json: Json = False, database: Database = None, _verbose: Verbose = False
) -> None:
    """List how the columns, keys and names of captured tables changed, as the log's events tell it.

    Also what the log no longer holds. Exit code 1: nothing changed.
    """
    with open_log_database(database).session() as session:
        found = session.run(log_catalog.shape_changes(name))
        if not found and not session.run(log_catalog.config(name)):
            raise log_not_found(name)
    if as_json:
        show_json([change._asdict() for change in found])
    elif found:
        show_table(log_listing.SHAPE_CHANGES, map(log_listing.shape_change_row, found))
    if not found:
        complain(f"no table captured into log {name} has changed its shape")
        raise typer.Exit(1)
