"""A day on call: `python -m tests.web.day --faults` makes fourteen faults, and measures how long until each is said.

Real processes of the command line, a real Prometheus with the rules of deploy/ as they are, and the embedded server.
The faults stay while the page, the doctor, the alerts, the logs and /readyz are asked; the database goes away at the
end. A table of seconds is printed: `no` was to be said and was not, `-` cannot be said there. Some five minutes.

`--many` weighs the page beside 500 queues and a million messages: processor time a view, and memory. Some two minutes.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from threading import Event
from typing import Any, Final, LiteralString, NamedTuple

import httpx
import psycopg
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict, make_conninfo

import rowbus
from rowbus.database.backends import addresses_of, inspecting, open_database
from rowbus.errors import RowbusError
from rowbus.log.examination import examine, examine_logs
from rowbus.messages.headers import Header
from rowbus.sagas.stuck import examine_sagas
from rowbus.testing import temporary_database
from rowbus.transport.queues.catalog.table import catalog_of
from rowbus.transport.queues.diagnosis import Level
from tests.fixtures.command_line import CommandLine, Running, as_role
from tests.fixtures.places import ROOT
from tests.web.failures import ErrorQueue, text_of

SHOP: Final = """
from dataclasses import dataclass
from datetime import timedelta

import rowbus


@rowbus.command("Shop.Place")
@dataclass
class Place:
    order: str


once = rowbus.Recoverability(immediate=0, delayed=0)
sales = rowbus.Endpoint("Sales", recoverability=once)
billing = rowbus.Endpoint("Billing")


@sales.handler
async def place(message: Place, context: rowbus.Context) -> None:
    await context.send("Ledger", {"order": message.order}, type="Shop.Note")


@billing.handler
async def charge(message: Place) -> None: ...


log = rowbus.Log(None, "orders")


