"""`rowbus schema`: what queues are made of, with --log the event log: print, install, verify it, grant its use.

Invariant: `sql` and `grants` touch no database; `verify` changes nothing.
"""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from rowbus.cli.delayed import create_delayed_table
from rowbus.cli.log import schema as log_schema
from rowbus.cli.options import (
    BodyString,
    CreateSchema,
    Database,
    Json,
    NotifyTrigger,
    Queues,
    Schema,
    System,
    Verbose,
    addresses_in,
    open_database,
)
from rowbus.cli.output import complain, say, show_json, show_table
from rowbus.cli.queue.verbs import create_all
from rowbus.cli.schema.tables import LOG_PURPOSES, Purpose, grants_for, plans_for, read_roles
from rowbus.cli.store import set_up_store, store_sql, store_table
from rowbus.cli.subscriptions import create_table
from rowbus.database.backends import inspecting, scripts_of
from rowbus.database.statements import run_steps_now, script
from rowbus.transport.delayed.table import delayed_table
from rowbus.transport.lanes.installer import install_lanes, lane_faults
from rowbus.transport.lanes.lane_table import LaneTable
from rowbus.transport.pubsub.table import subscription_routing
from rowbus.transport.queues.catalog.table import catalog_of
from rowbus.transport.queues.installer import create_table as create_record_table
from rowbus.transport.queues.owners import find_faults, guard
from rowbus.transport.queues.shape import differences
from rowbus.transport.queues.table import queue_table

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rowbus.cli.schema.tables import Plan
    from rowbus.database.sessions import Database as Location
    from rowbus.messages.address import QueueAddress
    from rowbus.transport.lanes.rule import Lanes
    from rowbus.transport.queues.owners import Fault
    from rowbus.transport.queues.records.table import OwnTable

