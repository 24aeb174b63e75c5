"""Processes that are killed, at random moments: nothing of them is left to clean up."""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from typing import TYPE_CHECKING, ClassVar

from tests.chaos.faults.fault import LEADER_LOST, Fault
from tests.chaos.processes import await_that

if TYPE_CHECKING:
    from tests.chaos.system import System


AT_WORK = "Endpoint Work is receiving"
OFTEN = 2.5
"""So that a hundred rounds of everything have a thousand kills, in the four faults here."""


class KillWorker(Fault):
    """A worker of `rowbus run --workers` is killed; its supervisor replaces it, before the next is."""

    name = "kill-worker"
    rounds = 6
    often = OFTEN

    def strike(self, system: System) -> None:
        program = system.programs["work"]
        started = program.text().count(AT_WORK)
        with suppress(ProcessLookupError):
            os.kill(system.moments.choice(program.workers), signal.SIGKILL)
        await_that(lambda: program.text().count(AT_WORK) > started, "the worker's replacement")


class KillLeader(Fault):
    """The process that leads is killed and started again; the one that stood by takes over."""

    application: ClassVar[str]
    company = "leaders killed"
    limit = LEADER_LOST
    rounds = 4
    often = OFTEN

    def strike(self, system: System) -> None:
        program = system.program_of(system.leader(self.application))
        program.signal(signal.SIGKILL)
        system.replace(program)


class KillTicker(KillLeader):
    name = "kill-ticker"
    application = "rowbus ticker%"


class KillMover(KillLeader):
    name = "kill-mover"
    application = "rowbus mover%"


class KillConsumer(KillLeader):
    name = "kill-consumer"
    application = "rowbus chaos/%"