@log.consumer("revenue")
async def revenue(event: rowbus.Event) -> None: ...
"""
FULL: Final = """
create function full_disk() returns trigger language plpgsql as
$$ begin raise 'could not extend file: No space left on device' using errcode = 'disk_full'; end $$;
create trigger full_disk before insert on "Ledger" for each row execute function full_disk()
"""
MANY: Final = 200_000
APART: Final = 2.0  # seconds between two faults
PATIENCE: Final = 130.0  # seconds until an alert counts as not firing
HEAD: Final = "| fault | page | doctor | alert | log | /readyz |\n| --- | --- | --- | --- | --- | --- |\n"
CHANNELS: Final = ("page", "doctor", "alert", "log", "readyz")


@dataclass
class Fault:
    """A fault: what makes it, and by what each channel is known to say it; an empty text: it cannot."""

    name: str
    make: Callable[[Day], object]
    page: str = ""
    doctor: str = ""
    alert: str = ""
    log: tuple[str, str] = ("", "")
    readyz: str = ""
    path: str = "/"
    role: bool = False
    began: float = 0.0
    said: dict[str, float] = field(default_factory=dict[str, float])

    def expects(self, channel: str) -> bool:
        """Say whether a channel is to say it."""
        given = getattr(self, channel)
        return bool(given[0] if channel == "log" else given)

    @property
    def is_said(self) -> bool:
        """Whether all channels have said what they are to."""
        return all(channel in self.said for channel in CHANNELS if self.expects(channel))

    def row(self) -> str:
        """Return its line of the table."""
        cells = [
            f"{self.said[channel]:.0f}" if channel in self.said else "no" if self.expects(channel) else "-"
            for channel in CHANNELS
        ]
        return f"| {self.name} | {' | '.join(cells)} |"


def entered(web: Running, closing: ExitStack) -> httpx.Client:
    """Return a browser that a page has let in."""
    found = web.wait_for(r"lets one browser in at (http://[^/]+)(/\S+)")[0]
    page = httpx.Client(base_url=found[1], timeout=60, follow_redirects=True)
    closing.callback(page.close)
    assert page.get(found[2]).status_code == 200
    return page


class Day:
    """The system: a shop's processes, the page, Prometheus."""

    def __init__(self, dsn: str, folder: Path, closing: ExitStack) -> None:
        """Install and start everything."""
        self.dsn, self.folder, self._closing = dsn, folder, closing
        self.database = psycopg.connect(dsn, autocommit=True)
        closing.callback(self.database.close)
        self.command = CommandLine(dsn, folder)
        closing.callback(self.command.end)
        (folder / "shop.py").write_text(SHOP)
        self._install()
        self.role = self._make_role()
        self.role_dsn = as_role(dsn, self.role)
        self.running: dict[str, Running] = {}
        self.ports: dict[str, str] = {}
        self._start()
        self.page = self._enter()
        self._prometheus = self._start_prometheus()
        self.held: list[psycopg.Connection[Any]] = []

    def _install(self) -> None:
        for words in (
            "log install",
            "log create orders",
            "queue create Sales Billing Stock Ledger Web error audit",
            "schema install shop",
        ):
            done = self.command(*words.split())
            assert done.returncode == 0, done.stderr
        self.database.execute("select pgq.register_consumer('orders', 'revenue')")

    def _make_role(self) -> str:
        name = f"rowbus_test_{uuid.uuid4().hex[:8]}"
        self.database.execute(
            f'create role "{name}" login; grant pg_read_all_data, pg_monitor to "{name}"'.encode()
        )
        drop = f'drop owned by "{name}"; drop role "{name}"'
        self._closing.callback(lambda: self.database.execute(drop.encode()))
        return name

    def _start(self) -> None:
        at = ("--metrics", "127.0.0.1:0")
        started = {
            "ticker": self.command.start("ticker", *at),
            "sales": self.command.start("run", "shop:sales", *at),
            "billing": self.command.start("run", "shop:billing", *at),
            "revenue": self.command.start("run", "shop:log", *at),
            "metrics": self.command.start("metrics", "--listen", "127.0.0.1:0"),
            "poor metrics": self.command.start(
                "metrics", "--listen", "127.0.0.1:0", ROWBUS_DATABASE=self.role_dsn
            ),
        }
        for name, one in started.items():
            self.running[name] = one
            self.ports[name] = one.wait_for(r"http://127\.0\.0\.1:(\d+)/metrics")[0][1]

    def _enter(self) -> httpx.Client:
        web = self.running["web"] = self.command.start("web", "--port", "0")
        return entered(web, self._closing)

    def _start_prometheus(self) -> str:
        """Start it; return its address."""
        targets = json.dumps([f"127.0.0.1:{port}" for port in self.ports.values()])
        (self.folder / "prometheus.yml").write_text(
            "global: {scrape_interval: 5s, evaluation_interval: 5s}\n"
            f"rule_files: [{ROOT}/deploy/prometheus/rowbus.rules.yml]\n"
            f"scrape_configs: [{{job_name: rowbus, static_configs: [{{targets: {targets}}}]}}]\n"
        )
        log = (self.folder / "prometheus.log").open("w+")
        server = subprocess.Popen(
            [
                str(shutil.which("prometheus")),
                f"--config.file={self.folder}/prometheus.yml",
                f"--storage.tsdb.path={self.folder}/data",
                "--web.listen-address=127.0.0.1:0",
            ],
            stderr=log,
            cwd=self.folder,
        )
        self._closing.callback(log.close)
        self._closing.callback(server.wait)
        self._closing.callback(server.terminate)
        deadline = time.monotonic() + 60
        while not (
            found := re.search(r"Listening on.*?address=(127\.0\.0\.1:\d+)", Path(log.name).read_text())
        ):
            assert time.monotonic() < deadline, Path(log.name).read_text()
            time.sleep(0.05)
        return found[1]

    def settle(self) -> None:
        """Wait until the page has seen the endpoints, and Prometheus what is well."""
        deadline = time.monotonic() + 120
        while not re.search(r"Endpoints 2\b", self.shows("/")):
            assert time.monotonic() < deadline, self.shows("/")
        Event().wait(12)  # two scrapes

    # ------------------------------------------------------------------------------------------- what is asked

    def firing(self) -> str:
        """Return the alerts that fire, a line each."""
        answer = httpx.get(f"http://{self._prometheus}/api/v1/alerts", timeout=30).json()
        return "\n".join(
            f"{one['labels']['alertname']} {one['labels']}"
            for one in answer["data"]["alerts"]
            if one["state"] == "firing"
        )

    def shows(self, path: str) -> str:
        """Return what a page of the browser says."""
        return text_of(self.page.get(path).text)

    def found(self, *, role: bool = False) -> str:
        """Return what `rowbus doctor` finds that is not in order."""
        dsn = self.role_dsn if role else self.dsn
        try:
            with inspecting(open_database(dsn)) as session:
                findings = [*examine(session, catalog_of(addresses_of(dsn)), 10_000), *examine_logs(session)]
                findings += examine_sagas(session, catalog_of(addresses_of(dsn)))
        except RowbusError as error:
            return str(error)
        return "\n".join(
            f"{one.subject} {one.text}; {one.advice}" for one in findings if one.level is not Level.OK
        )

    def is_ready(self, name: str) -> bool:
        """Ask a process whether it is ready."""
        try:
            return httpx.get(f"http://127.0.0.1:{self.ports[name]}/readyz", timeout=10).is_success
        except httpx.HTTPError:
            return False

    # ------------------------------------------------------------------------------------------- faults

    def put(
        self, queue: str, *, sent: datetime, count: int = 1, headers: str = "", machine: str = ""
    ) -> None:
        """Put messages into a queue."""
        stamp = sent.strftime("%Y-%m-%d %H:%M:%S:%f Z")
        told = json.dumps(
            {
                Header.TIME_SENT: stamp,
                Header.ENCLOSED_MESSAGE_TYPES: "Shop.Place",
                Header.ORIGINATING_MACHINE: machine,
            }
        )
        query = sql.SQL(
            "insert into {} (id, headers, body) select gen_random_uuid(), %s, '{{}}' from generate_series(1, %s)"
        )
        self.database.execute(query.format(sql.Identifier(queue)), (headers or told, count))

    def kill(self, name: str) -> None:
        """Kill a process."""
        self.running[name].process.kill()

    def kill_billing(self) -> None:
        """Kill an endpoint, and send to it."""
        self.kill("billing")
        self.put("Billing", sent=datetime.now(UTC))

    def stop_ticker(self) -> None:
        """Kill the ticker, and append."""
        self.kill("ticker")
        self.database.execute("select pgq.insert_event('orders', 'placed', '{}')")

    def impoverish(self) -> None:
        """Take the rights of the role of `rowbus metrics`."""
        self.database.execute(sql.SQL("revoke pg_read_all_data from {}").format(sql.Identifier(self.role)))

    def fail(self) -> None:
        """Have messages fail."""
        errors = ErrorQueue(self.dsn)
        for number in range(50):
            errors.add(f"order-{number}")
        errors.connection.close()

    def hold_transaction(self) -> None:
        """Leave a transaction open."""
        holder = psycopg.connect(self.dsn, application_name="forgetful")
        holder.execute("select pg_current_xact_id()")
        self.held.append(holder)

    def fill_disk(self) -> None:
        """Have the server refuse to extend a queue's file."""
        self.database.execute(FULL)
        with psycopg.connect(self.dsn) as connection:
            rowbus.Client(connection).send("Sales", {"order": "A-17"}, type="Shop.Place")

    def miss(self) -> None:
        """Have a recurring message be due that nobody sends."""
        self.database.execute(NIGHTLY)

    def stick(self) -> None:
        """Have a saga's timeout be overdue, though its endpoint runs."""
        self.database.execute(STUCK)

    def use_up(self) -> None:
        """Take most of the server's connections."""
        ((limit,),) = self.database.execute("select current_setting('max_connections')::int").fetchall()
        used = "select count(*) from pg_stat_activity where backend_type = 'client backend'"
        while self.database.execute(used).fetchall()[0][0] < limit * 0.82:
            self.held.append(psycopg.connect(self.dsn, application_name="greedy"))

    def take_database_away(self) -> None:
        """Have the database refuse connections, and end those it has."""
        for one in self.held:
            one.close()
        self._allow_connections("false")

    def bring_database_back(self) -> None:
        """Undo that."""
        self._allow_connections("true")
        self.database = psycopg.connect(self.dsn, autocommit=True)

    def _allow_connections(self, allowed: LiteralString) -> None:
        name = str(conninfo_to_dict(self.dsn)["dbname"])
        change = sql.SQL("alter database {} allow_connections " + allowed).format(sql.Identifier(name))
        with psycopg.connect(make_conninfo(self.dsn, dbname="postgres"), autocommit=True) as elsewhere:
            elsewhere.execute(change)
            if allowed == "false":
                elsewhere.execute(
                    "select pg_terminate_backend(pid) from pg_stat_activity where datname = %s", (name,)
                )