app = typer.Typer(
    help="Print, install, verify and grant the use of queue tables, and of the event log.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


Log = Annotated[bool, typer.Option("--log", help="The event log's schema instead of queues.")]
Spark = Annotated[
    bool, typer.Option("--spark", help="What Spark's sink and sources need, instead of queues.")
]


MISSING = ("there is no such table",)
_END: Final = re.compile(r"(?<=;)\n")  # of a statement
NO_DELAYED = "there is no table of delayed messages of this name and shape"


def _alone(target: str | None, queues: list[str] | None) -> None:
    """Refuse queues and an endpoint beside --log or --spark."""
    if target or queues:
        raise typer.BadParameter(
            "--log and --spark are about other schemas; leave out the endpoint and --queue."
        )


# --------------------------------------------------------------------------------------------------------------- sql


@app.command("sql")
def sql(  # noqa: PLR0913 - an option is a parameter
    target: System = None,
    *,
    queues: Queues = None,
    schema: Schema = None,
    make_schema: CreateSchema = False,
    body_string: BodyString = False,
    notify_trigger: NotifyTrigger = False,
    log: Log = False,
    spark: Spark = False,
    database: Database = None,
    _verbose: Verbose = False,
) -> None:
    """Print the SQL that creates queues, for psql or a migration; nothing is executed.

    With a module instead of an endpoint, for each endpoint that has a name in it.
    """
    if log or spark:
        _alone(target, queues)
        if log:
            log_schema.show_sql()
        if spark:
            _show_spark_schema()
        return
    plans = plans_for(
        target, queues, schema, database, body_string=body_string, notify_trigger=notify_trigger
    )
    parts = [part for plan in plans for part in _definitions(plan, make_schema=make_schema)]
    typer.echo("\n\n".join(dict.fromkeys(parts)))  # endpoints share their error queue


def _show_spark_schema() -> None:
    from rowbus.spark.schema import text

    typer.echo(text())


def _show_spark_grants(role: str) -> None:
    from rowbus.spark.schema import grant_use

    typer.echo(script(grant_use(role)))


def _definitions(plan: Plan, *, make_schema: bool) -> Iterator[str]:
    schemas = sorted({address.schema for address in plan.addresses}) if make_schema else ()
    define = scripts_of(plan.names).definition
    yield from (define([catalog_of(plan.names).create_schema(name)]) for name in schemas)
    for address in plan.addresses:
        yield from _scripts(address, plan)
    if plan.lanes is not None:
        queue, lanes = plan.lanes
        yield define(LaneTable(queue).create(lanes))
    if plan.subscriptions is not None:
        yield define(subscription_routing(plan.subscriptions).create())
    if plan.delayed is not None:
        yield define(delayed_table(plan.delayed).create())
        if plan.body_string:
            yield scripts_of(plan.names).transaction(queue_table(plan.delayed).create_body_string())
    if plan.store is not None:
        yield store_sql(plan.store)
    yield from (define(own.table.create()) for own in plan.own)
    if guards := guard(_made(plan), schemas):
        yield define(guards)


def _made(plan: Plan) -> Iterator[QueueAddress]:
    """Yield what the printed SQL creates where it is missing."""
    others = plan.subscriptions, plan.delayed, None if plan.store is None else store_table(plan.store)
    yield from plan.addresses
    yield from (address for address in others if address is not None)
    yield from (own.table.address for own in plan.own)


def _scripts(address: QueueAddress, plan: Plan) -> Iterator[str]:
    table, scripts = queue_table(address), scripts_of(address)
    yield scripts.definition(table.create())
    if plan.body_string:
        yield scripts.transaction(table.create_body_string())
    if plan.notify_trigger:
        yield scripts.transaction([*table.create_notify_trigger(), *guard([address])])


# ----------------------------------------------------------------------------------------------------------- install


@app.command("install")
def install(
    target: System = None,
    *,
    queues: Queues = None,
    schema: Schema = None,
    make_schema: CreateSchema = False,
    body_string: BodyString = False,
    notify_trigger: NotifyTrigger = False,
    log: Log = False,
    database: Database = None,
    _verbose: Verbose = False,
) -> None:
    """Create the queues of an endpoint (its own and its error queue), or those named, where they are missing.

    For an endpoint also the tables of subscriptions and of delayed messages. With a module instead of an endpoint, for
    each endpoint that has a name in it: those of a whole system, say.
    """
    if log:
        _alone(target, queues)
        log_schema.install(database=database)
        return
    for plan in plans_for(
        target, queues, schema, database, body_string=body_string, notify_trigger=notify_trigger
    ):
        _install(plan, make_schema=make_schema)


def _install(plan: Plan, *, make_schema: bool) -> None:
    schemas = {address.schema for address in plan.addresses} if make_schema else set[str]()
    location = open_database(plan.database)
    asyncio.run(create_all(location, catalog_of(plan.names), plan.addresses, schemas, plan.extras))
    if plan.lanes is not None:
        asyncio.run(_install_lanes(location, *plan.lanes))
    if plan.subscriptions is not None:
        asyncio.run(create_table(location, plan.subscriptions))
    if plan.delayed is not None:
        asyncio.run(create_delayed_table(location, plan.delayed, body_string=plan.body_string))
    if plan.store is not None:
        asyncio.run(set_up_store(location, plan.store))
    if plan.own:
        asyncio.run(_create_tables(location, plan.own))


async def _install_lanes(location: Location, queue: QueueAddress, lanes: Lanes) -> None:
    session = await location.connect()
    try:
        await install_lanes(session, queue, lanes, install=True)
    finally:
        await session.close()


async def _create_tables(location: Location, tables: Sequence[OwnTable]) -> None:
    session = await location.connect()
    try:
        for table, called, *_ in tables:
            made = await create_record_table(session, table, called)
            say(f"Created {table.address}." if made else f"{table.address} was there already.")
    finally:
        await session.close()


# ------------------------------------------------------------------------------------------------------------ verify


@app.command("verify")
def verify(
    target: System = None,
    *,
    queues: Queues = None,
    schema: Annotated[
        str | None, typer.Option("--schema", metavar="NAME", help="Only the queues of this schema.")
    ] = None,
    log: Log = False,
    as_json: Json = False,
    database: Database = None,
    _verbose: Verbose = False,
) -> None:
    """Compare queues with the shape that NServiceBus, ServiceControl and Rowbus expect.

    For an endpoint, or each endpoint that has a name in a module, also look for its other tables: of delayed and of
    processed messages, of its sagas and its schedules. Given neither queues nor an endpoint: every table that is a
    queue, or was one before it was changed. Names those, and functions of their triggers, that belong to a role that
    this one cannot trust. Exit code 1: one differs or is missing, or there is none.
    """
    if log:
        _alone(target, queues)
        log_schema.verify(database, as_json=as_json)
        return
    results: dict[str, tuple[str, ...]] = {}
    if target or queues:
        for plan in plans_for(target, queues, schema, database):
            results |= _verified(plan)
    else:
        results = _all_queues(database, schema)
    _show_results(results, as_json=as_json)
    if not results or any(results.values()):
        raise typer.Exit(1)


def _all_queues(database: str | None, schema: str | None) -> dict[str, tuple[str, ...]]:
    catalog = catalog_of(addresses_in(database, schema))
    with inspecting(open_database(database)) as session:
        found = [
            table for table in session.run(catalog.find_queues(())) if schema in {None, table.address.schema}
        ]
        faults = run_steps_now(session, find_faults(*(table.address for table in found)))
    return _with_faults({str(table.address): differences(table) for table in found}, faults)


def _with_faults(results: dict[str, tuple[str, ...]], faults: Sequence[Fault]) -> dict[str, tuple[str, ...]]:
    return {
        name: (*found, *(f"{fault.text}: {fault.advice}" for fault in faults if fault.table == name))
        for name, found in results.items()
    }


def _verified(plan: Plan) -> dict[str, tuple[str, ...]]:
    """Return what differs of each of a plan's tables."""
    catalog = catalog_of(plan.names)
    with inspecting(open_database(plan.database)) as session:
        queues = {
            table.address: differences(table) for table in session.run(catalog.find_queues(plan.addresses))
        }
        delayed = session.run(catalog.find_delayed())
        own = {each.table.address: session.run(each.table.exists()) for each in plan.own}
        faults = run_steps_now(session, find_faults(*_made(plan)))
        lanes = {} if plan.lanes is None else lane_faults(session, *plan.lanes)
    results = {str(address): queues.get(address, MISSING) for address in plan.addresses}
    if plan.delayed is not None:
        results[str(plan.delayed)] = () if plan.delayed.is_among(delayed) else (NO_DELAYED,)
    results |= {str(address): () if exists else MISSING for address, exists in own.items()}
    results = {name: (*found, *lanes.get(name, ())) for name, found in results.items()}
    return _with_faults(results, faults)


def _show_results(results: dict[str, tuple[str, ...]], *, as_json: bool) -> None:
    if as_json:
        show_json(
            [
                {"queue": name, "verified": not found, "differences": list(found)}
                for name, found in results.items()
            ]
        )
    elif results:
        rows = [(name, "ok" if not found else "differs", "; ".join(found)) for name, found in results.items()]
        show_table(("queue", "shape", "difference"), rows)
    if not results:
        complain("there is no queue")


# ------------------------------------------------------------------------------------------------------------ grants

ServiceControl = Annotated[
    bool,
    typer.Option("--servicecontrol", help="What ServiceControl needs, on its own queues and on these."),
]
Web = Annotated[
    bool, typer.Option("--web", help="What noting operations of `rowbus web` needs, and their table.")
]
ToldHistory = Annotated[
    bool, typer.Option("--history", help="What telling how long handlers take needs, and the table.")
]
Operate = Annotated[
    bool, typer.Option("--operate", help="What looking, purging, and putting failed messages back needs.")
]
Roles = Annotated[
    Path | None,
    typer.Option("--roles", metavar="FILE", help="All roles of a system, from a file in TOML."),
]


def _purpose(asked: Purpose, target: str | None) -> Purpose:
    """Return what the grants are for: receiving, for an endpoint of which nothing else is asked."""
    if not any(asked) and target is None:
        raise typer.BadParameter(
            "say what for: --send, --receive, --view, --operate, --servicecontrol, --web or --history."
        )
    return asked if any(asked) else Purpose(receive=True)


@app.command("grants")
def grants(  # noqa: PLR0913 - an option is a parameter
    target: System = None,
    *,
    role: Annotated[str | None, typer.Option("--role", metavar="ROLE", help="Whom to grant them to.")] = None,
    roles: Roles = None,
    queues: Queues = None,
    send: Annotated[bool, typer.Option("--send", help="What sending needs.")] = False,
    receive: Annotated[bool, typer.Option("--receive", help="What receiving needs.")] = False,
    view: Annotated[bool, typer.Option("--view", help="What looking needs, and changing nothing.")] = False,
    operate: Operate = False,
    servicecontrol: ServiceControl = False,
    web: Web = False,
    history: ToldHistory = False,
    schema: Schema = None,
    log: Log = False,
    spark: Spark = False,
    database: Database = None,
    _verbose: Verbose = False,
) -> None:
    """Print the fewest privileges that a role needs for its work; nothing is executed.

    For an endpoint, or each endpoint that has a name in a module, receiving is meant unless another option is given. It
    includes delayed retries, giving up into the error queue, the audit queue, and the tables of subscriptions, of
    delayed and of processed messages; grant --send on the queues it sends, replies and publishes to beside that. --view
    and --operate cover all of an endpoint's tables.
    --servicecontrol is for the role of its instances once they are set up: on their own queues all they do, on the
    endpoint's, or on --queue, retrying messages, and SELECT and UPDATE for monitoring.
    --web is for the role of `rowbus web`, whose operators' retries, discards and edits are noted: it prints the table
    of that log, too. With --view, and without --operate, the role may only read it.
    --history is for the roles of endpoints whose handlers' times the page is to show.
    With --log the options stand for the roles pgq_writer (--send), pgq_reader (--receive) and pgq_admin (--operate).
    Roles with so little cannot install: run endpoints with --no-install.
    A file for --roles has a table a role: `[shop_sales]`, `receive = ["Sales"]`, `send = ["Billing"]`; `web = true`,
    `log = ["receive"]`.
    """
    if roles is not None:
        if (
            role
            or queues
            or log
            or spark
            or any((send, receive, view, operate, servicecontrol, web, history))
        ):
            raise typer.BadParameter("says all of it; leave the other options out.", param_hint="--roles")
        _show_roles(roles, target, schema, database)
        return
    if role is None:
        raise typer.BadParameter("say whom to grant them to: --role, or --roles.", param_hint="--role")
    if log or spark:
        _alone(target, queues)
        if log:
            log_schema.show_grants(role, send=send, receive=receive, operate=operate)
        if spark:
            _show_spark_grants(role)
        return
    wanted = _purpose(Purpose(send, receive, view, operate, servicecontrol, web, history), target)
    plans = plans_for(target, queues, schema, database, required=not (servicecontrol or web or history))
    if (web or history) and any(plan.names.backend != "postgresql" for plan in plans):
        raise typer.BadParameter(
            "operations and history of `rowbus web` are noted on PostgreSQL only.", param_hint="--web"
        )
    parts = [part for plan in plans for part in _grants(plan, wanted, role)]
    typer.echo("\n".join(dict.fromkeys(parts)))


def _show_roles(file: Path, target: str | None, schema: str | None, database: str | None) -> None:
    for one in list(read_roles(file, target, schema, database)):
        parts = [part for plan, wanted in one.grants for part in _grants(plan, wanted, one.role)]
        typer.echo("\n".join((f"-- {one.role}", *dict.fromkeys(parts))))
        if one.log:
            asked = {purpose: purpose in one.log for purpose in sorted(LOG_PURPOSES)}
            log_schema.show_grants(one.role, **asked)


def _grants(plan: Plan, wanted: Purpose, role: str) -> Iterator[str]:
    write = scripts_of(plan.names).script
    for statement in grants_for(plan, wanted, role):
        yield from _END.split(write(statement))  # files of several share some
