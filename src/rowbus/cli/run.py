"""`rowbus run`: serve an endpoint, in this process or in several, or the consumers of a log.

One worker runs here. For more, this process creates the queues and purges them if that is wanted, once, and then
supervises workers, which are this very command. Their environment says that they are workers, and what the connection
string is; a command line can be read by every user of the machine.

Invariant: SIGTERM and SIGINT drain, a second one or the end of `--drain` stops within seconds even if handlers block;
the exit code tells: 0 all that was in hand was finished, 1 it was not.
"""

from __future__ import annotations

import asyncio
import logging
import os
import sys
import tempfile
import threading
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from rowbus.cli.embedded import Embedded, require_consent
from rowbus.cli.options import Database, LogLines, Metrics, Verbose, load_runnable
from rowbus.cli.output import LogFormat, show_logs
from rowbus.cli.reload import RELOADED_VARIABLE, Reloader
from rowbus.cli.serving import listening_on, serve
from rowbus.database.backends import open_database
from rowbus.database.location import DATABASE_VARIABLE, resolve_dsn
from rowbus.endpoint import Endpoint
from rowbus.errors import RowbusError, StoreUnavailableError
from rowbus.running.critical import Alarm, Outage, log_lasting
from rowbus.running.signals import run_until_signalled
from rowbus.running.telemetry.service import FOLDER_VARIABLE, PERIOD, PROCESS, SOCKET, ToldWorkers
from rowbus.running.workers import Workers, follow_supervisor
from rowbus.transport.pauses.scale import WorkerScaling
from rowbus.transport.pauses.table import pauses_address
from rowbus.transport.queues.table import queue_table
from rowbus.transport.receiving.interrupted_messages import count_death

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from rowbus.cli.options import Runnable
    from rowbus.database.sessions import Database as Location
    from rowbus.running.telemetry.listener import Address
    from rowbus.settings import EndpointSettings

logger = logging.getLogger("rowbus.cli")

INTERRUPTION = 2.0  # seconds until an interrupted process ends, even if a thread blocks
WORKER_VARIABLE = "_ROWBUS_WORKER"  # in a worker's environment: its supervisor started it
STORE_PAUSE = 5.0  # seconds until a store that is away is tried again


Target = Annotated[
    str, typer.Argument(metavar="MODULE:NAME", help="An endpoint, a log, or a function that returns one.")
]
NoInstall = Annotated[bool, typer.Option("--no-install", help="Create no queues; fail if one is missing.")]
Concurrency = Annotated[
    int | None,
    typer.Option("--concurrency", min=1, help="Messages (or batches) each process works on at a time."),
]
BatchSize = Annotated[
    str | None,
    typer.Option("--batch-size", metavar="INTEGER|auto", help="Messages in one transaction, at most."),
]
Drain = Annotated[
    float | None,
    typer.Option(
        "--drain", min=0, metavar="SECONDS", help="Interrupt what is in hand so long after the first signal."
    ),
]

Reload = Annotated[
    bool,
    typer.Option("--reload", help="Start again when a .py file in this folder changes, for development."),
]