NIGHTLY: Final = """
create table "Keeper.Recurring" (
    name text primary key, schedule text not null, next_due timestamptz not null, last_sent timestamptz
);
insert into "Keeper.Recurring" values ('nightly', 'every 9:00:00', now() - interval '40 seconds')
"""
STUCK: Final = """
create table "Sales.OrderSaga" (
    id uuid not null default gen_random_uuid() primary key, correlation text not null unique, state jsonb not null,
    version int not null, concurrency int not null, originator text, original_message_id text,
    timeouts jsonb not null, began timestamptz not null default now(), changed timestamptz not null default now()
);
insert into "Sales.OrderSaga" (correlation, state, version, concurrency, timeouts)
select 'A-17', '{}', 1, 1, jsonb_build_array(jsonb_build_object('id', 'x', 'due', now() - interval '90 seconds'))
"""


def faults() -> list[Fault]:
    """Return all but the last, in the order in which they are made."""
    now = datetime.now(UTC)
    return [
        Fault(
            "200,000 wait, nobody receives",
            lambda day: day.put("Stock", sent=datetime.now(UTC), count=MANY),
            page=r"Stock.*200,000 wait",
            doctor=r"Stock.*200,000 wait",
            alert=r"RowbusNobodyReceives.*Stock",
        ),
        Fault(
            "a receiver is killed",
            Day.kill_billing,
            page="Billing.{0,40}gone since",
            doctor='"Billing".*nobody receives',
            alert="RowbusProcessDown",
            readyz="billing",
        ),
        Fault(
            "the ticker is stopped",
            Day.stop_ticker,
            page="no ticker leads",
            doctor="ticker none leads|no ticker|none leads",
            alert="RowbusNoTicker",
            log=("revenue", "ick"),
            readyz="ticker",
        ),
        Fault(
            "`rowbus metrics` loses its rights",
            Day.impoverish,
            doctor="cannot read it",
            alert="RowbusQueueUnreadable",
            log=("poor metrics", "cannot read"),
            role=True,
        ),
        Fault(
            "failures stay",
            Day.fail,
            page="failed messages? in",
            path="/doctor",
            doctor="failed messages? in",
            alert="RowbusErrorQueueGrows",
        ),
        Fault(
            "the audit queue grows",
            lambda day: day.put("audit", sent=now - timedelta(days=8), count=10),
            page="only grows",
            path="/doctor",
            doctor="only grows",
            alert="RowbusAuditGrows",
        ),
        Fault(
            "a transaction stays open",
            Day.hold_transaction,
            page="forgetful",
            path="/doctor",
            doctor="forgetful",
            alert="RowbusTransactionOpen",
        ),
        Fault(
            "the disk is full",
            Day.fill_disk,
            page="disk is full",
            path="/doctor",
            doctor="the server's disk is full",
            alert="RowbusDiskFull",
            log=("sales", "the server's disk is full"),
            readyz="sales",
        ),
        Fault(
            "poison",
            lambda day: day.put("Sales", sent=now, headers="no headers"),
            page="MalformedHeadersError",
            path="/failed",
            doctor="failed messages? in",
            alert="RowbusErrorQueueGrows",
            log=("sales", "no headers|headers"),
        ),
        Fault(
            "a saga is stuck",
            Day.stick,
            page="sagas? (is|are) stuck",
            doctor="sagas? (is|are) stuck",
            alert="RowbusSagaStuck",
            log=("metrics", "stuck"),
            path="/doctor",
        ),
        Fault(
            "a recurring message is missed",
            Day.miss,
            page="nightly is due",
            path="/doctor",
            doctor="nightly is due",
            alert="RowbusRecurringMissed",
        ),
        Fault(
            "a clock is off",
            lambda day: day.put("Web", sent=datetime.now(UTC) + timedelta(hours=1), machine="web-3"),
            page="web-3",
            path="/doctor",
            doctor="web-3",
            alert="RowbusClockOff",
        ),
        Fault(
            "connections are used up",
            Day.use_up,
            page=r"connections \d+ of \d+ in use|\d+ of \d+ in use",
            path="/doctor",
            doctor=r"connections \d+ of \d+ in use",
            alert="RowbusConnectionsUsedUp",
        ),
    ]


