"""`rowbus endpoint`: what is done to an endpoint as a whole.

Invariants: what is scaled says who did it and why; `drop` shows every table before it drops any, and drops all of them
or none; the tables of another endpoint, whose name begins with this one's and a dot, are not among them.
"""

from __future__ import annotations

import asyncio
import sys
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Annotated

import typer

from rowbus.cli.options import (
    Database,
    Schema,
    Verbose,
    addresses_in,
    endpoint_argument,
    load_endpoint,
    noting,
    open_database,
)
from rowbus.cli.output import complain, say, show_table
from rowbus.cli.queue.send import time_span
from rowbus.cli.subscriptions import DEFAULT_TABLE, Table
from rowbus.errors import ConfigurationError
from rowbus.log.examination import count_receivers
from rowbus.transport.lanes.installer import described
from rowbus.transport.lanes.rule import MARK
from rowbus.transport.pauses.table import (
    MOST,
    PauseSubject,
    ScaleKind,
    pauses_address,
    pauses_table,
    scale_now,
    scale_subject,
    scaled,
)
from rowbus.transport.pubsub.table import subscription_routing
from rowbus.transport.queues.catalog.looking import find_queues, sort_out
from rowbus.transport.queues.catalog.table import catalog_of
from rowbus.transport.queues.table import queue_table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rowbus.database.sessions import Session
    from rowbus.messages.address import Addresses, QueueAddress
    from rowbus.transport.pauses.table import Pause
    from rowbus.transport.queues.catalog.table import Catalog

app = typer.Typer(
    help="Scale an endpoint, change its lanes, and drop its tables.",
    no_args_is_help=True,
    rich_markup_mode=None,
)
LOCK_WAIT = 5_000  # milliseconds that a drop waits for transactions, and others behind it

Program = Annotated[
    str, typer.Argument(metavar="MODULE:ENDPOINT", help="An endpoint, or a function that returns one.")
]
EndpointName = Annotated[str, endpoint_argument("An endpoint, by its name: Sales.")]


@app.callback()
def endpoint() -> None:
    """Scale an endpoint, change its lanes, and drop its tables."""


@app.command()
def drop(
    name: EndpointName,
    *,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    table: Table = DEFAULT_TABLE,
    schema: Schema = None,
    database: Database = None,
    _verbose: Verbose = False,
) -> None:
    """Drop an endpoint that is no more: its queue, all its other tables, and its subscriptions, for good.

    Lists every table first, and asks; without a terminal, --yes must be given. Refuses while a process receives from
    the queue. Queues of single instances, such as Sales-1, are dropped with `rowbus queue drop`. Exit code 1: there is
    no table of it.
    """
    names = addresses_in(database, schema)
    queue, catalog = names.for_endpoint(name), catalog_of(names)
    location = open_database(database)
    with location.session() as session:
        found = find_tables(session, catalog, queue)
        if not found:
            complain(f"there is no table of {name} in the schema {queue.schema}")
            raise typer.Exit(1)
        for address in found:
            say(str(address))
        confirm_drop(session, catalog, found, location.name, yes=yes)
        with noting(session, names, "drop an endpoint", queue, name) as note, session.transaction():
            drop_all(session, found)
            ended = _unsubscribe(session, names.for_endpoint(table), name, names)
            note(len(found))
    say(f"Dropped {len(found)} tables of {name}, and ended {ended} of its subscriptions.")


@app.command()
def lanes(target: Program, *, database: Database = None, _verbose: Verbose = False) -> None:
    """Give an endpoint's queue the lanes that the program asks for, more or fewer or none.

    In one transaction, which waits for those that use the queue, and keeps everybody from it. What waits moves to its
    new lane; the messages of each key keep their order. Refuses while a process receives from the queue.
    """
    endpoint = load_endpoint(target)
    endpoint.database = database or endpoint.database
    names, queue = endpoint.addresses, endpoint.address
    with open_database(endpoint.database).session() as session:
        if busy := sum(count_receivers(session, catalog_of(names), [queue]).values()):
            raise ConfigurationError(
                f"Nothing was changed: {busy} processes receive from {queue}; stop them first."
            )
        with noting(session, names, "change the lanes", queue, endpoint.name) as note:
            moved = asyncio.run(endpoint.change_lanes())
            note(moved)
    say(f"{queue} has {described(endpoint.lanes)}; {moved} messages moved.")


