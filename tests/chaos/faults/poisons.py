"""Messages that end what handles them: they go to the error queue within their policy, and nothing else stops."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from tests.chaos.faults.fault import BESIDE, Fault, Site
from tests.chaos.processes import python

if TYPE_CHECKING:
    from tests.chaos.system import System


class Poison(Fault):
    """A round sends so many, in the midst of a second or so of other work."""

    messages: ClassVar[tuple[str, ...]] = ()
    events: ClassVar[tuple[str, ...]] = ()
    rounds = 5
    rest = 60.0
    deaths: ClassVar[float] = 0.0
    """Seconds that the poisons of a round take until they are given up, because they end programs in turn."""

    def strike(self, system: System) -> None:
        """Send them, and let the system work; what it has to give up by then takes its time."""
        with system.post.letters(self.name) as letters:
            for poison in self.messages:
                letters.send("poison", "Chaos.Command", poison=poison)
            for poison in self.events:
                letters.append("poison event", poison=poison)
        super().strike(system)
        self.rest += self.deaths


class PoisonConnection(Poison):
    """Its handler's statement ends its own session."""

    name = "poison-connection"
    company = BESIDE
    spares = True
    messages = ("connection",) * 2


class PoisonCrash(Poison):
    """Its handler ends its own process: programs start all the time."""

    name = "poison-crash"
    messages = ("crash",) * 2
    is_greedy = True
    deaths = 10.0  # two poisons, six deaths each, and two workers that need 1.5 s for one


class PoisonEvent(Poison):
    """Events whose handler ends its session, its process, or fails: programs start all the time here, too."""

    name = "poison-event"
    events = ("connection", "error", "crash")
    is_greedy = True

    def prepare(self, site: Site, system: System) -> None:
        super().prepare(site, system)
        for name in (
            "consumer 1",
            "consumer 2",
        ):  # `--workers` is for endpoints: this is a service manager's affair
            system.prefix[name] = python("-m", "tests.chaos.programs.service_manager")
