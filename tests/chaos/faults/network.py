"""Faults of the network: stalled, reset, cut without a word, slow; and poolers in between."""

from __future__ import annotations

import shutil
import signal
import subprocess
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, ClassVar

import psycopg

from rowbus.database.embedded.directories import server_account
from tests.chaos.faults.fault import LEADER_LOST, QUIET, Fault, Site, Unavailable
from tests.chaos.processes import await_that
from tests.chaos.proxy import Proxy
from tests.chaos.server import free_port, open_folder
from tests.chaos.system import STANDING_BY

if TYPE_CHECKING:
    from tests.chaos.system import System

STALLED = 8.0
CUT = 20.0
"""Seconds, at most."""
LEADERS = ("rowbus ticker%", "rowbus chaos/%", "rowbus mover%")
PGBOUNCER = shutil.which("pgbouncer", path="/usr/sbin:/usr/bin:/usr/local/bin")
INI = """
[databases]
chaos = host=127.0.0.1 port={server} dbname=chaos user=postgres

[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {port}
unix_socket_dir =
auth_type = any
pool_mode = {mode}
default_pool_size = 60
server_lifetime = 5
logfile = {folder}/log
"""


class _Proxied(Fault):
    delay: ClassVar[float] = 0.0

    def prepare(self, site: Site, system: System) -> None:
        self.proxy = Proxy(site.server.port, delay=self.delay)
        site.closing.callback(self.proxy.close)
        system.dsn = system.dsn.replace(str(site.server.port), str(self.proxy.port))


class StalledProxy(_Proxied):
    """For 8 s nothing passes in either direction, and nobody is told."""

    name = "stalled-proxy"
    waits = True

    def strike(self, system: System) -> None:
        with system.outage():
            self.proxy.stall()
            time.sleep(STALLED)  # long sleep: the fault's own length
            self.proxy.flow()
        system.await_progress()


class ResetNetwork(_Proxied):
    """Every connection is reset, and new ones are refused for a second."""

    name = "reset-network"

    def strike(self, system: System) -> None:
        with system.outage():
            self.proxy.cut()
            time.sleep(1)  # long sleep: the fault's own length
            self.proxy.mend()
        system.await_progress()


class SlowNetwork(_Proxied):
    """Every round trip takes 50 ms longer."""

    name = "slow-network"
    delay = 0.025

    def prepare(self, site: Site, system: System) -> None:
        super().prepare(site, system)
        system.rate = min(system.rate, 10.0)


class FarMachine:
    """Stands for a machine of its own, on which some programs run: its link may be cut, and nobody is told."""

    def __init__(self, site: Site, system: System, programs: Sequence[str]) -> None:
        """Have these programs run there. Raises Unavailable where there can be no name space."""
        space, net = f"chaos{free_port()}", free_port() % 250
        self._link, inner = f"c{space[5:]}h", f"c{space[5:]}n"
        site.closing.callback(_ip, "netns", "del", space)
        _ip("netns", "add", space, needed=True)
        _ip("link", "add", self._link, "type", "veth", "peer", "name", inner, "netns", space)
        site.closing.callback(_ip, "link", "del", self._link)
        _ip("addr", "add", f"10.213.{net}.1/30", "dev", self._link)
        self.mend()
        inside = ("-n", space)
        _ip(*inside, "addr", "add", f"10.213.{net}.2/30", "dev", inner)
        _ip(*inside, "link", "set", inner, "up")
        _ip(*inside, "link", "set", "lo", "up")
        system.prefix = {name: ["ip", "netns", "exec", space] for name in programs}
        system.far = dict.fromkeys(programs, system.direct.replace("127.0.0.1", f"10.213.{net}.1"))

    def cut(self) -> None:
        """Have what is sent lost, in both directions."""
        _ip("link", "set", self._link, "down")

    def mend(self) -> None:
        """Have it arrive again."""
        _ip("link", "set", self._link, "up")


