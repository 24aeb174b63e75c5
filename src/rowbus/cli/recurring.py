"""`rowbus recurring`: the schedules of an endpoint's recurring messages, and the removal of those no program has.

Invariant: nothing here sends a message, or changes when one is sent.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from rowbus.cli.options import (
    Database,
    Json,
    Schema,
    Verbose,
    addresses_in,
    endpoint_argument,
    noting,
    open_database,
)
from rowbus.cli.output import complain, say, show_json, show_table
from rowbus.transport.queues.diagnosis import duration
from rowbus.transport.recurring.table import recurring_address, recurring_table

if TYPE_CHECKING:
    from datetime import datetime

    from rowbus.messages.address import Addresses
    from rowbus.transport.recurring.table import RecurringTable, ScheduleRow

COLUMNS = ("name", "schedule", "next due", "in#", "last sent")

app = typer.Typer(
    help="List an endpoint's recurring messages, and remove those that no program has any more.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

EndpointName = Annotated[str, endpoint_argument("The endpoint whose recurring messages they are: Sales.")]


@app.command("list")
def list_(
    endpoint: EndpointName,
    *,
    schema: Schema = None,
    as_json: Json = False,
    database: Database = None,
    _verbose: Verbose = False,
) -> None:
    """List an endpoint's recurring messages: when each is sent next, and the last tick that was sent.

    `-` before the time that is left: no instance of the endpoint sends it. Exit code 1: there are none.
    """
    with open_database(database).session() as session:
        rows = session.run(_table(endpoint, addresses_in(database, schema)).list())
    if as_json:
        show_json([_as_json(row) for row in rows])
    elif rows:
        show_table(COLUMNS, [_cells(row) for row in rows])
    if not rows:
        complain(f"{endpoint} has no recurring message")
        raise typer.Exit(1)


@app.command()
def remove(
    endpoint: EndpointName,
    name: Annotated[str, typer.Argument(metavar="NAME", help="The recurring message, as `list` shows it.")],
    *,
    schema: Schema = None,
    database: Database = None,
    _verbose: Verbose = False,
) -> None:
    """Remove a recurring message: nothing sends it until an endpoint that has it starts again.

    For those that no program has any more. Exit code 1: there is none of this name.
    """
    with open_database(database).session() as session:
        table = _table(endpoint, names := addresses_in(database, schema))
        with noting(session, names, "remove a recurring message", table.address, name) as note:
            removed = session.run(table.remove(name))
            note(removed)
    if not removed:
        complain(f"{endpoint} has no recurring message {name}")
        raise typer.Exit(1)
    say(f"Removed {name}.")


def _table(endpoint: str, addresses: Addresses) -> RecurringTable:
    addresses.validate_endpoint_name(endpoint)
    address = recurring_address(endpoint, addresses)
    address.validate()
    return recurring_table(address)


def _as_json(row: ScheduleRow) -> dict[str, object]:
    return {
        "name": row.name,
        "schedule": row.schedule,
        "next_due": row.next_due,
        "last_sent": row.last_sent,
    }


def _cells(row: ScheduleRow) -> tuple[object, ...]:
    late = row.next_due <= row.at
    left = duration(row.at - row.next_due) if late else duration(row.next_due - row.at)
    sent = "" if row.last_sent is None else _moment(row.last_sent)
    return (row.name, row.schedule, _moment(row.next_due), f"-{left}" if late else left, sent)


def _moment(moment: datetime) -> str:
    return moment.isoformat(" ", "seconds")
