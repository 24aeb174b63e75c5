"""Messages that end what handles them: they go to the error queue within their policy, and nothing else stops."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from tests.chaos.faults.fault import BESIDE, Fault, Site
from tests.chaos.processes import python

if TYPE_CHECKING:
    from tests.chaos.system import System


class Poison(Fault):
    """Every fortieth message is one; a round is a second or so of work."""

    kinds: ClassVar[tuple[str, ...]]
    rounds = 5
    rest = 60.0
    deaths: ClassVar[float] = 0.0
    """Seconds that the poisons of a round take until they are given up, because they end programs in turn."""

    def strike(self, system: System) -> None:
        """Let the system work; what it has to give up by then takes its time."""
        super().strike(system)
        self.rest += self.deaths

    def prepare(self, site: Site, system: System) -> None:
        system.poisons = list(self.kinds)


class PoisonConnection(Poison):
    """Its handler's statement ends its own session."""

    name = "poison-connection"
    company = BESIDE
    spares = True
    kinds = ("connection",)


class PoisonCrash(Poison):
    """Its handler ends its own process: programs start all the time."""

    name = "poison-crash"
    kinds = ("crash",)
    is_greedy = True
    deaths = 10.0  # two poisons, six deaths each, and two workers that need 1.5 s for one


class PoisonEvent(Poison):
    """Events whose handler ends its session, its process, or fails: programs start all the time here, too."""

    name = "poison-event"
    kinds = ("event-connection", "event-error", "event-crash")
    is_greedy = True

    def prepare(self, site: Site, system: System) -> None:
        super().prepare(site, system)
        for number in (
            1,
            2,
        ):  # `--workers` is for endpoints: a consumer that dies is its service manager's affair
            system.prefix[f"consumer {number}"] = python("-m", "tests.chaos.programs.service_manager")
