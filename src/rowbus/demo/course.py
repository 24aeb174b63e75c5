"""One run of the demo, from the file to the verdict.

Invariant: however the run ends (by itself, by an error, by Ctrl-C at any moment), no process is left behind.
"""

from __future__ import annotations

import json as json_format
import logging
import tempfile
import time
from contextlib import closing
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from rich.console import Console

from rowbus.database.backends import PostgresDatabase, open_postgresql
from rowbus.database.location import resolve_dsn
from rowbus.demo.analytics import ARCHIVER, REPLICA, REPLICATOR
from rowbus.demo.books import CONSUMER, LOG
from rowbus.demo.installation import install
from rowbus.demo.messages import ADDRESSES, SCHEMA
from rowbus.demo.partners import GatewayDownError
from rowbus.demo.processes import ENDPOINTS, Workers, run_analytics, signals_as_interrupt
from rowbus.demo.progress import Watch, watching
from rowbus.demo.report import show
from rowbus.demo.statements import ask, run_script
from rowbus.demo.summary import Analysed, Summary, summarize
from rowbus.demo.web_shop import WebShop, count_lines, read_lines
from rowbus.errors import ConfigurationError, RowbusError
from rowbus.log.consumers.table import ConsumerTable
from rowbus.spark.java import provide_java
from rowbus.spark.pipelines.replica_copy import ReplicaPlan, copy_tables
from rowbus.transport.recoverability.error_queue import ErrorQueue
from rowbus.transport.recoverability.failed_message import Selection

if TYPE_CHECKING:
    from rowbus.database.sessions import Session

PASSED, FAILED, BAD_USAGE, INTERRUPTED = 0, 1, 2, 130
READY_SECONDS = 30.0
STUCK_SECONDS = 30.0
POLL_SECONDS = 0.02


class Asked(NamedTuple):
    """What the demo was asked for."""

    orders: Path
    database: str | None
    workers: int
    spark: bool | None


def run(asked: Asked, *, json: bool) -> int:
    """Run the demo and return its exit code; see `rowbus.demo.main`."""
    talk = Console(stderr=True, highlight=False)
    # Interrupted in the middle of a transaction, the driver warns that it cannot end it. Its connection ends it.
    logging.getLogger("psycopg").setLevel(logging.ERROR)
    received: list[int] = []
    try:
        with signals_as_interrupt() as received:
            summary = _run(asked, talk)
    except KeyboardInterrupt:
        return _interrupted(talk)
    except Exception as error:
        if received:  # an interrupt in the middle of something may come out as another error
            return _interrupted(talk)
        if not isinstance(error, RowbusError):
            raise
        talk.print(f"rowbus demo: {error}", style="red", markup=False, soft_wrap=True)
        return BAD_USAGE if isinstance(error, ConfigurationError) else FAILED
    _present(summary, json=json)
    return PASSED if summary.passed else FAILED


def _interrupted(talk: Console) -> int:
    talk.print(
        f"Interrupted; all processes have ended. What was done is in the schema {SCHEMA}.", soft_wrap=True
    )
    return INTERRUPTED


def _run(asked: Asked, talk: Console) -> Summary:
    began = time.monotonic()
    lines = count_lines(asked.orders)
    with_spark = _has_spark(asked.spark, talk)
    talk.print(f"Rowbus demo: {lines:,} lines of {asked.orders}", markup=False, soft_wrap=True)
    dsn = resolve_dsn(asked.database)
    server = open_postgresql(dsn, application_name="rowbus demo")
    with server.session() as session:
        install(session)
        if with_spark:
            _prepare_analytics(server)
        folder = Path(tempfile.mkdtemp(prefix="rowbus-demo-"))
        talk.print(
            f"Database: {server.name}, schema {SCHEMA}. The endpoints log to {folder}",
            markup=False,
            soft_wrap=True,
        )
        with (
            Workers(dsn, workers=asked.workers, logs=folder) as endpoints,
            watching(session, talk, lines) as watch,
        ):
            _await_ready(session, endpoints)
            _work_through(session, asked.orders, endpoints, watch)
            _await_books(session, endpoints)
        analysed = _analyse(dsn, folder, talk) if with_spark else None
        return summarize(session, lines=lines, seconds=time.monotonic() - began, spark=analysed)