def run(  # noqa: PLR0913 - options, each by keyword
    target: Target,
    *,
    workers: Annotated[int, typer.Option("--workers", min=1, help="Processes that serve it.")] = 1,
    no_install: NoInstall = False,
    concurrency: Concurrency = None,
    batch_size: BatchSize = None,
    drain: Drain = None,
    reload: Reload = False,
    metrics: Metrics = None,
    log_format: LogLines = LogFormat.TEXT,
    embedded: Embedded = False,
    database: Database = None,
    verbose: Verbose = False,
) -> None:
    """Serve an endpoint, in one process or in several, or run the consumers of a log.

    SIGTERM or Ctrl-C has them finish what is in hand; a second signal, or the end of --drain, interrupts that. The
    endpoint is imported from the current directory too. With --workers, one that dies is replaced. The database is
    --database, else the endpoint's own, else ROWBUS_DATABASE, else the embedded server. That one is for development:
    without a terminal, ask for it with --embedded. Exit code 1: it could not start, or had to be interrupted.
    """
    if reload:
        show_logs(logging.DEBUG if verbose else logging.INFO, log_format)
        raise typer.Exit(0 if _reload(consent=embedded or sys.stdin.isatty()) else 1)
    if os.environ.pop(RELOADED_VARIABLE, None):
        follow_supervisor()
    if worker := os.environ.pop(WORKER_VARIABLE, None) is not None:  # what its handlers start is no worker
        follow_supervisor()
        database = os.environ[DATABASE_VARIABLE]
    endpoint = load_runnable(target)
    show_logs(logging.DEBUG if verbose else logging.INFO, log_format)
    if not isinstance(endpoint, Endpoint):
        _refuse_for_logs(no_install, workers > 1, concurrency, batch_size)
        endpoint.require_consumers()
        endpoint.database = database or endpoint.database
        require_consent(endpoint.database, given=embedded)
        raise typer.Exit(0 if _serve(endpoint, metrics, drain) else 1)
    endpoint.require_handlers()
    endpoint.database = database or endpoint.database
    require_consent(endpoint.database, given=embedded)
    settings = _as_asked(
        endpoint.settings, no_install=no_install, concurrency=concurrency, batch_size=batch_size
    )
    endpoint.settings = replace(
        settings,
        install=settings.install and not worker,
        purge_on_startup=settings.purge_on_startup and not worker,
    )
    if workers == 1:
        raise typer.Exit(0 if _serve(endpoint, metrics, drain) else 1)
    command = _worker_command(endpoint, target, log_format, verbose=verbose)
    clean = _supervise(endpoint, command, workers, listening_on(metrics), drain)
    raise typer.Exit(0 if clean else 1)


def _as_asked(
    settings: EndpointSettings, *, no_install: bool, concurrency: int | None, batch_size: str | None
) -> EndpointSettings:
    """Return an endpoint's settings as the options change them."""
    return replace(
        settings,
        install=settings.install and not no_install,
        concurrency=concurrency or settings.concurrency,
        batch_size=settings.batch_size if batch_size is None else _batch_size(batch_size),
    )


def _batch_size(text: str) -> int | Literal["auto"]:
    """Return what --batch-size says; raises for what is neither a number of messages nor `auto`."""
    if text == "auto":
        return "auto"
    if not text.isdecimal() or int(text) < 1:
        raise typer.BadParameter(f"--batch-size is {text}; give a number from 1, or auto.")
    return int(text)


def _reload(*, consent: bool) -> bool:
    """Serve by this command without --reload; it has no terminal, so a terminal's consent goes with it."""
    arguments = [one for one in sys.argv[1:] if one != "--reload"]
    reloader = Reloader(
        [*arguments, *(["--embedded"] if consent and "--embedded" not in arguments else [])], Path.cwd()
    )
    asyncio.run(run_until_signalled(reloader))
    return reloader.clean


def _refuse_for_logs(*options: object) -> None:
    """Raise for options that only endpoints have: a log's consumers have settings of their own."""
    if any(options):
        raise typer.BadParameter(
            "--workers, --no-install, --concurrency and --batch-size are for endpoints; the consumers of a log have "
            "their ConsumerSettings, and a second process of the same consumer stands by."
        )


# ------------------------------------------------------------------------------------------------------- one process


class _Serving:
    """An endpoint, or a log, that is served by this process and ends it when it does not stop by itself."""

    def __init__(self, endpoint: Runnable) -> None:
        self._endpoint = endpoint
        self.clean = True

    async def start(self) -> None:
        await self._endpoint.start()

    async def stop(self, timeout: float | None = None) -> None:  # noqa: ASYNC109 - a grace period
        stopping = asyncio.ensure_future(self._endpoint.stop(timeout))
        try:
            await asyncio.shield(stopping)
        except asyncio.CancelledError:  # seen here at once, though the endpoint may still wait
            self.clean = False
            _end_soon()
            stopping.cancel()
            await asyncio.wait([stopping])
            raise


