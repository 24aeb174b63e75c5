"""One run: a fault on a system of its own, from an empty database to the verdict."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import psycopg

from tests.chaos.checker import Verdict, check
from tests.chaos.faults.fault import Fault, Site
from tests.chaos.history import History
from tests.chaos.server import Server, open_folder
from tests.chaos.system import System

SHARED_SERVER = "shared"


@dataclass(frozen=True, slots=True)
class Load:
    """How much of everything: strikes (None: as the fault says), seconds to work after the last, sends a second.

    `short`: half as many strikes as the fault says.
    """

    rounds: int | None = None
    seconds: float = 1.0
    rate: float = 40.0
    short: bool = False

    def strikes(self, fault: Fault) -> int:
        """Say how often a fault strikes."""
        if self.rounds is None:
            return max(1, fault.rounds // 2) if self.short else fault.rounds
        return round(self.rounds * fault.often)


class Harness:
    """Runs faults one after the other; they share a server unless they need one of their own."""

    history: History
    """Of the last run."""

    def __init__(self, folder: Path, load: Load) -> None:
        self._folder = folder
        self._load = load
        self._shared: Server | None = None

    def run(self, fault: Fault) -> Verdict:
        """Run one fault to its verdict."""
        again = len(list(self._folder.glob(f"{fault.name}*")))
        folder = open_folder(self._folder / (f"{fault.name} {again + 1}" if again else fault.name))
        with ExitStack() as closing:
            server = self._server(fault, folder, closing)
            system = System(folder, server.dsn(), rate=self._load.rate)
            system.limit = fault.limit
            closing.callback(system.end)
            fault.prepare(Site(folder, server, closing), system)
            system.install()
            system.start()
            self._strike(fault, system)
            system.rest(fault.rest)
            self.history = system.history()
            return check(self.history)

    def _strike(self, fault: Fault, system: System) -> None:
        fault.started(system)
        for _ in range(self._load.strikes(fault)):
            system.pause()
            fault.strike(system)
            system.strikes += 1
        system.pause(self._load.seconds, self._load.seconds)
        fault.finish(system)

    def _server(self, fault: Fault, folder: Path, closing: ExitStack) -> Server:
        if fault.own_server:
            server = Server(folder / "server")
            closing.callback(server.stop)
            server.initialise()
            server.start()
        else:
            server = self._shared = self._shared or self._start_shared()
        with psycopg.connect(server.dsn("postgres"), autocommit=True) as connection:
            connection.execute("drop database if exists chaos with (force)")
            connection.execute("create database chaos")
        return server

    def _start_shared(self) -> Server:
        server = Server(self._folder / SHARED_SERVER)
        server.initialise()
        server.start()
        return server

    def close(self) -> None:
        if self._shared is not None:
            self._shared.stop()


@contextmanager
def harness(load: Load, *, keep: bool = False) -> Iterator[Harness]:
    """Give a harness in a folder of its own, which is removed unless it is to be looked at."""
    folder = Path(tempfile.mkdtemp(prefix="rowbus-chaos-"))
    open_folder(folder)
    found = Harness(folder, load)
    try:
        yield found
    finally:
        found.close()
        if not keep:
            with suppress(OSError):
                shutil.rmtree(folder)
