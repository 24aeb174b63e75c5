"""A Spark driver that is killed, with its JVM and Python workers: started again it goes on from its checkpoint."""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING

from tests.chaos.faults.fault import QUIET, Fault, Site, Unavailable
from tests.chaos.processes import await_that, python

if TYPE_CHECKING:
    from tests.chaos.system import System

NAME = "driver"
KINDS = ("driven", "command", "delayed", "driven", "published", "process", "driven")
SEEN = "select from effect where stage = 'event in Spark' and number > {} limit 1"
NEWEST = "select coalesce(max(number), -1) from effect where stage = 'event in Spark'"
PATIENCE = 300.0
"""Seconds for Spark to start, or to start again, beside whatever else the machine does."""


class KillDriver(Fault):
    """Its query streams the log into a table, exactly once: the checker counts each event there, too."""

    name = "kill-driver"
    rounds = 3
    rest = PATIENCE
    is_short = False

    def prepare(self, site: Site, system: System) -> None:
        if find_spec("pyspark") is None:
            raise Unavailable("there is no Spark: install the extra `spark`")
        system.environment["CHAOS_KINDS"] = " ".join(KINDS)
        system.rate = min(system.rate, QUIET)
        system.prefix[NAME] = python(
            "-m", "tests.chaos.programs.service_manager"
        )  # Spark gives up a busy machine
        self._checkpoint = str(site.folder / "checkpoint")

    def started(self, system: System) -> None:
        system.launch(NAME, python("-m", "tests.chaos.programs.driver", self._checkpoint))
        self._await_another(system)

    def strike(self, system: System) -> None:
        driver = system.programs[NAME]
        driver.end()
        system.pause()
        driver.restart()
        self._await_another(system)

    def _await_another(self, system: System) -> None:
        """Wait until an event is in the table that was not there before."""
        with system.connect() as connection:
            (newest,) = connection.execute(NEWEST).fetchone() or (-1,)
        await_that(lambda: system.sees(SEEN.format(newest)), "the driver's next batch", PATIENCE)