def _serve(endpoint: Runnable, metrics: str | None, drain: float | None) -> bool:
    serving = _Serving(endpoint)
    serve(serving, metrics, drain)
    return serving.clean


def _end_soon() -> None:
    """End this process with code 1 after `INTERRUPTION`, also if a thread holds it up: Python waits for threads."""
    end = threading.Timer(INTERRUPTION, os._exit, (1,))
    end.daemon = True
    end.start()


# ------------------------------------------------------------------------------------------------- several processes


def _supervise(
    endpoint: Endpoint, command: list[str], count: int, address: Address | None, drain: float | None
) -> bool:
    dsn = endpoint.database = resolve_dsn(endpoint.database)
    asyncio.run(_install(endpoint))
    if endpoint.settings.purge_on_startup:
        _purge(endpoint, open_database(dsn))
    with tempfile.TemporaryDirectory(prefix="rowbus-") as folder:
        asked = {} if address is None else {FOLDER_VARIABLE: folder}
        workers = _workers(endpoint, command, dsn, count, asked)
        logger.info("Serving %s with %s workers", endpoint.name, count)
        serving = run_until_signalled(ToldWorkers(workers, address, folder), drain)
        asyncio.run(_scaled(endpoint, dsn, workers, serving))
    return workers.clean


async def _scaled(endpoint: Endpoint, dsn: str, workers: Workers, serving: Coroutine[Any, Any, None]) -> None:
    """Serve, with as many workers as an operator says."""
    names = endpoint.addresses
    if names.backend != "postgresql":
        await serving
        return
    alarm = Alarm(log_lasting(logger))
    scaling = WorkerScaling(open_database(dsn), pauses_address(names), endpoint.name, workers, alarm)
    await scaling.start()
    try:
        await serving
    finally:
        await scaling.stop(0)


def _workers(endpoint: Endpoint, command: list[str], dsn: str, count: int, asked: dict[str, str]) -> Workers:
    inherited = {name: value for name, value in os.environ.items() if name not in (SOCKET, PERIOD, PROCESS)}
    return Workers(
        command,
        inherited | {DATABASE_VARIABLE: dsn, WORKER_VARIABLE: "1"} | asked,
        count,
        partial(
            count_death,
            open_database(dsn),
            endpoint.parts.inputs,
            notify=endpoint.settings.notifications,
        ),
    )


async def _install(endpoint: Endpoint) -> None:
    """Create what is missing; wait for a delayed message store that is away, which workers could not set up."""
    outage = Outage("Creating what is missing", logger)
    while True:
        try:
            await endpoint.install()
        except StoreUnavailableError as error:
            outage.failed(error)
            await asyncio.sleep(STORE_PAUSE)
        else:
            outage.succeeded()
            return


def _worker_command(endpoint: Endpoint, target: str, log_format: LogFormat, *, verbose: bool) -> list[str]:
    settings = endpoint.settings
    command = [
        sys.executable,
        "-m",
        "rowbus",
        "run",
        target,
        f"--batch-size={settings.batch_size}",
        f"--log-format={log_format.value}",
    ]
    if settings.concurrency:
        command.append(f"--concurrency={settings.concurrency}")
    return [*command, "--verbose"] if verbose else command


def _purge(endpoint: Endpoint, database: Location) -> None:
    """Purge the endpoint's queues; that this fails is no reason not to serve them, as in a single process."""
    for address in endpoint.parts.inputs:
        try:
            with database.session() as session:
                purged = session.run(queue_table(address).purge())
            logger.info("%s messages purged from queue %s", purged, address)
        except RowbusError as error:
            logger.warning("Queue %s could not be purged: %s", address, error)
