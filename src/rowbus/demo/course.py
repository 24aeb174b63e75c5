"""One run of the demo, from the file to the verdict.

Invariants: however the run ends (by itself, by an error, by Ctrl-C at any moment), no process is left behind; the demo
needs no page: without the extra `web` it goes on, and says so. Nothing is dropped that the demo did not make, and two
demos never run in one database.
"""

from __future__ import annotations

import json as json_format
import subprocess
import tempfile
import time
from contextlib import suppress
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from rich.console import Console

import rowbus
from rowbus.database.backends import PostgresDatabase, open_postgresql
from rowbus.database.location import resolve_dsn
from rowbus.demo.analytics import ARCHIVER, REPLICA, REPLICATOR
from rowbus.demo.books import CAPTURED, CONSUMER, LOG
from rowbus.demo.messages import ENDPOINTS, SCHEMA
from rowbus.demo.partners import GatewayDownError
from rowbus.demo.processes import Processes, signals_as_interrupt
from rowbus.demo.report import Analysis, Summary, Watch, show, summarize
from rowbus.demo.statements import ask, run_script, run_texts
from rowbus.demo.web_shop import WebShop, count_lines, read_lines
from rowbus.spark.pipelines.replica import ReplicaPlan, copy_tables
from rowbus.spark.runtimes import provide_java, without_spark

if TYPE_CHECKING:
    from collections.abc import Callable

    from rowbus.database.sessions import Session


def install(session: Session, processes: Processes) -> None:
    """Make schemas, queues, tables and views, and the log of the tables' changes, all new.

    Raises ConfigurationError when another demo runs in this database, or the demo did not make a schema of its names.
    """
    ((locked,),) = ask(session, "lock_demo")
    if not locked:
        raise rowbus.ConfigurationError(
            "Another demo is running in this database; wait for its end, or name another database."
        )
    for (schema,) in ask(session, "find_foreign"):
        raise rowbus.ConfigurationError(
            f"This database has a schema {schema!r} that the demo did not make; rename it, or name another database."
        )
    processes.run("Installation", "rowbus", "log", "install")
    with session.transaction():
        run_script(session, "drop")
        run_script(session, "tables")
        _make_queues(session)
        _capture(session)
        run_script(session, "views")


def _make_queues(session: Session) -> None:
    """Make the tables that the endpoints would make at their start, so that progress can be asked for from then on."""
    for endpoint in ENDPOINTS:
        run_texts(session, rowbus.endpoint_sql(endpoint, schema=SCHEMA))


def _capture(session: Session) -> None:
    """Have the changes of some tables written to the log, and register its reader, before anything changes."""
    ask(session, "create_log", log=LOG)
    ask(session, "register", log=LOG, consumer=CONSUMER)
    for table in CAPTURED:
        run_texts(session, rowbus.capture_sql(f"{SCHEMA}.{table}", LOG, arguments=["backup"]))


NAME = "Page"


def open_page(processes: Processes, talk: Console) -> subprocess.Popen[str] | None:
    """Start `rowbus web` at a port that is free, and say where; None without what it needs."""
    if find_spec("uvicorn") is None or find_spec("starlette") is None:
        talk.print("Without the operator's page, which needs the extra web.")
        return None
    page = processes.start(NAME, "rowbus", "web", "--port", "0", "--embedded", stdout=subprocess.PIPE)
    told = page.stdout.readline().strip() if page.stdout is not None else ""
    talk.print(told or "The operator's page did not start.", markup=False, soft_wrap=True)
    return page if told else None


def keep_open(page: subprocess.Popen[str], talk: Console) -> None:
    """Wait until Ctrl-C, or until the page ends by itself."""
    talk.print("The page stays open until Ctrl-C.")
    with suppress(KeyboardInterrupt):
        page.wait()


PASSED, FAILED, BAD_USAGE, INTERRUPTED = 0, 1, 2, 130
STUCK_SECONDS = 30.0
POLL_SECONDS = 0.02


class DemoOptions(NamedTuple):
    """The options of the demo."""

    orders: Path
    database: str | None
    workers: int
    spark: bool | None
    keep: bool = False


def run(asked: DemoOptions, *, json: bool) -> int:
    """Run the demo and return its exit code; see `rowbus.demo.main`."""
    talk = Console(stderr=True, highlight=False)
    received: list[int] = []
    try:
        with signals_as_interrupt() as received:
            summary = _run(asked, talk, partial(_tell, json=json))
    except KeyboardInterrupt:
        return _interrupted(talk)
    except Exception as error:
        if received:  # an interrupt in the middle of something may come out as another error
            return _interrupted(talk)
        if not isinstance(error, rowbus.RowbusError):
            raise
        talk.print(f"rowbus demo: {error}", style="red", markup=False, soft_wrap=True)
        return BAD_USAGE if isinstance(error, rowbus.ConfigurationError) else FAILED
    return PASSED if summary.passed else FAILED


def _tell(summary: Summary, *, json: bool) -> None:
    if json:
        print(json_format.dumps(summary.as_json(), indent=2), flush=True)  # noqa: T201 - this is where it goes
    else:
        show(summary, Console())


def _interrupted(talk: Console) -> int:
    talk.print(
        f"Interrupted; all processes have ended. What was done is in the schema {SCHEMA}.", soft_wrap=True
    )
    return INTERRUPTED


