"""A fault: how it is prepared, how it strikes, and how long healthy work may stand still meanwhile."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from tests.chaos.pair import Pair
from tests.chaos.server import Server

if TYPE_CHECKING:
    from tests.chaos.system import System

LEADER_LOST = 15.0
"""Seconds that work may stand still where a leader is lost: killed, frozen, or cut off."""
ELSE = 5.0
QUIET = 15.0
"""Sends a second, at most, under a fault that waits: it leaves the machine to those that run beside it."""


BESIDE = "beside"
"""The company of faults that leave programs and server as they are, so that they may strike beside each other."""


class Site:
    """Where a run takes place: its folder, its server, and what ends with it."""

    def __init__(self, folder: Path, server: Server, closing: ExitStack) -> None:
        self.folder = folder
        self.server = server
        self.closing = closing
        self._pair: Pair | None = None

    def pair(self) -> Pair:
        """Give the server with a standby that confirms each of its commits."""
        self._pair = self._pair or Pair(self.folder, self.server, self.closing)
        return self._pair


class Unavailable(Exception):  # noqa: N818 - it is no error: the machine lacks what the fault needs
    """This machine cannot have the fault; says what is missing."""


class Fault:
    """One kind of fault. A run prepares it, has it strike once a round, and then has the system come to rest."""

    name: ClassVar[str]
    limit: ClassVar[float] = ELSE
    rounds: ClassVar[int] = 3
    """Number of strikes in the short form."""
    often: ClassVar[float] = 1.0
    """Factor by which it strikes more often than others where a number of rounds is asked for."""
    waits: ClassVar[bool] = False
    """Whether it waits for most of its time, so that it needs little of the machine."""
    is_greedy: ClassVar[bool] = False
    """Whether its system keeps two cores busy, so that it is run when the others are over."""
    company: ClassVar[str] = ""
    """In the short form it strikes one system in turn with the faults of an equal name: most of a run's time goes into
    starting a system. Empty: it has a system of its own."""
    is_strict: ClassVar[bool] = False
    """Whether every healthy message is to be handled within the limit, not only some."""
    spares: ClassVar[bool] = False
    """Whether it ends no program, so that one that ends is wrong."""
    own_server: ClassVar[bool] = False
    """Whether it needs a server that no other fault uses."""
    is_short: ClassVar[bool] = True
    """Whether it is over soon enough for the short form."""
    rest: float = 30.0
    """Seconds that the system has to come to rest; counted anew as long as work is done in them."""

    def prepare(self, site: Site, system: System) -> None:
        """Set up what the fault needs, before any program is started: how programs reach the database, for example."""

    def started(self, system: System) -> None:
        """Do what is to be done when all programs are at work."""

    def strike(self, system: System) -> None:
        """Strike once, and return when the fault is over."""
        system.pause()

    def finish(self, system: System) -> None:
        """End a fault that has gone on all the time, before the system comes to rest."""
