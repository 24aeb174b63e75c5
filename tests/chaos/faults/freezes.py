"""Processes that are frozen (SIGSTOP): they hold their connections and their locks, and do nothing."""

from __future__ import annotations

import os
import signal
import time
from typing import TYPE_CHECKING, ClassVar

from tests.chaos.faults.fault import LEADER_LOST, Fault

if TYPE_CHECKING:
    from tests.chaos.system import System

FROZEN = 18.0
"""Seconds, which is longer than a leader may be silent."""


class Freeze(Fault):
    """The process that leads is frozen for 18 s, and goes on then as if nothing had happened."""

    application: ClassVar[str]
    limit = LEADER_LOST
    rounds = 1

    def strike(self, system: System) -> None:
        victim = self.victim(system)
        os.kill(victim, signal.SIGSTOP)
        try:
            time.sleep(FROZEN)  # long sleep: the fault's own length
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