def last_fault() -> Fault:
    """Return the one that hides the others."""
    return Fault(
        "the database is down",
        Day.take_database_away,
        page="cannot be reached",
        doctor="not currently accepting|cannot|failed",
        alert="RowbusDatabaseDown",
        log=("sales", "trying again"),
        readyz="sales",
    )


def watch(day: Day, watched: list[Fault]) -> None:
    """Make faults, some seconds apart, and ask each channel meanwhile, until all is said or patience ends."""
    ended = Event()

    def ask(once: Callable[[Day, list[Fault]], None]) -> None:
        while not ended.wait(0.2):
            once(day, [fault for fault in watched if fault.began])

    with ThreadPoolExecutor() as threads:
        asking = [threads.submit(ask, once) for once in (_ask_page, _ask_doctor, _ask_alerts, _ask_processes)]
        for fault in watched:
            fault.make(day)
            fault.began = time.monotonic()
            ended.wait(APART)
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline and not all(fault.is_said for fault in watched):
            ended.wait(1)
        ended.set()
        for one in asking:
            one.result()


def _ask_page(day: Day, watched: list[Fault]) -> None:
    unsaid = [fault for fault in watched if fault.page and "page" not in fault.said]
    for path in {fault.path for fault in unsaid}:
        shown = day.shows(path)
        for fault in unsaid:
            if fault.path == path and re.search(fault.page, shown):
                _say(fault, "page")