class CutNetwork(Fault):
    """The machine of every leader is cut off until others have led for a moment: what is sent is lost, untold."""

    name = "cut-network"
    limit = LEADER_LOST
    rounds = 1
    waits = True

    def prepare(self, site: Site, system: System) -> None:
        system.rate = min(system.rate, QUIET)
        self.machine = FarMachine(site, system, ("ticker 1", "consumer 1", "mover 1"))

    def strike(self, system: System) -> None:
        self._lead(system)
        self.machine.cut()
        with suppress(TimeoutError):  # the checker will say what stood still
            await_that(
                lambda: all(self._leads(system, each, far=False) for each in LEADERS), "others to lead", CUT
            )
        system.await_progress()
        system.pause()
        self.machine.mend()
        system.await_progress()

    def _lead(self, system: System) -> None:
        """Have those lead that will be cut off: the others are started again after them."""
        others = [name.replace("1", "2") for name in system.prefix]
        for name in others:
            system.programs[name].signal(signal.SIGKILL)
        for application in LEADERS:
            await_that(lambda: self._leads(system, application), application)  # noqa: B023 - called at once
        for name in others:
            system.programs[name].restart()
        system.await_progress()
        for name in others:
            lines = system.programs[name]
            await_that(lambda: STANDING_BY in lines.text(), f"{name} to stand by")  # noqa: B023 - called at once

    def _leads(self, system: System, application: str, *, far: bool = True) -> bool:
        """Say whether a program that is to be cut off leads, or one that is not."""
        with suppress(psycopg.Error), system.connect() as connection:
            query = (
                "select from pg_stat_activity as a join pg_locks as l using (pid) where l.locktype = 'advisory'"
                " and l.granted and a.application_name like %s and (a.client_addr <> '127.0.0.1') = %s"
            )
            return connection.execute(query, (application, far)).rowcount > 0
        return False


def _ip(*arguments: str, needed: bool = False) -> None:
    done = subprocess.run(["ip", *arguments], check=False, capture_output=True, text=True)  # noqa: S607
    if done.returncode and needed:
        raise Unavailable(f"no network namespace can be made here ({done.stderr.strip()})")


class PgbouncerSession(Fault):
    """Programs go through PgBouncer in session mode, which is killed and started again."""

    name = "pgbouncer-session"
    mode: ClassVar[str] = "session"

    def prepare(self, site: Site, system: System) -> None:
        if PGBOUNCER is None:
            raise Unavailable("pgbouncer is not installed")
        self.folder = open_folder(site.folder / "pgbouncer")
        self.port = free_port()
        facts = {"server": site.server.port, "port": self.port, "mode": self.mode, "folder": self.folder}
        (self.folder / "ini").write_text(INI.format(**facts), "utf-8")
        server_account().own(self.folder)
        self.process = self._start()
        site.closing.callback(self._stop)
        system.dsn = system.dsn.replace(str(site.server.port), str(self.port))

    def strike(self, system: System) -> None:
        with system.outage():
            self._stop()
            self.process = self._start()
        system.await_progress()

    def _stop(self) -> None:
        self.process.kill()
        self.process.wait()

    def _start(self) -> subprocess.Popen[bytes]:
        assert PGBOUNCER is not None
        process = subprocess.Popen(
            [PGBOUNCER, "-q", self.folder / "ini"], stderr=subprocess.DEVNULL, **server_account().switch
        )
        await_that(self._answers, "pgbouncer")
        return process

    def _answers(self) -> bool:
        with suppress(psycopg.OperationalError):
            psycopg.connect(f"postgresql://postgres@127.0.0.1:{self.port}/chaos", connect_timeout=2).close()
            return True
        return False


class PgbouncerTransaction(PgbouncerSession):
    """The same in transaction mode; tickers and movers go to the server itself (docs/how-to/managed-servers.md)."""

    name = "pgbouncer-transaction"
    mode = "transaction"

    def prepare(self, site: Site, system: System) -> None:
        super().prepare(site, system)
        system.environment["CHAOS_POOLED"] = "1"
        system.far = {f"{name} {number}": system.direct for name in ("ticker", "mover") for number in (1, 2)}
