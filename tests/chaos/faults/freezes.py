"""Processes that are frozen (SIGSTOP): they hold their connections and their locks, and do nothing."""

from __future__ import annotations

import os
import signal
import time
from contextlib import suppress
from typing import TYPE_CHECKING, ClassVar

from tests.chaos.faults.fault import LEADER_LOST, QUIET, Fault, Site
from tests.chaos.processes import await_that

if TYPE_CHECKING:
    from tests.chaos.system import System

FROZEN = 18.0
"""Seconds, at most: longer than a leader may be silent."""
LEAST = 2.0
"""Seconds, for what leads nothing."""


class Freeze(Fault):
    """The process that leads is frozen, and goes on when another has led for a moment, as if nothing had happened."""

    application: ClassVar[str]
    company = "frozen"
    limit = LEADER_LOST
    rounds = 1
    waits = True

    def prepare(self, site: Site, system: System) -> None:
        system.rate = min(system.rate, QUIET)

    def strike(self, system: System) -> None:
        victim = self.victim(system)
        os.kill(victim, signal.SIGSTOP)
        try:
            time.sleep(LEAST)  # long sleep: the fault's own length
            with suppress(TimeoutError):  # the checker will say what stood still
                await_that(lambda: not system.is_leading([victim]), "another to lead", FROZEN - LEAST)
            system.await_progress()
            system.pause()
        finally:
            os.kill(victim, signal.SIGCONT)
        system.await_progress()

    def victim(self, system: System) -> int:
        return system.leader(self.application)


class FreezeTicker(Freeze):
    name = "sigstop-ticker"
    application = "rowbus ticker%"


class FreezeConsumer(Freeze):
    name = "sigstop-consumer"
    application = "rowbus chaos/%"


class FreezeMover(Freeze):
    name = "sigstop-mover"
    application = "rowbus mover%"


class FreezeWorker(Freeze):
    """A worker is frozen; it may lead the movers of its endpoint's delayed retries."""

    name = "sigstop-worker"

    def victim(self, system: System) -> int:
        return system.moments.choice(system.programs["work"].workers)
