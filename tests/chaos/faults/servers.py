"""Faults of the server: sessions ended, stopped at once, lost to a standby, full, held back."""

from __future__ import annotations

import signal
import subprocess
import time
from contextlib import ExitStack, suppress
from typing import TYPE_CHECKING

import psycopg

from tests.chaos.faults.fault import BESIDE, QUIET, Fault, Site, Unavailable
from tests.chaos.server import open_folder

if TYPE_CHECKING:
    from tests.chaos.server import Server
    from tests.chaos.system import System

END_SESSIONS = """
    select pg_terminate_backend(pid) from pg_stat_activity
    where datname = 'chaos' and pid <> pg_backend_pid() and application_name <> 'chaos holder' and random() < %s
"""
AWAY = 4.0
"""Seconds without the standby."""
CROWDED = 3.0
"""Seconds in which no session can be had, or no page written."""


class KillBackend(Fault):
    """About a third of all sessions are ended, whatever they do."""

    name = "kill-backend"
    rounds = 6

    def strike(self, system: System) -> None:
        with system.connect() as connection:
            connection.execute(END_SESSIONS, (1 / 3,))
        system.pause()


class StopServer(Fault):
    """The server is stopped at once (SIGQUIT), and started again: it recovers as after a crash."""

    name = "stop-server"

    def prepare(self, site: Site, system: System) -> None:
        self.server = site.server

    def strike(self, system: System) -> None:
        with system.outage():
            self.server.stop(signal.SIGQUIT)
            self.server.start()
        system.await_progress()


class _Replicated(Fault):
    """The server has a synchronous standby, and programs find the primary in their list of hosts.

    An idle endpoint looks again after 10 s only, so that one that has stopped to LISTEN is found.
    """

    own_server = True
    company = "standby"

    def prepare(self, site: Site, system: System) -> None:
        self.pair = site.pair()
        system.environment["CHAOS_PEEK"] = "10"
        ports = (self.pair.primary.port, self.pair.standby.port)
        hosts = ",".join(f"127.0.0.1:{port}" for port in ports)
        system.dsn = f"postgresql://postgres@{hosts}/chaos?target_session_attrs=read-write"
        listed = ",".join("127.0.0.1" for _ in ports)
        system.other_dsn = (
            f"host={listed} port={','.join(map(str, ports))} user=postgres dbname=chaos"
            " target_session_attrs=read-write"
        )


class Failover(_Replicated):
    """The primary is lost for good; its synchronous standby is promoted."""

    name = "failover"
    rounds = 2

    def strike(self, system: System) -> None:
        with system.outage():
            self.pair.fail_over()
        system.direct = self.pair.standby.dsn()
        system.await_progress()
        self.pair.complete()


class StandbyAway(_Replicated):
    """The standby is away for 4 s: no commit returns, and nothing takes effect before it is back.

    Handlers end meanwhile that send nothing: a send notifies, and PostgreSQL has all that notify wait for each other.
    """

    name = "standby-away"
    is_strict = True
    rounds = 4
    waits = True

    def prepare(self, site: Site, system: System) -> None:
        super().prepare(site, system)
        system.rate = min(system.rate, QUIET)

    def strike(self, system: System) -> None:
        with system.post.letters(self.name) as letters:
            letters.publish(seconds=AWAY / 2)
        with system.outage(), self.pair.alone():
            system.pause()  # what was confirmed in time is there by then
            confirmed = system.newest()
            time.sleep(AWAY)  # long sleep: the fault's own length
            system.unconfirmed.update(system.positions(after=confirmed))
        system.await_progress()


class DiskFull(Fault):
    """The disk of the tables is full for a while: SQLSTATE 53100 wherever a table has to grow."""

    name = "disk-full"
    size = 96 * 2**20

    def prepare(self, site: Site, system: System) -> None:
        self.disk = open_folder(site.folder / "disk")
        done = subprocess.run(
            ["mount", "-t", "tmpfs", "-o", f"size={self.size},mode=0777", "tmpfs", str(self.disk)],  # noqa: S607
            check=False,
            capture_output=True,
            text=True,
        )
        if done.returncode:
            raise Unavailable(f"no small disk can be mounted here ({done.stderr.strip()})")
        site.closing.callback(self._remove, site.server)
        tables = open_folder(self.disk / "tables")
        site.server.own(tables)
        with psycopg.connect(site.server.dsn("postgres"), autocommit=True) as connection:
            connection.execute(f"create tablespace small location '{tables}'".encode())
            connection.execute("alter database chaos set tablespace small")

    def strike(self, system: System) -> None:
        ballast = self.disk / "ballast"
        with system.outage():
            with ballast.open("wb") as file, suppress(OSError):
                while True:
                    file.write(b"\0" * 2**16)
                    file.flush()
            time.sleep(CROWDED)  # long sleep: the fault's own length
            ballast.unlink()
        system.await_progress()

    def _remove(self, server: Server) -> None:
        with psycopg.connect(server.dsn("postgres"), autocommit=True) as connection:
            connection.execute("drop database if exists chaos with (force)")
            connection.execute("drop tablespace small")
        subprocess.run(["umount", "-l", str(self.disk)], check=False)  # noqa: S607 - where it is differs


class ConnectionsExhausted(Fault):
    """Others take every connection that the server has, while a third of ours are ended."""

    name = "connections-exhausted"

    def strike(self, system: System) -> None:
        with ExitStack() as held, system.connect() as control, system.outage():
            _take_all(system, held)
            control.execute(END_SESSIONS, (1 / 3,))
            until = time.monotonic() + CROWDED
            while time.monotonic() < until:
                _take_all(system, held)
                time.sleep(0.01)
        system.await_progress()


def _take_all(system: System, held: ExitStack) -> None:
    with suppress(psycopg.OperationalError):
        while True:
            held.enter_context(system.connect(application_name="chaos holder"))


class VacuumHeldBack(Fault):
    """An old snapshot is held all the time: vacuum removes nothing, and every look walks over the dead."""

    name = "vacuum-held-back"
    company = BESIDE
    spares = True

    def started(self, system: System) -> None:
        self.snapshot = system.connect()
        self.snapshot.execute("begin isolation level repeatable read")
        self.snapshot.execute("select pg_current_xact_id(), count(*) from effect")

    def finish(self, system: System) -> None:
        self.snapshot.close()