@app.command()
def scale(  # noqa: PLR0913 - an option is a parameter
    name: EndpointName,
    *,
    concurrency: Annotated[
        int | None,
        typer.Option("--concurrency", min=1, max=MOST, help="Messages at a time in each process."),
    ] = None,
    workers: Annotated[
        int | None,
        typer.Option("--workers", min=1, max=MOST, help="Processes of each `rowbus run --workers`."),
    ] = None,
    limit: Annotated[
        list[str] | None,
        typer.Option(
            "--limit", metavar="TYPE=N", help="Messages of a type in hand, in all processes together."
        ),
    ] = None,
    reset: Annotated[bool, typer.Option("--reset", help="As the program says again.")] = False,
    why: Annotated[str, typer.Option("--why", metavar="TEXT", help="What others are told.")] = "",
    lasts: Annotated[
        timedelta | None,
        typer.Option("--for", metavar="SPAN", parser=time_span, help="It ends by itself after: 30m."),
    ] = None,
    schema: Schema = None,
    database: Database = None,
    _verbose: Verbose = False,
) -> None:
    """Say how much of an endpoint runs, in all processes within two seconds, until --reset or --for is over.

    Also after restarts. `rowbus run` without --workers is one process, and stays one. Without options: list what is
    said. Exit code 1: nothing is.
    """
    names = addresses_in(database, schema)
    names.validate_endpoint_name(name)
    asked = {(ScaleKind.CONCURRENCY, name): concurrency, (ScaleKind.WORKERS, name): workers}
    asked |= {(ScaleKind.LIMIT, f"{name}/{of}"): most for of, most in map(_limit_of, limit or ())}
    wanted = {
        scale_subject(kind, of, names): amount for (kind, of), amount in asked.items() if amount is not None
    }
    if wanted and (reset or not why):
        raise typer.BadParameter("say why: others will ask; --reset goes alone.", param_hint="--why")
    if names.backend != "postgresql":
        raise ConfigurationError("Scaling works on PostgreSQL only.")
    until = None if lasts is None else datetime.now(UTC) + lasts
    with open_database(database).session() as session:
        if reset:
            _reset(session, names, name)
            return
        for what, amount in wanted.items():
            _scale(session, names, what, amount, why, until)
        found = _said(session, names, name)
    columns = ("what", "amount#", "since", "until", "who", "why")
    rows = [(_told(one), one.amount, one.began, one.until or "", one.person, one.why) for one in found]
    show_table(columns, rows)


def _limit_of(text: str) -> tuple[str, int]:
    of, _, most = text.partition("=")
    if not (of and most.isascii() and most.isdigit() and most.strip("0") and int(most[:9]) <= MOST):
        told = f"{text!r} is no limit; write Shop.PlaceOrder=3, from 1 to {MOST}."
        raise typer.BadParameter(told, param_hint="--limit")
    return of, int(most)


def _told(one: Pause) -> str:
    _, _, of = one.name.partition("/")
    return f"{one.kind} of {of}" if of else one.kind


def _said(session: Session, names: Addresses, name: str) -> list[Pause]:
    """Return what is said of an endpoint; exit with code 1 if nothing is."""
    found = [one for one in scaled(session, names) if one.name == name or one.name.startswith(f"{name}/")]
    if not found:
        complain(f"nothing is said of {name}")
        raise typer.Exit(1)
    return found


def _scale(  # noqa: PLR0917 - what is scaled, in the order of its sentence
    session: Session,
    names: Addresses,
    what: PauseSubject,
    amount: int,
    why: str,
    until: datetime | None,
) -> None:
    address = pauses_address(names)
    with noting(session, names, "scale", address, f"{what.kind} of {what.name}: {amount}, {why}") as note:
        scale_now(session, address, what, amount, person=note.person, why=why, until=until)


def _reset(session: Session, names: Addresses, name: str) -> None:
    """End what is said of an endpoint; exit with code 1 if nothing is."""
    table = pauses_table(pauses_address(names))
    for one in _said(session, names, name):
        with noting(session, names, "end a scale", table.address, f"{one.kind} of {one.name}"):
            session.run(table.resume(PauseSubject(one.kind, one.name)))
        say(f"Endpoint {name}: {_told(one)} as its program says.")


def find_tables(session: Session, catalog: Catalog, queue: QueueAddress) -> list[QueueAddress]:
    """Find an endpoint's tables by their names; those of strangers, and of other endpoints, are left out."""
    asked = catalog.find_satellites(queue)
    if asked is None:
        raise ConfigurationError(
            "Tables of an endpoint are found on PostgreSQL only; use `rowbus queue drop`."
        )
    found = sort_out(session, catalog, session.run(asked))
    for address, reason in found.left_out.items():
        complain(f"{address} is left as it is: {reason}")
    others = [one.address for one in find_queues(session, catalog) if one.is_queue]
    others = [one for one in others if one != queue and not one.table.startswith(f"{queue.table}{MARK}")]
    return [address for address in found.tables if not any(_belongs(address, other) for other in others)]


def _belongs(address: QueueAddress, queue: QueueAddress) -> bool:
    same = address.schema == queue.schema
    return same and f"{address.table}.".startswith(f"{queue.table}.")


def confirm_drop(
    session: Session, catalog: Catalog, found: Sequence[QueueAddress], where: str, *, yes: bool
) -> None:
    """Refuse to drop what a process receives from, and ask, unless told not to."""
    busy = {queue: count for queue, count in count_receivers(session, catalog, found).items() if count}
    if busy:
        told = ", ".join(f"{count} from {queue}" for queue, count in busy.items())
        raise ConfigurationError(f"Nothing was dropped: processes receive ({told}); stop them first.")
    if yes:
        return
    if not sys.stdin.isatty():
        raise typer.BadParameter("there is no terminal to ask on; add --yes.", param_hint="--yes")
    what = str(found[0]) if len(found) == 1 else f"these {len(found)} tables"
    typer.confirm(f"Drop {what} of {where} with all that is in it?", abort=True, err=True)


def drop_all(session: Session, found: Sequence[QueueAddress]) -> None:
    """Drop tables in the present transaction; raises StorageError after LOCK_WAIT where another session uses one."""
    for statement in queue_table(found[0]).limit_lock_wait(LOCK_WAIT):
        session.run(statement)
    for address in found:
        session.run(queue_table(address).drop())


def _unsubscribe(session: Session, address: QueueAddress, name: str, names: Addresses) -> int:
    if address not in session.run(catalog_of(names).find_subscriptions()):
        return 0
    routing = subscription_routing(address)
    topics = [one.topic for one in session.run(routing.list()) if one.endpoint == name]
    return len(session.run(routing.unsubscribe(name, topics)))
