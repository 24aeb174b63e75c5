"""`rowbus sagas`: the processes that go on, what they remember, timeouts that were lost, an end for one that hangs.

Invariant: a saga is ended only under its lock, so that no message of it is being handled meanwhile.
"""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Annotated

import typer

from rowbus.cli.options import Database, Json, Schema, Verbose, addresses_in, endpoint_argument, open_database
from rowbus.cli.output import complain, say, show_json, show_table, show_text
from rowbus.errors import ConfigurationError
from rowbus.sagas.history.table import history_address, history_table
from rowbus.sagas.resending import Places, end, resend
from rowbus.sagas.table import KeptSaga, saga_address, saga_table
from rowbus.settings import NativeDelayedDelivery
from rowbus.transport.delayed.table import delayed_address, delayed_table

if TYPE_CHECKING:
    from datetime import datetime

    from rowbus.sagas.history.table import HistoryTable, Line, Transition
    from rowbus.sagas.table import SagaTable
    from rowbus.transport.delayed.table import DelayedTable

COLUMNS = ("found by", "changes#", "version#", "began", "changed", "id")

app = typer.Typer(
    help="List sagas, show what one remembers, end one, send lost timeouts again.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

EndpointName = Annotated[str, endpoint_argument("The endpoint of the saga: Sales.")]
SagaName = Annotated[str, typer.Argument(metavar="SAGA", help="The last part of its type: OrderSaga.")]
Key = Annotated[str, typer.Argument(metavar="KEY", help="The text it is found by, or its id.")]


@app.command("list")
def list_(
    endpoint: EndpointName,
    saga: SagaName,
    *,
    limit: Annotated[int, typer.Option("--limit", min=1, metavar="N", help="How many sagas.")] = 20,
    schema: Schema = None,
    as_json: Json = False,
    database: Database = None,
    _verbose: Verbose = False,
) -> None:
    """List the sagas that go on, those first in which nothing has happened for longest. Exit code 1: none goes on."""
    table = _table(endpoint, saga, database, schema)
    with open_database(database).session() as session:
        sagas = session.run(table.peek(limit))
    if as_json:
        show_json([_as_json(kept) for kept in sagas])
    elif sagas:
        show_table(COLUMNS, [_cells(kept) for kept in sagas])
    if not sagas:
        complain(f"no saga of {table.address} goes on")
        raise typer.Exit(1)


@app.command()
def show(
    endpoint: EndpointName,
    saga: SagaName,
    key: Key,
    *,
    history: Annotated[
        bool, typer.Option("--history", help="Show what it did, also after it has completed.")
    ] = False,
    schema: Schema = None,
    as_json: Json = False,
    database: Database = None,
    _verbose: Verbose = False,
) -> None:
    """Show one saga with its state, or what it did, if its class keeps that. Exit code 1: there is nothing to show."""
    if history:
        _show_history(
            history_table(history_address(endpoint, saga, addresses_in(database, schema))),
            key,
            database,
            as_json=as_json,
        )
        return
    kept = _look(_table(endpoint, saga, database, schema), key, database)
    if as_json:
        show_json(_as_json(kept))
        return
    row = kept.row
    show_text(
        f"id        {row.id}\n"
        f"found by  {row.correlation}\n"
        f"began     {_moment(kept.began)}, by message {row.original_message_id} from {row.originator or 'nowhere'}\n"
        f"changed   {_moment(kept.changed)}, {row.concurrency} times\n"
        f"state     of version {row.version}:\n{json.dumps(json.loads(row.state), indent=2, ensure_ascii=False)}"
    )


def _show_history(table: HistoryTable, key: str, database: str | None, *, as_json: bool) -> None:
    with open_database(database).session() as session:
        lines = session.run(table.read(key))
    if as_json:
        show_json([_line_as_json(line) for line in lines])
    elif lines:
        show_text("\n".join(map(_line_as_text, lines)))
    else:
        say(f"There is no history of {key!r} in {table.address}.")
    if not lines:
        raise typer.Exit(1)


def _line_as_json(line: Line) -> dict[str, object]:
    transition = line.transition
    before, after = _states(transition)
    return {**transition._asdict(), "before": before, "after": after, "at": line.at}


def _line_as_text(line: Line) -> str:
    """Show a transition: its message, and each part of the state that it changed."""
    transition = line.transition
    before, after = _states(transition)
    old, new = before or {}, {} if transition.is_completed and not after else after
    changes = [
        f"\n   {name}: {json.dumps(old.get(name), ensure_ascii=False)} → {json.dumps(new[name], ensure_ascii=False)}"
        for name in new
        if old.get(name) != new[name]
    ]
    end = "\n   completed" if transition.is_completed else ""
    return (
        f"{transition.number}  {_moment(line.at)}  {transition.message_type}  {transition.message_id}"
        f"{''.join(changes)}{end}"
    )


def _states(transition: Transition) -> tuple[dict[str, object] | None, dict[str, object]]:
    before = None if transition.before is None else json.loads(transition.before)
    return before, json.loads(transition.after)


@app.command()
def complete(
    endpoint: EndpointName,
    saga: SagaName,
    key: Key,
    *,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    schema: Schema = None,
    database: Database = None,
    _verbose: Verbose = False,
) -> None:
    """End a saga: its row and the timeouts that it waits for are deleted.

    Asks first; without a terminal, --yes must be given. Waits for a message of it that is being handled. Exit code 1:
    there is none.
    """
    table = _table(endpoint, saga, database, schema)
    kept = _look(table, key, database)
    if not yes:
        _confirm(kept, str(table.address))
    delayed = _delayed(endpoint, database, schema)
    with open_database(database).session() as session, session.transaction():
        ended = end(session, table, delayed, kept.row.id)
    say(f"Ended saga {kept.row.id}." if ended else f"Saga {kept.row.id} has just completed by itself.")


@app.command("resend-timeouts")
def resend_timeouts(
    endpoint: EndpointName,
    saga: SagaName,
    *,
    limit: Annotated[
        int, typer.Option("--limit", min=1, metavar="N", help="How many sagas to look at.")
    ] = 100_000,
    error_queue: Annotated[str, typer.Option(metavar="QUEUE", help="Where failed ones would be.")] = "error",
    schema: Schema = None,
    database: Database = None,
    _verbose: Verbose = False,
) -> None:
    """Send timeouts again that sagas wait for and that are lost.

    Lost are those that are neither delayed, nor in the endpoint's queue, nor in the error queue. They come at their
    time, or at once if that has passed. Begins with the sagas in which nothing has happened for longest. Exit code 1:
    none was lost.
    """
    table, addresses = _table(endpoint, saga, database, schema), addresses_in(database, schema)
    delayed = delayed_address(endpoint, NativeDelayedDelivery(), addresses)
    places = Places(delayed, addresses.for_endpoint(endpoint), addresses.from_user(error_queue))
    with open_database(database).session() as session:
        sagas = session.run(table.peek(limit))
        sent = sum(resend(session, table, kept.row, places) for kept in sagas)
    say(f"Sent {sent} timeouts again for the {len(sagas)} sagas looked at.")
    if not sent:
        raise typer.Exit(1)


def _delayed(endpoint: str, database: str | None, schema: str | None) -> DelayedTable:
    addresses = addresses_in(database, schema)
    return delayed_table(delayed_address(endpoint, NativeDelayedDelivery(), addresses))


def _confirm(kept: KeptSaga, where: str) -> None:
    if not sys.stdin.isatty():
        raise typer.BadParameter("there is no terminal to ask on; add --yes.", param_hint="--yes")
    typer.confirm(f"End saga {kept.row.id} of {where}?", abort=True, err=True)


def _look(table: SagaTable, key: str, database: str | None) -> KeptSaga:
    """Return the saga of a key; raises ConfigurationError for none, and for a key of two."""
    with open_database(database).session() as session:
        sagas = session.run(table.look(key))
    if len(sagas) > 1:
        raise ConfigurationError(f"{key!r} is the id of one saga of {table.address} and finds another.")
    if not sagas:
        complain(f"there is no saga {key!r} in {table.address}")
        raise typer.Exit(1)
    return sagas[0]


def _table(endpoint: str, saga: str, database: str | None, schema: str | None) -> SagaTable:
    return saga_table(saga_address(endpoint, saga, addresses_in(database, schema)))


def _as_json(kept: KeptSaga) -> dict[str, object]:
    row = kept.row
    return {
        "id": row.id,
        "correlation": row.correlation,
        "version": row.version,
        "changes": row.concurrency,
        "originator": row.originator,
        "original_message_id": row.original_message_id,
        "began": kept.began,
        "changed": kept.changed,
        "state": json.loads(row.state),
    }


def _cells(kept: KeptSaga) -> tuple[object, ...]:
    row = kept.row
    return (row.correlation, row.concurrency, row.version, _moment(kept.began), _moment(kept.changed), row.id)


def _moment(moment: datetime) -> str:
    return moment.isoformat(" ", "seconds")