def _run(asked: DemoOptions, talk: Console, tell: Callable[[Summary], None]) -> Summary:
    began = time.monotonic()
    lines = count_lines(asked.orders)
    with_spark = _has_spark(asked.spark, talk)
    talk.print(f"Rowbus demo: {lines:,} lines of {asked.orders}", markup=False, soft_wrap=True)
    dsn = resolve_dsn(asked.database)
    server = open_postgresql(dsn, application_name="rowbus demo")
    folder = Path(tempfile.mkdtemp(prefix="rowbus-demo-"))
    with Processes(dsn, folder) as watching:
        with server.session() as session:
            with Processes(dsn, folder) as processes:
                install(session, processes)
                if with_spark:
                    _prepare_analytics(server)
                told = f"Database: {server.name}, schema {SCHEMA}. The endpoints log to {folder}"
                talk.print(told, markup=False, soft_wrap=True)
                page = open_page(watching, talk)
                _start(processes, asked.workers)
                _work_through(session, asked.orders, processes, Watch(session, talk, lines))
            analysed = _analyse(dsn, folder, talk) if with_spark else None
            summary = summarize(session, lines=lines, seconds=time.monotonic() - began, spark=analysed)
        tell(summary)
        if asked.keep and page is not None:
            keep_open(page, talk)
    return summary


def _has_spark(asked: bool | None, talk: Console) -> bool:  # noqa: FBT001 - yes, no, or None: if it can
    """Say whether Spark takes part: as asked, or, if not asked, when it can."""
    lacking = _missing_for_spark() if asked is not False else None
    if lacking and asked:
        raise rowbus.ConfigurationError(lacking)
    if lacking:
        told = f"Without Spark, so nothing is archived and replicated. {lacking}"
        talk.print(told, markup=False, soft_wrap=True)
    return asked is not False and not lacking


def _missing_for_spark() -> str | None:
    if find_spec("pyspark") is None or find_spec("pyarrow") is None:
        return without_spark()
    try:
        provide_java()
    except rowbus.ConfigurationError as error:
        return str(error)
    return None


def _prepare_analytics(server: PostgresDatabase) -> None:
    """Register Analytics with the log, and make the replica's tables, while the shop is still empty.

    From then on the log retains what Analytics has not read, and the replica is made of events alone.
    """
    with server.session() as session:
        ask(session, "register", log=LOG, consumer=ARCHIVER)
    plan = ReplicaPlan(LOG, REPLICATOR, REPLICATOR, REPLICA, None, again=True)
    copy_tables(server, server, plan, lambda _line: None)


def _start(processes: Processes, workers: int) -> None:
    for name in ENDPOINTS:
        target = f"rowbus.demo.{name.lower()}:endpoint"
        processes.start(name, "rowbus", "run", target, "--workers", str(workers))
    processes.start("Bookkeeping", "rowbus", "run", "rowbus.demo.books:log")
    processes.start("Ticker", "rowbus", "ticker")


def _work_through(session: Session, orders: Path, processes: Processes, watch: Watch) -> None:
    """Send the orders and have them done and booked: first those of the quiet hour, then the rush.

    Waits until nothing moves any more, at worst: the checks will say what is missing.
    """
    names = [
        f"rowbus {endpoint}" for endpoint in ENDPOINTS
    ]  # or the first orders measure how fast Python starts
    _wait(processes, lambda: len(ask(session, "find_ready", names=names)) == len(names))
    shop, lines = WebShop(session), read_lines(orders)
    for sending in (shop.quiet_hour(lines), shop.rush(lines)):
        for _line in sending:
            processes.check()
            watch.look()
        _await_end(shop.sent, processes, watch)
    if _put_back(session, processes):
        watch.forget()
        _await_end(shop.sent, processes, watch)
    ((mark,),) = ask(session, "mark_end", log=LOG)
    _wait(processes, lambda: bool(ask(session, "find_booked", log=LOG, consumer=CONSUMER, mark=mark)))


def _put_back(session: Session, processes: Processes) -> bool:
    """Mend the broken bank and put the charges back that failed because of it, as an operator does.

    What goes back is noted first, for the checks. Returns whether there was something.
    """
    ask(session, "mend_bank")
    noted = ask(session, "note_put_back")
    if noted:
        failed_so = ("--exception", GatewayDownError.__name__, "--schema", SCHEMA)
        processes.run("Operator", "rowbus", "errors", "retry", *failed_so)
    return bool(noted)


def _await_end(sent: int, processes: Processes, watch: Watch) -> None:
    while not watch.look().is_end(sent) and watch.still_for < STUCK_SECONDS:
        processes.check()
        time.sleep(POLL_SECONDS)


def _wait(processes: Processes, is_so: Callable[[], bool]) -> None:
    deadline = time.monotonic() + STUCK_SECONDS
    while not is_so() and time.monotonic() < deadline:
        processes.check()
        time.sleep(POLL_SECONDS)


def _analyse(dsn: str, folder: Path, talk: Console) -> Analysis:
    """Run Analytics to its end and show its lines as they come; raises ProcessEndedError if it fails."""
    began = time.monotonic()
    with Processes(dsn, folder) as processes:
        module = ("rowbus.demo.analytics", str(folder))
        local = str(folder / "spark")
        process = processes.start("Analytics", *module, stdout=subprocess.PIPE, SPARK_LOCAL_DIRS=local)
        for line in process.stdout or ():
            talk.print(line.rstrip(), markup=False, soft_wrap=True)
        if process.wait():
            processes.check()
    return Analysis(str(folder / "archive"), str(folder / "report" / "report.html"), time.monotonic() - began)
