"""What happens to who has lanes with order: killed, frozen and woken late, cut off; and others come and go.

The checker knows in which order the sends of each key were committed, and how long each key stood still.
"""

from __future__ import annotations

import os
import signal
import time
from contextlib import suppress
from typing import TYPE_CHECKING, LiteralString

from tests.chaos.faults.fault import QUIET, Fault, Site
from tests.chaos.faults.kills import OFTEN
from tests.chaos.faults.network import FarMachine
from tests.chaos.history import KEYED, KEYS
from tests.chaos.processes import await_that, python, rowbus

if TYPE_CHECKING:
    from tests.chaos.system import System

FAR, NEAR = "lanes 1", "lanes 2"
"""The programs: of one process, and of two."""
KINDS = "keyed command keyed-event event keyed delayed keyed-event published keyed process keyed-event"
"""Eleven, so that each key gets messages and events: a length with a factor of `KEYS` leaves some without."""
AT_WORK = "Endpoint Lanes is receiving"
PATIENCE = 40.0
"""Seconds, at most, until each key goes on; the checker says what is too long."""
EACH_KEY: LiteralString = """
    select from effect
    where stage like 'keyed%' and position > {}
    group by stage, number / 2 % {}
    offset {} limit 1
"""


class _Lanes(Fault):
    """Three processes share the lanes of an endpoint, beside everything else."""

    company = "lanes"
    limit = 10.0
    rounds = 2

    def prepare(self, site: Site, system: System) -> None:
        system.rate = min(system.rate, QUIET)
        system.environment["CHAOS_KINDS"] = KINDS
        system.more_to_install = [
            rowbus("log", "create", "keys"),
            rowbus("schema", "install", "tests.chaos.programs.lanes:lanes"),
        ]
        program = python("-m", "tests.chaos.programs.lanes")
        system.more_endpoints = {FAR: [*program, "1"], NEAR: [*program, "2"]}

    def started(self, system: System) -> None:
        _await_each_key(system)

    def victim(self, system: System) -> int:
        processes = [pid for name in (FAR, NEAR) for pid in system.programs[name].workers]
        return system.moments.choice(processes)


class LaneKill(_Lanes):
    """One of them is killed, and another takes its place at once."""

    name = "lane-kill"
    rounds = 4
    often = OFTEN

    def strike(self, system: System) -> None:
        _come_again(system, self.victim(system), signal.SIGKILL)


class LaneJoin(_Lanes):
    """One of them leaves (SIGTERM), and another comes: lanes move twice."""

    name = "lane-join"

    def strike(self, system: System) -> None:
        _come_again(system, self.victim(system), signal.SIGTERM)


class LaneFreeze(_Lanes):
    """One of them is frozen (SIGSTOP) until all keys have gone on without it, and is woken in the midst of its work."""

    name = "lane-freeze"
    rounds = 1
    waits = True

    def strike(self, system: System) -> None:
        victim = self.victim(system)
        os.kill(victim, signal.SIGSTOP)
        try:
            time.sleep(system.moments.uniform(1, 6))  # long sleep: some are woken before they are given up
            _await_each_key(system)
        finally:
            os.kill(victim, signal.SIGCONT)
        _await_each_key(system)


class LaneCut(_Lanes):
    """The machine of one of them is cut off until all keys have gone on without it."""

    name = "lane-cut"
    company = ""
    rounds = 1
    waits = True

    def prepare(self, site: Site, system: System) -> None:
        super().prepare(site, system)
        self.machine = FarMachine(site, system, [FAR])

    def strike(self, system: System) -> None:
        self.machine.cut()
        _await_each_key(system)
        system.pause()
        self.machine.mend()
        _await_each_key(system)


def _come_again(system: System, victim: int, number: signal.Signals) -> None:
    def at_work() -> int:
        return sum(system.programs[name].text().count(AT_WORK) for name in (FAR, NEAR))

    before = at_work()
    os.kill(victim, number)
    await_that(lambda: at_work() > before, "another process with lanes")


def _await_each_key(system: System) -> None:
    query = EACH_KEY.format(system.newest(), KEYS, len(KEYED) * KEYS - 1)
    with suppress(TimeoutError):  # the checker will say what stood still
        await_that(lambda: system.sees(query), "each key to go on", PATIENCE)
