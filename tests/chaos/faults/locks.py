"""Tables that others hold: a queue that is locked, and a sender that commits when the queue has long gone on."""

from __future__ import annotations

import time
from contextlib import suppress
from typing import TYPE_CHECKING

import psycopg

from tests.chaos.faults.fault import BESIDE, QUIET, Fault, Site
from tests.chaos.processes import await_that, rowbus

if TYPE_CHECKING:
    from tests.chaos.system import System

LOCKED = 7.0
"""Seconds: longer than any healthy message may wait, so that one which is held up is seen."""
HELD_UP = 3
STALLED = 1.0
"""Seconds in which nobody can use a queue: shorter, because its messages are healthy."""
OVERTAKING = 32
"""Messages that overtake one which is committed late: more than receivers look back."""
SLOW = 12
"""Of these, the last ones, which take their time: the slots of a receiver come to the queue one after the other, each
with a look from the start, and all are held up there."""
HANDLED = "select from effect where number = {} and stage = 'command'"


class _Lock(Fault):
    company = BESIDE
    is_strict = spares = waits = True
    rounds = 4
    rest = 60.0

    def prepare(self, site: Site, system: System) -> None:
        system.rate = min(system.rate, QUIET)


class LockedDestination(_Lock):
    """A queue is locked for 7 s; of another queue three messages, whose handlers send to it, have to wait.

    The two workers have two slots each: so one at least of each is held up, and one is free.
    """

    name = "locked-destination"

    def started(self, system: System) -> None:
        system.launch("aside", rowbus("run", "tests.chaos.programs.endpoints:aside"))
        await_that(lambda: "Endpoint Aside is receiving" in system.programs["aside"].text(), "Aside")

    def strike(self, system: System) -> None:
        with system.connect() as other, other.transaction():
            other.execute('lock table "Aside" in exclusive mode')
            with system.post.letters(self.name) as letters:
                for _ in range(HELD_UP):
                    letters.send("aside", "Chaos.Aside")
            time.sleep(LOCKED)  # long sleep: the fault's own length


class LateCommit(_Lock):
    """A sender takes a position in a queue and commits when others have overtaken it, after a stall of that queue.

    The stall is that of a change of the table which waits for the sender, with everybody behind it.
    """

    name = "late-commit"

    def strike(self, system: System) -> None:
        with system.post.letters(self.name) as late:
            late.send("command", "Chaos.Command")
            self._overtake(system)
            self._stall(system)

    def _overtake(self, system: System) -> None:
        """Have others sent, and wait until a third of the slow ones are handled."""
        with system.post.letters(self.name) as letters:
            for number in range(OVERTAKING):
                seconds = 0.0 if number < OVERTAKING - SLOW else system.moments.uniform(0.2, 0.6)
                letters.send("command", "Chaos.Command", seconds=seconds)
        one = sorted(letters.kinds)[-SLOW * 2 // 3]
        await_that(lambda: system.sees(HANDLED.format(one)), "messages to overtake one")

    def _stall(self, system: System) -> None:
        patience = f"-c lock_timeout={STALLED * 1000:.0f}"
        with suppress(psycopg.errors.LockNotAvailable), system.connect(options=patience) as other:
            other.execute('begin; lock table "Work"')
            raise RuntimeError("nobody held the queue")
