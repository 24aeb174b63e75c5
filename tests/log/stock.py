"""The stock tools of PgQ as processes: pgqd, and programs that use python3-pgq.

They are what a Debian system runs: pgqd from its own package, and the modules `pgq` and `skytools`, which are
installed for /usr/bin/python3 and not for us. Invariant: no process outlives its test; `StockTools.end` kills each by
its own id.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from tests.fixtures.processes import Program

PYTHON = Path("/usr/bin/python3")

# What the programs below begin with; the last argument is an ini file with a section named as the service.
BEGINNING = """
import sys
import pgq
"""

PRODUCER = (
    BEGINNING
    + """
import datetime, psycopg2
now = datetime.datetime.now(datetime.timezone.utc)
with psycopg2.connect(sys.argv[1]) as db, db.cursor() as curs:
    first = pgq.insert_event(curs, "q", "single", "one", "x1", "x2", "x3", "x4")
    rows = [{"ev_time": now, "ev_type": "bulk", "ev_data": str(n), "ev_extra1": None} for n in range(500)]
    pgq.bulk_insert_events(curs, rows, ["ev_time", "ev_type", "ev_data", "ev_extra1"], "q")
print("inserted", first)
"""
)

APPLY = """
    def process_event(self, db, ev):
        db.cursor().execute(
            "insert into applied values (%s, %s, %s, %s)", [ev.id, ev.type, ev.data, self.job_name]
        )
        if ev.data == "again" and ev.retry is None:
            ev.tag_retry(0)
"""
CONSUMER = (
    BEGINNING
    + """
class Applying(pgq.Consumer):
"""
    + APPLY
    + """
Applying("service", "db", sys.argv[1:]).start()
"""
)
COOP_CONSUMER = (
    BEGINNING
    + """
class Applying(pgq.CoopConsumer):
"""
    + APPLY
    + """
Applying("service", "db", sys.argv[1:]).start()
"""
)

APPLY_THERE = """
    def process_remote_batch(self, db, batch_id, event_list, dst_db):
        for ev in event_list:
            dst_db.cursor().execute(
                "insert into applied values (%s, %s, %s, %s)", [ev.id, ev.type, ev.data, self.job_name]
            )

    def _finish_batch(self, curs, batch_id, ev_list):
        if self.cf.getint("fail_once", 0) and not getattr(self, "failed", False):
            self.failed = True
            raise Exception("after the commit there, before the commit here")
        super()._finish_batch(curs, batch_id, ev_list)
"""
REMOTE_CONSUMER = (
    BEGINNING
    + """
class Applying(pgq.RemoteConsumer):
"""
    + APPLY_THERE
    + """
Applying("service", "db", "there", sys.argv[1:]).start()
"""
)
SERIAL_CONSUMER = (
    BEGINNING
    + """
class Applying(pgq.SerialConsumer):
"""
    + APPLY_THERE
    + """
Applying("service", "db", "there", sys.argv[1:]).start()
"""
)

CASCADE_ADMIN = """
import sys
from pgq.cascade.admin import CascadeAdmin
class Admin(CascadeAdmin):
    def init_optparse(self, parser=None):
        parser = super().init_optparse(parser)
        parser.add_option("--all", action="store_true")  # as londiste does: CascadeAdmin asks for it
        return parser
Admin("cascade_admin", "db", sys.argv[1:]).start()
"""
CASCADED_WORKER = """
import sys
from pgq.cascade.worker import CascadedWorker
class Worker(CascadedWorker):
    def connection_hook(self, dbname, db):
        if dbname == "db":  # as londiste does: a branch takes events from its worker alone
            db.cursor().execute("set session_replication_role = replica")
            db.commit()

    def process_remote_event(self, src_curs, dst_curs, ev):
        if ev.ev_type.startswith("pgq."):
            super().process_remote_event(src_curs, dst_curs, ev)
Worker("service", "db", sys.argv[1:]).start()
"""


class StockTools:
    """Starts the tools in one folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._started: list[Program] = []

    def ini(self, section: str, **options: object) -> Path:
        """Write an ini file; returns its path."""
        path = self._folder / f"{section}-{len(list(self._folder.iterdir()))}.ini"
        lines = [f"[{section}]", *(f"{name} = {value}" for name, value in options.items())]
        path.write_text("\n".join(lines) + "\n", "utf-8")
        return path

    def python(self, program: str, *arguments: str | Path) -> Program:
        """Start a program with the Python that has python3-pgq; skips the test where there is none."""
        if (
            not PYTHON.exists()
            or subprocess.run([PYTHON, "-c", "import pgq"], check=False, capture_output=True).returncode
        ):
            pytest.skip("python3-pgq is not installed for /usr/bin/python3 (Debian: python3-pgq)")
        path = self._folder / f"program{len(self._started)}.py"
        path.write_text(program, "utf-8")
        return self._start(PYTHON, path, *arguments)

    def done(self, program: str, *arguments: str | Path) -> list[str]:
        """Run a program to its end, which must be a good one; returns what it wrote."""
        running = self.python(program, *arguments)
        assert running.wait() == 0, "\n".join(running.lines)
        return running.lines

    def pgqd(self, dsn: str) -> Program:
        """Start PgQ's daemon for one database, with short periods; skips the test where it is not installed."""
        if (pgqd := shutil.which("pgqd")) is None:
            pytest.skip("pgqd is not installed (Debian: pgqd)")
        parts = conninfo_to_dict(dsn)
        database = parts.pop("dbname")
        base = " ".join(f"{name}={value}" for name, value in parts.items())
        periods = dict.fromkeys(("ticker_period", "retry_period", "maint_period", "check_period"), "0.05")
        return self._start(
            Path(pgqd),
            "-v",
            self.ini("pgqd", base_connstr=base, initial_database=database, database_list=database, **periods),
        )

    def end(self) -> None:
        """Kill those that are still running."""
        for program in self._started:
            if program.is_running:
                program.kill()

    def _start(self, *command: str | Path) -> Program:
        output = self._folder / f"output{len(self._started)}.log"
        with output.open("wb") as file:
            process = subprocess.Popen(
                [str(part) for part in command],
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
                cwd=self._folder,
                start_new_session=True,
            )
        self._started.append(Program(process, output))
        return self._started[-1]


def keywords(dsn: str) -> str:
    """Return a DSN as `name=value` pairs: what old tools read."""
    return make_conninfo(dsn, application_name="stock")
