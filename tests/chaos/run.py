"""One run: a fault, or several in turn, on a system of their own, from an empty database to the verdicts."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
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
    """Amounts: strikes (None: as the fault says), seconds to work after the last, sends a second.

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

    def run(self, *faults: Fault) -> list[Verdict]:
        """Run one fault to its verdict, or several on one system, each to its own: what is healthy is common to all."""
        folder = self._empty_folder(faults[0].company if len(faults) > 1 else faults[0].name)
        with ExitStack() as closing:
            server = self._server(faults, folder, closing)
            system = System(folder, server.dsn(), rate=self._load.rate)
            closing.callback(system.end)
            site = Site(folder, server, closing)
            for fault in faults:
                fault.prepare(site, system)
            system.install()
            system.start()
            self._strike(faults, system)
            system.rest(max(fault.rest for fault in faults))
            self.history = system.history()
        return [check(self._part(fault)) for fault in faults]

    def _empty_folder(self, name: str) -> Path:
        again = len(list(self._folder.glob(f"{name}*")))
        return open_folder(self._folder / (f"{name} {again + 1}" if again else name))

    def _strike(self, faults: Sequence[Fault], system: System) -> None:
        for fault in faults:
            fault.started(system)
        if all(fault.spares for fault in faults):
            system.spare()
        for fault in self._turns(faults):
            system.pause()
            fault.strike(system)
        system.pause(self._load.seconds, self._load.seconds)
        for fault in faults:
            fault.finish(system)

    def _turns(self, faults: Sequence[Fault]) -> Iterator[Fault]:
        """Give the faults in turn, each as often as it is to strike."""
        times = [self._load.strikes(fault) for fault in faults]
        for number in range(max(times)):
            yield from (fault for fault, most in zip(faults, times, strict=True) if number < most)

    def _part(self, fault: Fault) -> History:
        """Give what a fault is judged by."""
        return replace(
            self.history.part(fault.name),
            strikes=self._load.strikes(fault),
            limit=fault.limit,
            is_strict=fault.is_strict,
        )

    def _server(self, faults: Sequence[Fault], folder: Path, closing: ExitStack) -> Server:
        if any(fault.own_server for fault in faults):
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
