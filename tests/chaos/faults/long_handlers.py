"""Faults of programs whose handlers take long: killed, frozen, cut off, or their server is started again.

A fault measures how soon others have what the lost one had, and sees it refused when it comes back.
"""

from __future__ import annotations

import os
import signal
import time
from contextlib import suppress
from typing import TYPE_CHECKING

import psycopg

from tests.chaos.faults.fault import LEADER_LOST, QUIET, Fault, Site
from tests.chaos.faults.network import FarMachine
from tests.chaos.processes import await_that, rowbus

if TYPE_CHECKING:
    from tests.chaos.processes import Program
    from tests.chaos.system import System

PROGRAMS = ("long 1", "long 2")
KINDS = "long command event delayed published command event process"
HELD = """select count(*) from "Long.Running" where process like %s and (lease > clock_timestamp() or %s)"""
REFUSED = "another process has it"
RUNNING = """select from "Long.Running" having count(*) <= 60"""
"""The survivor can take all that the other has: more than a hundred would wait for the end of others."""
PATIENCE = 40.0
"""Seconds, at most, to be taken over; the checker says what is too long."""


class _Long(Fault):
    """Two processes run handlers that take long, beside everything else."""

    limit = LEADER_LOST
    rounds = 2
    waits = True

    def prepare(self, site: Site, system: System) -> None:
        system.rate = min(system.rate, QUIET)
        system.environment["CHAOS_KINDS"] = KINDS

    def started(self, system: System) -> None:
        for name in PROGRAMS:
            system.launch(name, rowbus("run", "tests.chaos.programs.long:long"))
        for name in PROGRAMS:
            self._await_work(system, system.programs[name])

    def _victim(self, system: System) -> Program:
        """Give one of the two, when both are at work and the other can take over all of it."""
        await_that(lambda: system.sees(RUNNING), "fewer messages in hand", 3 * PATIENCE)
        for name in PROGRAMS:
            self._await_work(system, system.programs[name])
        return system.programs[system.moments.choice(PROGRAMS)]

    def _await_work(self, system: System, program: Program) -> None:
        await_that(lambda: _held(system, program, alive=True), f"work of {program.name}")

    def _taken_over(self, system: System, lost: Program) -> None:
        """Wait until others have all that a program has, and note how long that took."""
        begin = time.time()
        with suppress(TimeoutError):
            await_that(lambda: _held(system, lost) == 0, "the take-over", PATIENCE)
        system.waits.append(time.time() - begin)

    def _refused(self, lost: Program, before: int) -> None:
        """Wait until it is told that it has come too late."""
        await_that(lambda: lost.text().count(REFUSED) > before, f"{lost.name} to be refused")


class LongKill(_Long):
    """One of them is killed, and started again when the other has its messages."""

    name = "long-kill"

    def strike(self, system: System) -> None:
        lost = self._victim(system)
        lost.signal(signal.SIGKILL)
        self._taken_over(system, lost)
        lost.restart()


class LongFreeze(_Long):
    """One of them is frozen (SIGSTOP) until the other has its messages, and goes on as if nothing had happened."""

    name = "long-freeze"

    def strike(self, system: System) -> None:
        lost = self._victim(system)
        before = lost.text().count(REFUSED)
        os.kill(lost.pid, signal.SIGSTOP)
        try:
            self._taken_over(system, lost)
        finally:
            os.kill(lost.pid, signal.SIGCONT)
        self._refused(lost, before)


class LongCut(_Long):
    """The machine of one of them is cut off until the other has its messages: its handlers go on meanwhile."""

    name = "long-cut"

    def prepare(self, site: Site, system: System) -> None:
        super().prepare(site, system)
        self.machine = FarMachine(site, system, PROGRAMS[:1])

    def strike(self, system: System) -> None:
        self._victim(system)
        lost = system.programs[PROGRAMS[0]]
        before = lost.text().count(REFUSED)
        self.machine.cut()
        self._taken_over(system, lost)
        system.pause()
        self.machine.mend()
        self._refused(lost, before)


class LongRestart(_Long):
    """The server is stopped at once (SIGQUIT), and started again: their handlers run on meanwhile."""

    name = "long-restart"

    def prepare(self, site: Site, system: System) -> None:
        super().prepare(site, system)
        self.server = site.server

    def strike(self, system: System) -> None:
        self._victim(system)
        with system.outage():
            self.server.stop(signal.SIGQUIT)
            system.pause()
            self.server.start()
        system.await_progress()


def _held(system: System, program: Program, *, alive: bool = False) -> int:
    """Count the messages that a program has; those whose lease goes on, if they are to be alive."""
    with suppress(psycopg.Error), system.connect() as connection:
        row = connection.execute(HELD, (f"%/{program.pid}", not alive)).fetchone()
        return 0 if row is None else int(row[0])
    return 0 if alive else 1
