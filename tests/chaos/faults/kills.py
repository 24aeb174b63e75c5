"""Processes that are killed, at random moments: nothing of them is left to clean up."""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from typing import TYPE_CHECKING, ClassVar

from tests.chaos.faults.fault import Fault

if TYPE_CHECKING:
    from tests.chaos.system import System


class KillWorker(Fault):
    """A worker of `rowbus run --workers` is killed; its supervisor replaces it."""

    name = "kill-worker"
    rounds = 6

    def strike(self, system: System) -> None:
        victims = system.programs["work"].workers
        with suppress(ProcessLookupError):
            os.kill(system.moments.choice(victims), signal.SIGKILL)
        system.pause()


class KillLeader(Fault):
    """The process that leads is killed and started again; the one that stood by takes over."""

    application: ClassVar[str]
    rounds = 4

    def strike(self, system: System) -> None:
        program = system.program_of(system.leader(self.application))
        program.signal(signal.SIGKILL)
        program.restart()
        system.await_progress()


class KillTicker(KillLeader):
    name = "kill-ticker"
    application = "rowbus ticker%"


class KillMover(KillLeader):
    name = "kill-mover"
    application = "rowbus mover%"


class KillConsumer(KillLeader):
    name = "kill-consumer"
    application = "rowbus chaos/%"
