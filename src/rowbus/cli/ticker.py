"""`rowbus ticker`: drive the logs of a database, as a daemon or, with --once, from cron.

Invariant: however many run, one leads and the others stand by; each says which it does.
"""

from __future__ import annotations

import logging
from dataclasses import asdict
from datetime import timedelta
from typing import TYPE_CHECKING, Annotated

import typer

from rowbus.cli.embedded import Embedded, require_consent
from rowbus.cli.options import Database, Json, LogLines, Metrics, Verbose
from rowbus.cli.output import LogFormat, complain, say, show_json, show_logs
from rowbus.cli.serving import serve
from rowbus.settings import TickerSettings

if TYPE_CHECKING:
    from rowbus.log.ticker.ticker import Pass

_DEFAULT = TickerSettings()

Once = Annotated[
    bool, typer.Option("--once", help="Tick what is due, make one pass of maintenance, and end; for cron.")
]
TickPeriod = Annotated[
    int | None,
    typer.Option(
        "--tick-period",
        min=10,
        metavar="MS",
        help="Milliseconds from an event to its tick, for logs that do not say it themselves.  [default: 50]",
    ),
]
Classic = Annotated[
    bool, typer.Option("--classic", help="Tick such logs as pgqd does, after their ticker_max_lag.")
]
MaintenancePeriod = Annotated[
    int | None,
    typer.Option(
        "--maintenance-period", min=1, metavar="S", help="Seconds between two rounds.  [default: 30]"
    ),
]
SilenceTimeout = Annotated[
    int | None,
    typer.Option(
        "--silence-timeout",
        min=1,
        metavar="S",
        help="Seconds after which one that leads and shows no sign of life is replaced.  [default: 10]",
    ),
]


def ticker(  # noqa: PLR0913 - options, each by keyword
    *,
    once: Once = False,
    as_json: Json = False,
    tick_period: TickPeriod = None,
    classic: Classic = False,
    maintenance_period: MaintenancePeriod = None,
    silence_timeout: SilenceTimeout = None,
    metrics: Metrics = None,
    log_format: LogLines = LogFormat.TEXT,
    embedded: Embedded = False,
    database: Database = None,
    verbose: Verbose = False,
) -> None:
    """Drive the logs of a database: ticks, retries, rotation.

    Serves until SIGTERM or Ctrl-C. Of several on one database one leads; another takes over when it ends. A stock pgqd
    may run as well. The embedded server is for development: without a terminal, ask for it with --embedded. Exit code
    1: the database could not be reached, or with --once something could not be done.
    """
    if classic and tick_period is not None:
        raise typer.BadParameter("give --tick-period or --classic, not both.")
    if as_json and not once:
        raise typer.BadParameter("--json is for --once.")
    require_consent(database, given=embedded)
    period = None if classic else _milliseconds(tick_period, _DEFAULT.tick_period)
    from rowbus.log.ticker.ticker import Ticker

    settings = TickerSettings(
        tick_period=period,
        maintenance_period=_seconds(maintenance_period, _DEFAULT.maintenance_period),
        silence_timeout=_seconds(silence_timeout, _DEFAULT.silence_timeout),
    )
    driver = Ticker(database, settings=settings)
    if once:
        _report(driver.run_once(), as_json=as_json)
    else:
        show_logs(logging.DEBUG if verbose else logging.INFO, log_format)
        serve(driver, metrics)


def _report(done: Pass, *, as_json: bool) -> None:
    """Say what one round did; failures are the exit code."""
    if as_json:
        show_json(_as_json(done))
    else:
        _tell(done)
    if done.failed or done.maintenance.failed:
        raise typer.Exit(1)


def _milliseconds(given: int | None, default: timedelta | None) -> timedelta | None:
    return default if given is None else timedelta(milliseconds=given)


def _seconds(given: int | None, default: timedelta) -> timedelta:
    return default if given is None else timedelta(seconds=given)


def _as_json(done: Pass) -> dict[str, object]:
    report = asdict(done.maintenance)
    failed = {**done.failed, **report.pop("failed")}
    return {"ticks": [tick._asdict() for tick in done.ticks], **report, "failed": failed}


def _tell(done: Pass) -> None:
    for tick in done.ticks:
        say(f"Tick {tick.tick} of {tick.log}.")
    report = done.maintenance
    if report.retried:
        say(f"Moved {report.retried} {'retry' if report.retried == 1 else 'retries'}.")
    for operation in report.operations:
        say(f"Did {operation}.")
    for table in report.analyzed:
        say(f"Analysed {table}.")
    if report.regenerated:
        say(f"Regenerated {report.regenerated} capture functions.")
    if not (done.ticks or report.retried or report.operations or report.analyzed or report.regenerated):
        say("Nothing was due.")
    for name, reason in {**done.failed, **report.failed}.items():
        complain(f"{name}: {reason}")
    for log, reason in report.blocked.items():
        complain(f"the tables of log {log} cannot be rotated: {reason}")
