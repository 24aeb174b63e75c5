"""`rowbus log append`, `from-queue` and `to-queue`: events from files, and the bridges between queues and logs.

Invariants: all the events of one call are appended, or none; each message or event crosses in one transaction; a
command that is stopped has lost nothing.
"""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rowbus.cli.options import (
    Database,
    IntoLog,
    LogName,
    QueueName,
    Schema,
    Verbose,
    addresses_in,
    open_log_database,
    queue_addresses,
)
from rowbus.cli.output import complain, say, show_logs
from rowbus.cli.queue.send import opened
from rowbus.log.log import Log
from rowbus.running.signals import run_until_signalled

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import BinaryIO

    from rowbus.database.sessions import Database as Location
    from rowbus.messages.address import QueueAddress

BATCH = 100  # as `rowbus.bridges` has it, which is loaded when something is moved


def append(
    name: LogName,
    data: Annotated[
        str | None, typer.Argument(metavar="DATA", help="The data; - or nothing: read it from the input.")
    ] = None,
    *,
    type_: Annotated[str | None, typer.Option("--type", metavar="NAME", help="Type of the event.")] = None,
    extras: Annotated[
        list[str] | None,
        typer.Option("--extra", metavar="TEXT", help="extra1, then extra2 …; may be given four times."),
    ] = None,
    file: Annotated[
        Path | None,
        typer.Option(
            "--file", metavar="PATH", exists=True, dir_okay=False, help="Read the data from this file."
        ),
    ] = None,
    lines: Annotated[
        bool, typer.Option("--lines", help="Append each line that is not empty as an event; all or none.")
    ] = False,
    database: Database = None,
    _verbose: Verbose = False,
) -> None:
    """Append an event to a log, or one for each line of the input.

    The data is the argument, the content of --file, or the standard input; any text. Exit code 1: the log does not
    exist, or with --lines there was no line.
    """
    added = tuple(extras or ())
    if len(added) > 4:  # noqa: PLR2004 - extra1 to extra4
        raise typer.BadParameter("an event has four extras at most.", param_hint="--extra")
    with opened(data, file) as source, open_log_database(database).session() as session:
        log = Log(session.connection, name)
        if not lines:
            [extra1, extra2, extra3, extra4] = (*added, None, None, None, None)[:4]
            number = log.append(
                source.read(), type=type_, extra1=extra1, extra2=extra2, extra3=extra3, extra4=extra4
            )
            say(f"Appended event {number} to log {name}.")
            return
        count = log.append_many((type_, line, *added) for line in _lines(source))
    if not count:
        complain("there was no line to append")
        raise typer.Exit(1)
    say(f"Appended {count} {'event' if count == 1 else 'events'} to log {name}.")


def _lines(source: BinaryIO) -> Iterator[bytes]:
    for line in source:
        if data := line.rstrip(b"\r\n"):
            yield data


def from_queue(
    queue: QueueName,
    *,
    log: IntoLog,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Go on moving what comes, until SIGTERM or Ctrl-C.")
    ] = False,
    batch: Annotated[
        int, typer.Option("--batch", min=1, help="How many messages one transaction moves.")
    ] = BATCH,
    schema: Schema = None,
    database: Database = None,
    _verbose: Verbose = False,
) -> None:
    """Move the messages of a queue, such as error or audit, to a log.

    Headers and bodies are kept: `to-queue` sends them as they were. Messages in flight stay. Exit code 1:
    there was no message.
    """
    address = queue_addresses([queue], addresses_in(database, schema))[0]
    location = open_log_database(database)
    if follow:
        show_logs(logging.INFO)
    moved = asyncio.run(_move(location, address, log, batch, follow=follow))
    if not moved:
        complain(f"there was no message in {address}")
        raise typer.Exit(1)
    say(f"Moved {moved} {'message' if moved == 1 else 'messages'} from {address} to log {log}.")


async def _move(location: Location, queue: QueueAddress, log: str, batch: int, *, follow: bool) -> int:
    from rowbus.bridges import QueueDrain

    drain = QueueDrain(location, queue, log, batch_size=batch)
    if follow:
        await run_until_signalled(drain)
        return drain.moved
    return await drain.drain()


def to_queue(
    name: LogName,
    queue: QueueName,
    *,
    consumer: Annotated[
        str,
        typer.Option("--consumer", metavar="NAME", help="Name of the consumer that remembers the position."),
    ],
    from_oldest: Annotated[
        bool,
        typer.Option(
            "--from-oldest",
            help="A new consumer begins with what is retained, not with what comes from now on.",
        ),
    ] = False,
    schema: Schema = None,
    database: Database = None,
    verbose: Verbose = False,
) -> None:
    """Send a message to a queue for each event of a log, until SIGTERM or Ctrl-C.

    What came from a queue is sent as it was. Of other events the data is the body and the type the message's; one
    without a type or data is retried and then becomes a dead letter.
    """
    address = queue_addresses([queue], addresses_in(database, schema))[0]
    log = Log(open_log_database(database).conninfo, name)
    from rowbus.bridges import forward_events
    from rowbus.settings import ConsumerSettings

    forward_events(log, consumer, address, settings=ConsumerSettings(from_oldest=from_oldest))
    show_logs(logging.DEBUG if verbose else logging.INFO)
    logging.getLogger("rowbus.cli").info("Forwarding events of log %s to %s as %s", name, address, consumer)
    log.run()
