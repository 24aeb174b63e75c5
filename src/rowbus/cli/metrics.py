"""`rowbus metrics`: the gauges of a database, once or for Prometheus to ask.

Invariant: reads and changes nothing; that the database is away is a gauge, once it has begun to listen.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Annotated

import typer

from rowbus.cli.options import Database, LogLines, Verbose
from rowbus.cli.output import LogFormat, show_logs, show_text
from rowbus.cli.target import addresses_in, open_database
from rowbus.database.backends import inspecting
from rowbus.errors import RowbusError
from rowbus.log.gauges.database import DatabaseGauges, unreachable
from rowbus.running.signals import run_until_signalled
from rowbus.running.telemetry.exposition import exposition
from rowbus.running.telemetry.listener import address_of
from rowbus.running.telemetry.service import Told

if TYPE_CHECKING:
    from rowbus.database.sessions import Database as Location
    from rowbus.running.telemetry.series import Family

logger = logging.getLogger("rowbus.telemetry")


def metrics(
    *,
    listen: Annotated[
        str | None,
        typer.Option(
            "--listen",
            metavar="HOST:PORT",
            help="Serve them at /metrics there: 127.0.0.1:9465. [default: print]",
        ),
    ] = None,
    log_format: LogLines = LogFormat.TEXT,
    database: Database = None,
    verbose: Verbose = False,
) -> None:
    """Measure a database for Prometheus: queues, delayed messages, logs, consumers.

    Prints once, for a file that node_exporter reads, or serves with --listen until SIGTERM or Ctrl-C: one process for
    each database is enough. The role needs what `rowbus doctor` needs. Processes that serve have --metrics, which
    tells of them. Exit code 1: the database could not be reached.
    """
    gauges = DatabaseGauges(addresses_in(database, None), has_logs=open_database(database).has_logs)
    measurer = Measurer(open_database(database), gauges)
    if listen is None:
        show_text(exposition(measurer.read()).rstrip("\n"))
        return
    show_logs(logging.DEBUG if verbose else logging.INFO, log_format)
    asyncio.run(run_until_signalled(Told(measurer, address_of(listen), measurer.families)))


class Measurer:
    """Reads gauges when it is asked, one reading at a time. It has nothing to start."""

    def __init__(self, location: Location, gauges: DatabaseGauges) -> None:
        """Read these of this database."""
        self._location = location
        self._gauges = gauges
        self._reading = asyncio.Lock()

    async def start(self) -> None:
        """Do nothing."""

    async def stop(self, timeout: float | None = None) -> None:  # noqa: ASYNC109 - a grace period
        """Do nothing."""

    def read(self) -> list[Family]:
        """Read once. Raises StorageError."""
        with inspecting(self._location) as session:
            return [*unreachable(None), *self._gauges.read(session)]

    async def families(self) -> list[Family]:
        """Read once, in a thread; a database that is away is told of by a gauge."""
        async with self._reading:
            try:
                return await asyncio.to_thread(self.read)
            except RowbusError as error:
                logger.warning("The database cannot be measured: %s", error)
                return unreachable(error)