def _ask_doctor(day: Day, watched: list[Fault]) -> None:
    unsaid = [fault for fault in watched if fault.doctor and "doctor" not in fault.said]
    for role in {fault.role for fault in unsaid}:
        began, found = time.monotonic(), day.found(role=role)
        for fault in unsaid:
            if fault.role is role and fault.began <= began and re.search(fault.doctor, found):
                _say(fault, "doctor")


def _ask_alerts(day: Day, watched: list[Fault]) -> None:
    fire = day.firing()
    for fault in watched:
        if fault.alert and re.search(fault.alert, fire):
            _say(fault, "alert")


def _ask_processes(day: Day, watched: list[Fault]) -> None:
    for fault in watched:
        name, pattern = fault.log
        if name:
            day.running[name].tells("")
            if any(re.search(pattern, line) for line in day.running[name].lines):
                _say(fault, "log")
        if fault.readyz and "readyz" not in fault.said and not day.is_ready(fault.readyz):
            _say(fault, "readyz")


def _say(fault: Fault, channel: str) -> None:
    fault.said.setdefault(channel, time.monotonic() - fault.began)


def measured(folder: Path) -> Iterator[Fault]:
    """Make all faults, and yield each with what was said."""
    with ExitStack() as closing, temporary_database() as dsn:
        day = Day(dsn, folder, closing)
        day.settle()
        first = faults()
        watch(day, first)
        last = last_fault()
        try:
            watch(day, [last])
        finally:
            day.bring_database_back()
            closing.close()
        yield from (*first, last)


