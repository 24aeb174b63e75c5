"""`rowbus log`: create, list, fill, read, configure and drop logs; move and remove their consumers.

Invariant: only `drop` takes events away, and it asks first.
"""

from __future__ import annotations

import sys
from contextlib import closing
from itertools import islice
from typing import TYPE_CHECKING, Annotated

import typer

from rowbus.cli.log import capture as log_capture
from rowbus.cli.log import dead_letters as log_dead_letters
from rowbus.cli.log import listing as log_listing
from rowbus.cli.log import schema as log_schema
from rowbus.cli.log import transfer as log_append
from rowbus.cli.log import transfer as log_bridge
from rowbus.cli.options import AnyLog, ConsumerName, Database, Json, LogName, Verbose, open_log_database
from rowbus.cli.output import complain, say, show_json, show_table
from rowbus.errors.strangers import printable
from rowbus.log import catalog as log_catalog
from rowbus.log.consumers.lanes import change_lanes
from rowbus.log.consumers.table import log_not_found
from rowbus.log.diagnosis import ConsumerWithLanes, consumers_with_lanes
from rowbus.log.log import Log
from rowbus.log.range import NOTATION, Position, find_tick
from rowbus.log.schema.installer import install_and_report
from rowbus.transport.lanes.rule import MARK, MOST, by_key

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rowbus.database.sessions import Session
    from rowbus.log.event import Event

app = typer.Typer(
    help="Install, create, fill, read and look after event logs.", no_args_is_help=True, rich_markup_mode=None
)
app.command()(log_append.append)
app.command()(log_capture.capture)
app.command()(log_capture.release)
app.command()(log_capture.captures)
app.command()(log_capture.ddl)
app.command("from-queue")(log_bridge.from_queue)
app.command("to-queue")(log_bridge.to_queue)
app.add_typer(log_dead_letters.app, name="dead-letters")
app.add_typer(log_schema.app)  # without a name: its commands are commands of this one


# ---------------------------------------------------------------------------------------------------- create and drop


@app.command()
def create(
    names: Annotated[
        list[str],
        typer.Argument(metavar="LOG...", help="Logs to create; any text but a blank one is a name."),
    ],
    *,
    install: Annotated[
        bool, typer.Option("--install", help="Install the schema pgq first, if it is missing or older.")
    ] = False,
    database: Database = None,
    _verbose: Verbose = False,
) -> None:
    """Create logs.

    Those that are there already stay as they are. The database needs the schema of the event log: see --install.
    """
    with open_log_database(database).session() as session:
        if install:
            report = install_and_report(session)
            if report.changed:
                say("Installed the schema pgq.")
            log_schema.tell_of_grants(report)
        for name in names:
            made = session.run(log_catalog.create(name))
            say(f"Created log {name}." if made else f"Log {name} was there already.")


