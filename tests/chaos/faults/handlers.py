"""Handlers that do what they should not: their own attempt is what fails, and no other message notices.

Each message says what its handler is to do (tests/chaos/programs/deeds.py). Most are sent to an endpoint and appended
to a log; for some there is a `def` handler, which runs in a thread.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, ClassVar, LiteralString

from tests.chaos.faults.fault import BESIDE, QUIET, Fault, Site
from tests.chaos.history import POISONS
from tests.chaos.processes import await_that
from tests.chaos.programs.deeds import STRANGER

if TYPE_CHECKING:
    from tests.chaos.system import System

MAKE_STRANGER: LiteralString = f"""
    do $$
    begin
        create role {STRANGER};
    exception
        when duplicate_object then null;
    end $$
"""
ADMIT_STRANGER: LiteralString = f"""
    grant insert on effect to {STRANGER};
    grant usage on sequence effect_position_seq to {STRANGER};
"""


GIVEN_UP = 20.0
"""Seconds in which all that a round sent to fail is given up."""


class _Misdeed(Fault):
    """A round sends a message, and an event, for each deed."""

    company = BESIDE
    is_strict = spares = waits = True
    rounds = 6
    rest = 60.0
    poisons: ClassVar[tuple[str, ...]] = ()
    """Deeds after which an attempt has failed."""
    in_threads: ClassVar[tuple[str, ...]] = ()
    deeds: ClassVar[tuple[str, ...]] = ()
    """Deeds of messages that are handled, by this attempt or after a delayed retry."""

    def prepare(self, site: Site, system: System) -> None:
        system.rate = min(system.rate, QUIET)

    def strike(self, system: System) -> None:
        with system.post.letters(self.name) as letters:
            for poison in self.poisons:
                letters.send("poison", "Chaos.Command", poison=poison)
                letters.append("poison event", poison=poison)
            for poison in self.in_threads:
                letters.send("poison", "Chaos.InThread", poison=poison)
            for deed in self.deeds:
                letters.send("deed", "Chaos.Deed", deed=deed)
                letters.append("deed event", deed=deed)


class Panic(_Misdeed):
    """It raises a class derived from BaseException."""

    name = "panic"
    poisons = ("panic", "panic in a task")
    in_threads = ("panic",)


class Exit(_Misdeed):
    """It exits, or raises KeyboardInterrupt."""

    name = "exit"
    poisons = ("exit", "interrupt", "exit in a task")
    in_threads = ("exit", "interrupt")


class LeftoverTask(_Misdeed):
    """It fails while a task that it started goes on writing on its connection; always, or until a delayed retry."""

    name = "leftover-task"
    poisons = ("task",)
    deeds = ("task",)


class BusyConnection(_Misdeed):
    """It leaves a stream or a copy open: its connection is in the midst of something."""

    name = "busy-connection"
    poisons = ("stream", "stream kept", "copy kept")
    in_threads = ("stream", "copy kept")

    def strike(self, system: System) -> None:
        """Strike, and wait until all is given up: else this measures how many connections a second can be opened."""
        super().strike(system)
        with suppress(TimeoutError):  # the checker will say what was not given up
            await_that(lambda: system.given_up() >= self._poisons(system), "all to be given up", GIVEN_UP)

    def _poisons(self, system: System) -> set[int]:
        return {send.number for send in system.post.sends if send.fault == self.name and send.kind in POISONS}


class ContextVariable(_Misdeed):
    """It sets a context variable, and the precision of decimal's context."""

    name = "context-variable"
    deeds = ("variables",)


class SetRole(_Misdeed):
    """It sets a role that may do nothing, or that transactions are read only, without LOCAL."""

    name = "set-role"
    deeds = ("role", "authorization", "read only")

    def started(self, system: System) -> None:
        with system.connect() as connection:
            connection.execute(MAKE_STRANGER)
            connection.execute(ADMIT_STRANGER)
