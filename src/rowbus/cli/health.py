"""The health of a database: `rowbus doctor`, is it fit for messaging, and `rowbus metrics`, its gauges.

Invariants: shows findings; `log/examination.py` gathers the facts, and the `diagnosis.py` of each subject judges them;
reads and changes nothing; that the database is away is a gauge, once it has begun to listen.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Annotated

import typer

from rowbus.cli.delayed import MOST
from rowbus.cli.options import Database, Json, LogLines, Verbose, addresses_in, load_endpoint, open_database
from rowbus.cli.output import LogFormat, show_json, show_logs, show_table, show_text
from rowbus.cli.store import examine_endpoint, found_stores
from rowbus.contracts.published import examine_contracts
from rowbus.database.backends import inspecting
from rowbus.errors import RowbusError
from rowbus.log.examination import examine, examine_logs, examine_outbox
from rowbus.log.gauges import DatabaseGauges, unreachable
from rowbus.running.critical import Outage
from rowbus.running.signals import run_until_signalled
from rowbus.running.telemetry.listener import address_of
from rowbus.running.telemetry.series import exposition
from rowbus.running.telemetry.service import MeasuredService
from rowbus.sagas.stuck import StuckSagas, examine_sagas
from rowbus.transport.delayed_store.diagnosis import diagnose_store
from rowbus.transport.queues.catalog.table import catalog_of
from rowbus.transport.queues.diagnosis import Level, diagnose_left_out, diagnose_pooler

if TYPE_CHECKING:
    from rowbus.database.sessions import Database as Location
    from rowbus.running.telemetry.series import Family
    from rowbus.transport.queues.diagnosis import Finding

logger = logging.getLogger("rowbus.telemetry")


def doctor(
    target: Annotated[
        str | None,
        typer.Argument(
            metavar="MODULE:ENDPOINT",
            help="Examine this endpoint's delayed message store and NServiceBus's outbox too.",
        ),
    ] = None,
    *,
    as_json: Json = False,
    database: Database = None,
    _verbose: Verbose = False,
) -> None:
    """Examine the server, every queue, every table of delayed messages and every log.

    Says what to do about what is wrong, such as a transaction left open that makes queues slow. Exit code 1:
    something fails. Warnings do not count.
    """
    endpoint = None if target is None else load_endpoint(target)
    if endpoint is not None:
        database = database or endpoint.database
    location, addresses = open_database(database), addresses_in(database, None)
    with inspecting(location) as session:
        findings = list(examine(session, catalog_of(addresses), MOST))
        stores, left_out = found_stores(session, addresses, None, MOST)
        findings += [diagnose_store(str(address), state) for address, state in stores.items()]
        findings += [diagnose_left_out(str(address), reason) for address, reason in left_out.items()]
        if location.has_logs:
            findings += examine_logs(session)
        findings += examine_sagas(session, catalog_of(addresses))
        findings += examine_contracts(session, addresses)
        findings += [] if location.keeps_sessions() else [diagnose_pooler()]
        if endpoint is not None:
            outbox = endpoint.addresses.for_endpoint(f"{endpoint.name.replace('.', '_')}_OutboxData")
            findings += examine_outbox(session, catalog_of(addresses), endpoint.name, outbox, MOST)
            findings += examine_endpoint(endpoint, database, MOST)
    if as_json:
        show_json([finding._asdict() | {"level": finding.level.value} for finding in findings])
    else:
        show_table(("", "subject", "found", "what to do"), map(_as_row, findings))
    if any(finding.level is Level.FAIL for finding in findings):
        raise typer.Exit(1)


def _as_row(finding: Finding) -> tuple[str, str, str, str]:
    return finding.level.value, finding.subject, finding.text, finding.advice


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
    has_logs = open_database(database).has_logs
    gauges = DatabaseGauges(addresses_in(database, None), StuckSagas().measure, has_logs=has_logs)
    measurer = Measurer(open_database(database), gauges)
    if listen is None:
        show_text(exposition(measurer.read()).rstrip("\n"))
        return
    show_logs(logging.DEBUG if verbose else logging.INFO, log_format)
    asyncio.run(run_until_signalled(MeasuredService(measurer, address_of(listen), measurer.families)))


class Measurer:
    """Reads gauges when it is asked, one reading at a time. It has nothing to start."""

    def __init__(self, location: Location, gauges: DatabaseGauges) -> None:
        """Read these of this database."""
        self._location = location
        self._gauges = gauges
        self._reading = asyncio.Lock()
        self._outage = Outage("Measuring the database", logger)

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
                found = await asyncio.to_thread(self.read)
            except RowbusError as error:
                self._outage.failed(error)
                return unreachable(error)
            self._outage.succeeded()
            return found