def _has_spark(asked: bool | None, talk: Console) -> bool:  # noqa: FBT001 - yes, no, or None: if it can
    """Say whether Spark takes part: as asked, or, if not asked, when it can."""
    lacking = _missing_for_spark() if asked is not False else None
    if lacking and asked:
        raise ConfigurationError(lacking)
    if lacking:
        talk.print(
            f"Without Spark, so nothing is archived and replicated. {lacking}", markup=False, soft_wrap=True
        )
    return asked is not False and not lacking


def _missing_for_spark() -> str | None:
    if find_spec("pyspark") is None or find_spec("pyarrow") is None:
        return 'Spark is not installed: pip install "rowbus[spark]"'
    try:
        provide_java()
    except ConfigurationError as error:
        return str(error)
    return None


def _prepare_analytics(server: PostgresDatabase) -> None:
    """Register Analytics with the log, and make the replica's tables, while the shop is still empty.

    From then on the log retains what Analytics has not read, and the replica is made of events alone.
    """
    with server.session() as session:
        session.run(ConsumerTable(LOG, ARCHIVER).register())
    plan = ReplicaPlan(LOG, REPLICATOR, REPLICATOR, REPLICA, None, again=True)
    copy_tables(server, server, plan, lambda _line: None)


def _analyse(dsn: str, folder: Path, talk: Console) -> Analysed:
    begun = time.monotonic()
    with closing(run_analytics(dsn, folder)) as lines:
        for line in lines:
            talk.print(line, markup=False, soft_wrap=True)
    return Analysed(str(folder / "archive"), str(folder / "report" / "report.html"), time.monotonic() - begun)


def _await_ready(session: Session, endpoints: Workers) -> None:
    """Wait until all endpoints wait for messages, so that the first orders do not measure how fast Python starts."""
    names = [f"rowbus {endpoint}" for endpoint in ENDPOINTS]
    deadline = time.monotonic() + READY_SECONDS
    while len(ask(session, "find_ready", names=names)) < len(names) and time.monotonic() < deadline:
        endpoints.check()
        time.sleep(POLL_SECONDS)


def _work_through(session: Session, orders: Path, endpoints: Workers, watch: Watch) -> None:
    """Send the orders and have them done, first those of the quiet hour, then the rush."""
    shop, lines = WebShop(session), read_lines(orders)
    for sending in (shop.quiet_hour(lines), shop.rush(lines)):
        for _line in sending:
            endpoints.check()
            watch.look()
        _await_end(shop.sent, endpoints, watch)
    if _put_back(session):
        watch.forget()
        _await_end(shop.sent, endpoints, watch)


def _put_back(session: Session) -> int:
    """Mend the broken bank and put the charges back that failed because of it; return how many.

    The same as `rowbus errors retry --exception GatewayDownError --schema rowbus_demo`, with a note for the checks.
    """
    errors = ErrorQueue(session, ADDRESSES.for_endpoint("error"))
    with session.transaction():
        run_script(session, "put_back")
        return errors.retry(Selection(exceptions=frozenset({GatewayDownError.__name__}))).moved.total()


def _await_end(sent: int, endpoints: Workers, watch: Watch) -> None:
    """Wait until nothing is left to do; or nothing moves any more, and the checks will say what."""
    while not watch.look().is_end(sent) and watch.still_for < STUCK_SECONDS:
        endpoints.check()
        time.sleep(POLL_SECONDS)


def _await_books(session: Session, endpoints: Workers) -> None:
    """Wait until Bookkeeping has booked everything; or too long, and the checks will say what is missing."""
    ((mark,),) = ask(session, "mark_end", log=LOG)
    deadline = time.monotonic() + STUCK_SECONDS
    while time.monotonic() < deadline and not ask(
        session, "find_booked", log=LOG, consumer=CONSUMER, mark=mark
    ):
        endpoints.check()
        time.sleep(POLL_SECONDS)


def _present(summary: Summary, *, json: bool) -> None:
    if json:
        print(json_format.dumps(summary.as_json(), indent=2))  # noqa: T201 - standard output is where the summary goes
    else:
        show(summary, Console())