QUEUES: Final = 500
EACH: Final = 2_000  # messages
VISITS: Final = 20
FILLED: Final = (
    "insert into {} (id, headers, body) select gen_random_uuid(), %s, '{{}}' from generate_series(1, %s)"
)
VIEWS: Final = (
    "/",
    "/?page=2",
    "/?q=Queue-17",
    "/doctor",
    "/queue?name=%22public%22.%22Queue-17%22",
    "/failed",
    "/search?text=A-17",
    "/metrics",
)
SERVES: Final = "import sys; sys.argv = ['rowbus', 'web', '--port', '0']; from rowbus.cli import main; main()"


class Usage(NamedTuple):
    """The processor time that a process has used, in seconds, and the memory that it occupies, in bytes."""

    processor: float
    resident: int


def usage(pid: int) -> Usage:
    """Ask Linux what a process uses."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    ticks = int(fields[11]) + int(fields[12])
    return Usage(ticks / os.sysconf("SC_CLK_TCK"), int(fields[21]) * os.sysconf("SC_PAGESIZE"))


def fill(dsn: str, command: CommandLine) -> None:
    """Make 500 queues with a million messages, and no receiver."""
    names = [f"Queue-{number}" for number in range(QUEUES)]
    assert command("queue", "create", "error", *names).returncode == 0
    headers = json.dumps({Header.ENCLOSED_MESSAGE_TYPES: "Shop.Place"})
    with psycopg.connect(dsn, autocommit=True) as connection:
        for name in names:
            connection.execute(sql.SQL(FILLED).format(sql.Identifier(name)), (headers, EACH))


def weigh(folder: Path) -> Iterator[str]:
    """Measure the page beside 500 queues and a million messages: what it costs at rest, and for each view."""
    with ExitStack() as closing, temporary_database() as dsn:
        command = CommandLine(dsn, folder)
        closing.callback(command.end)
        fill(dsn, command)
        web = command.start_python(SERVES)
        page, pid = entered(web, closing), web.process.pid
        page.get("/")
        Event().wait(15)
        before = usage(pid)
        Event().wait(30)
        at_rest = usage(pid).processor - before.processor
        yield f"| at rest, 30 s | {at_rest * 1000:.0f} ms | {usage(pid).resident / 1e6:.0f} MB |\n"
        for path in VIEWS:
            before = usage(pid)
            for _ in range(VISITS):
                assert page.get(path).status_code == 200, path
            cost = (usage(pid).processor - before.processor) / VISITS
            yield f"| `{path}` | {cost * 1000:.0f} ms | {usage(pid).resident / 1e6:.0f} MB |\n"


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(prog="python -m tests.web.day", description=__doc__)
    wanted = parser.add_mutually_exclusive_group(required=True)
    wanted.add_argument("--faults", action="store_true", help="make the faults, and measure")
    wanted.add_argument(
        "--many", action="store_true", help="weigh the page beside 500 queues, a million messages"
    )
    given = parser.parse_args()
    if given.faults and shutil.which("prometheus") is None:
        raise SystemExit("Prometheus is not installed here, and the alerts are its.")
    folder = Path(tempfile.mkdtemp(prefix="rowbus-day-"))
    try:
        if given.many:
            sys.stdout.write("| view | processor | resident |\n| --- | --- | --- |\n")
            for line in weigh(folder):
                sys.stdout.write(line)
                sys.stdout.flush()
            return
        sys.stdout.write(HEAD)
        for fault in measured(folder):
            sys.stdout.write(f"{fault.row()}\n")
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
