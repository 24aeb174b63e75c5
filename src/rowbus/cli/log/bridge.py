"""`rowbus log from-queue` and `to-queue`: the bridges between queues and logs.

Invariant: each message or event crosses in one transaction; a command that is stopped has lost nothing.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Annotated

import typer

from rowbus import ConsumerSettings, Log, forward_events
from rowbus.bridges.drain import BATCH_SIZE, QueueDrain
from rowbus.cli.log.options import IntoLog, LogName
from rowbus.cli.options import Database, QueueName, Schema, Verbose
from rowbus.cli.output import complain, say, show_logs
from rowbus.cli.target import addresses_in, open_log_database, queue_addresses
from rowbus.running.signals import run_until_signalled

if TYPE_CHECKING:
    from rowbus.database.sessions import Database as Location
    from rowbus.messages.address import QueueAddress


def from_queue(
    queue: QueueName,
    *,
    log: IntoLog,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Go on moving what comes, until SIGTERM or Ctrl-C.")
    ] = False,
    batch: Annotated[
        int, typer.Option("--batch", min=1, help="How many messages one transaction moves.")
    ] = BATCH_SIZE,
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
    forward_events(log, consumer, address, settings=ConsumerSettings(from_oldest=from_oldest))
    show_logs(logging.DEBUG if verbose else logging.INFO)
    logging.getLogger("rowbus.cli").info("Forwarding events of log %s to %s as %s", name, address, consumer)
    log.run()