@app.command()
def drop(
    name: LogName,
    *,
    force: Annotated[
        bool,
        typer.Option(
            "--force", help="Even if it has consumers or captured tables; they are removed, these released."
        ),
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    database: Database = None,
    _verbose: Verbose = False,
) -> None:
    """Drop a log with all its events.

    Asks first; without a terminal, --yes must be given.
    """
    location = open_log_database(database)
    with location.session() as session:
        if not yes:
            _confirm_drop(session, name, location.name)
        session.run(log_catalog.drop(name, force=force))
    say(f"Dropped log {name}.")


def _confirm_drop(session: Session, name: str, where: str) -> None:
    if not sys.stdin.isatty():
        raise typer.BadParameter("there is no terminal to ask on; add --yes.", param_hint="--yes")
    states = session.run(log_catalog.log_states(name))
    if not states:
        raise log_not_found(name)
    held = log_listing.size(states[0].bytes)
    typer.confirm(f"Drop log {name} ({held}) with all its events in {where}?", abort=True, err=True)


# --------------------------------------------------------------------------------------------------------- visibility


@app.command("list")
def list_(
    name: AnyLog = None, *, as_json: Json = False, database: Database = None, _verbose: Verbose = False
) -> None:
    """List logs: how far they are ticked, how far behind consumers are, what waits, and what blocks rotation.

    `new` events have not been ticked yet, `age` is that of the last tick, `lag` that of the slowest consumer. Exit
    code 1: there is no log.
    """
    with open_log_database(database).session() as session:
        logs = session.run(log_catalog.log_states(name))
    if as_json:
        show_json([log_listing.log_json(log) for log in logs])
    elif logs:
        show_table(log_listing.LOGS, map(log_listing.log_row, logs))
    if not logs:
        complain("there is no log" + (f" called {name}" if name else ""))
        raise typer.Exit(1)


@app.command()
def consumers(
    name: AnyLog = None,
    *,
    lanes: Annotated[bool, typer.Option("--lanes", help="Show each lane for itself.")] = False,
    as_json: Json = False,
    database: Database = None,
    _verbose: Verbose = False,
) -> None:
    """List consumers: their position and lag, the events that wait for them, and the batch in their hands.

    `seen` is how long ago they gave a sign of life. A consumer with lanes is as far behind as the last of them. Exit
    code 1: there is no consumer.
    """
    with open_log_database(database).session() as session:
        found = session.run(log_catalog.consumer_states(name))
        if name and not found and not session.run(log_catalog.config(name)):
            raise log_not_found(name)
    shown = [*map(ConsumerWithLanes, found)] if lanes else consumers_with_lanes(found)
    if as_json:
        show_json([{**one.state._asdict(), "lanes": len(one.lanes)} for one in shown])
    elif found:
        show_table(log_listing.CONSUMERS, map(log_listing.consumer_row, shown))
    if not found:
        complain("there is no consumer" + (f" of log {name}" if name else ""))
        raise typer.Exit(1)


@app.command()
def read(
    name: LogName,
    *,
    start: Annotated[
        Position,
        typer.Option("--from", metavar="POSITION", parser=log_listing.position, help=f"First: {NOTATION}."),
    ] = "start",  # type: ignore[assignment]  # pyright: ignore[reportArgumentType] - typer parses it
    end: Annotated[
        Position,
        typer.Option("--to", metavar="POSITION", parser=log_listing.position, help="Last: as --from."),
    ] = "end",  # type: ignore[assignment]  # pyright: ignore[reportArgumentType] - typer parses it
    limit: Annotated[int, typer.Option("--limit", "-n", min=0, help="Most events to show; 0: all.")] = 10,
    consumer: Annotated[
        str | None, typer.Option("--consumer", metavar="NAME", help="With the events put back for this one.")
    ] = None,
    as_json: Json = False,
    database: Database = None,
    _verbose: Verbose = False,
) -> None:
    """Show the events that a log retains between two ticks, without taking them from a consumer.

    Events written after the last tick are not shown yet. Exit code 1: there is none.
    """
    with open_log_database(database).session() as session:
        first, last = (find_tick(session, name, where) for where in (start, end))
        found = Log(session.connection, name).read(first, last, consumer=consumer)
        with closing(found):  # it holds a transaction open
            events = list(islice(found, limit or None))
    _show_events(events, as_json=as_json)
    if not events:
        complain(f"log {name} has no events between ticks {first} and {last}")
        raise typer.Exit(1)


def _show_events(events: list[Event], *, as_json: bool) -> None:
    if as_json:
        show_json([event._asdict() for event in events])
    elif events:
        show_table(log_listing.EVENTS, map(log_listing.event_row, events))


# ---------------------------------------------------------------------------------------------------------- consumers


@app.command()
def rewind(
    name: LogName,
    consumer: ConsumerName,
    *,
    to: Annotated[
        Position,
        typer.Option("--to", metavar="POSITION", parser=log_listing.position, help=f"Where: {NOTATION}."),
    ],
    force: Annotated[
        bool, typer.Option("--force", help="Even while it has a batch in hand, which it then loses.")
    ] = False,
    database: Database = None,
    _verbose: Verbose = False,
) -> None:
    """Move a consumer, back or forth: it goes on with the events after that tick.

    A time means the last tick not after it. Refused while the consumer has a batch in hand: stop it first, or --force.
    Exit code 1: refused, or the position is not retained.
    """
    with open_log_database(database).session() as session:
        target = find_tick(session, name, to)
        state = log_catalog.find_consumer(session, name, consumer)
        if state.batch is not None and not force:
            complain(
                f"{consumer} has batch {state.batch} in hand; stop it and let it finish, or take it away by --force"
            )
            raise typer.Exit(1)
        Log(session.connection, name).seek(consumer, tick=target)
    before = "" if state.last_tick is None else f" from tick {state.last_tick}"
    say(f"Moved {consumer} of log {name}{before} to tick {target}.")


@app.command()
def unregister(
    name: LogName, consumer: ConsumerName, *, database: Database = None, _verbose: Verbose = False
) -> None:
    """Remove a consumer and the events that wait for its retries; it no longer keeps space from being reclaimed.

    Exit code 1: there is no such consumer.
    """
    with open_log_database(database).session() as session:
        log_catalog.find_consumer(session, name, consumer)
        Log(session.connection, name).unregister(consumer)
    say(f"Removed {consumer} from log {name}.")


@app.command()
def lanes(
    name: LogName,
    consumer: ConsumerName,
    count: Annotated[int, typer.Argument(metavar="N", min=1, max=MOST, help="The lanes that it is to have.")],
    *,
    database: Database = None,
    _verbose: Verbose = False,
) -> None:
    """Give a consumer so many lanes, as its program is to ask for: `@log.consumer(…, lanes=rowbus.by_key(N))`.

    Refuses while a process works on it, and unless all its lanes have reached the same tick with nothing left to do: so
    each event comes once, and those of each key in their order. Exit code 1: there is no such consumer.
    """
    with open_log_database(database).session() as session:
        known = consumers_with_lanes(session.run(log_catalog.consumer_states(name)))
        found = next((one for one in known if one.state.consumer == consumer), None)
        found = (
            found
            or _with_one_lane(known, consumer)
            or ConsumerWithLanes(log_catalog.find_consumer(session, name, consumer))
        )
        tick = change_lanes(session, found, by_key(count))
    say(f"{consumer} of log {name} has {count} lanes, which go on behind tick {tick}.")


def _with_one_lane(known: Iterable[ConsumerWithLanes], consumer: str) -> ConsumerWithLanes | None:
    """Return a consumer with one lane, which by itself could be anything."""
    lane = next((one.state for one in known if one.state.consumer == f"{consumer}{MARK}0"), None)
    return lane and ConsumerWithLanes(lane._replace(consumer=consumer), (lane,))


# ------------------------------------------------------------------------------------------------------------- config


@app.command()
def config(
    name: LogName,
    changes: Annotated[
        list[str] | None,
        typer.Argument(metavar="[NAME=VALUE]...", help="What to change; NAME= unsets an option of Rowbus's."),
    ] = None,
    *,
    as_json: Json = False,
    database: Database = None,
    _verbose: Verbose = False,
) -> None:
    """Show the settings of a log, or change some, all or none.

    PgQ's: ticker_max_count, ticker_max_lag, ticker_idle_period, ticker_paused, rotation_period, external_ticker.
    Rowbus's: tick_period, max_retries, ordered_ticks. Spans of time are PostgreSQL's, such as '30 seconds'.
    """
    wanted = [_change(change) for change in changes or ()]
    with open_log_database(database).session() as session:
        before = session.run(log_catalog.config(name))
        if not before:
            raise log_not_found(name)
        with session.transaction():
            for setting, value in wanted:
                if not session.run(log_catalog.configure(name, setting, value)):
                    raise typer.BadParameter(
                        f"{setting} is {value}: at least 0, and a time at most 100 years."
                    )
        after = session.run(log_catalog.config(name))
    if as_json:
        show_json(after)
    elif wanted:
        for setting, _ in wanted:
            say(f"{setting} of log {name} is {_set(after[setting])}; it was {_set(before[setting])}.")
    else:
        show_table(("setting", "value"), [(setting, _set(value)) for setting, value in after.items()])


def _change(text: str) -> tuple[str, str | None]:
    name, equals, value = text.partition("=")
    known = (*log_catalog.SETTINGS, *log_catalog.OPTIONS)
    if not equals or name not in known:
        raise typer.BadParameter(f"{printable(text)!r} is not NAME=VALUE with one of {', '.join(known)}.")
    if not value and name in log_catalog.SETTINGS:
        raise typer.BadParameter(f"{name} cannot be unset; say {name}=VALUE.")
    return name, value or None


def _set(value: str | None) -> str:
    return "not set" if value is None else value
