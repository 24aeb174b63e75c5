"""Running work that is held by a lease: one that is late, frozen or cut off, and another that takes over from it.

A process holds the row under an epoch. Its end is a transaction that begins by locking the row, if the epoch is still
its own, and deletes it with what the handler did. Nobody takes a row that is locked, while its process renews the lease
all the same; the server ends a session that is silent in its transaction. Time is the adversary's: a lease may be over
at any moment.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal

LAPSES = 3
FREEZES = 2
KILLS = 1


@dataclass(frozen=True, slots=True)
class Process:
    """`epoch` is what it holds the row under, as it believes; None: it has nothing in hand."""

    epoch: int | None = None
    taking: int = 0
    """The number of this taking among all: the adversary knows it, also where epochs do not tell."""
    is_frozen: bool = False
    is_ending: bool = False
    """Whether the transaction of its end is open."""


@dataclass(frozen=True, slots=True)
class State:
    epoch: int = 0
    takings: int = 0
    is_leased: bool = False
    is_there: bool = True
    locked_by: int | None = None
    effects: tuple[int, ...] = ()
    """The takings under which the work took effect."""
    processes: tuple[Process, ...] = (Process(), Process())
    lapses: int = 0
    freezes: int = 0
    kills: int = 0


@dataclass(frozen=True, slots=True)
class Leasing:
    """The product's way, or a mutant of it."""

    mutant: Literal[
        "", "no fence", "no lock", "one epoch", "removed first", "no lapse", "no silence limit"
    ] = ""

    def initial(self) -> State:
        return State()

    def steps(self, state: State) -> Iterator[tuple[str, State]]:
        yield from self._lapse(state)
        for index, process in enumerate(state.processes):
            if process.is_frozen:
                yield from self._frozen(state, index, process)
                continue
            yield from self._work(state, index, process)
            if process.epoch is not None and state.freezes < FREEZES:
                frozen = _set(state, index, replace(process, is_frozen=True))
                yield f"{index} is frozen", replace(frozen, freezes=state.freezes + 1)
            if process.epoch is not None and state.kills < KILLS:
                yield f"{index} is killed", replace(_undo(state, index, Process()), kills=state.kills + 1)

    def _lapse(self, state: State) -> Iterator[tuple[str, State]]:
        """End the lease: of a process that cannot renew it in any case, of one that can a few times."""
        if not state.is_leased or self.mutant == "no lapse":
            return
        renews = any(one.taking == state.takings and not one.is_frozen for one in state.processes)
        if not renews or state.lapses < LAPSES:
            yield "the lease is over", replace(state, is_leased=False, lapses=state.lapses + renews)

    def _frozen(self, state: State, index: int, process: Process) -> Iterator[tuple[str, State]]:
        """Leave it frozen for as long as may be: what it holds is to be free without its help."""
        if process.is_ending and self.mutant != "no silence limit":
            ended = replace(process, is_ending=False)
            yield f"the server ends the silent session of {index}", _undo(state, index, ended)
        if not state.is_there or process.taking != state.takings:
            yield f"{index} goes on", _set(state, index, replace(process, is_frozen=False))

    def _work(self, state: State, index: int, process: Process) -> Iterator[tuple[str, State]]:
        if process.epoch is None:
            if state.is_there and not state.is_leased and state.locked_by is None:
                yield f"{index} takes it", self._take(state, index)
            return
        if state.is_there and state.epoch == process.epoch:
            yield f"{index} renews its lease", replace(state, is_leased=True)
        if process.is_ending:
            yield f"{index} commits its end", self._commit(state, index, process.taking)
        elif state.locked_by is None:
            yield f"{index} begins its end", self._begin_end(state, index, process)

    def _take(self, state: State, index: int) -> State:
        epoch = state.epoch + (self.mutant != "one epoch" or state.epoch == 0)
        taking = state.takings + 1
        return replace(
            _set(state, index, Process(epoch, taking)), epoch=epoch, takings=taking, is_leased=True
        )

    def _begin_end(self, state: State, index: int, process: Process) -> State:
        """Lock the row if it is still its own; else there is nothing to end."""
        is_own = state.is_there and state.epoch == process.epoch
        if not is_own and self.mutant != "no fence":
            return _set(state, index, Process())
        begun = _set(state, index, replace(process, is_ending=True))
        if self.mutant == "removed first":
            return replace(begun, is_there=False)
        return begun if self.mutant == "no lock" else replace(begun, locked_by=index)

    def _commit(self, state: State, index: int, taking: int) -> State:
        done = replace(state, is_there=False, effects=(*state.effects, taking))
        return _undo(done, index, Process())

    def wrong(self, state: State) -> str | None:
        if len(state.effects) > 1:
            return "the work took effect twice"
        if state.effects and state.effects[0] < state.takings:
            return "a late one took effect"
        return None

    def unfinished(self, state: State) -> str | None:
        if state.effects:
            return None
        return "the work stands still" if state.is_there else "the work is lost"


def _undo(state: State, index: int, process: Process) -> State:
    """End a process's transaction, and with it its lock."""
    locked_by = None if state.locked_by == index else state.locked_by
    return replace(_set(state, index, process), locked_by=locked_by)


def _set(state: State, index: int, process: Process) -> State:
    return replace(state, processes=(*state.processes[:index], process, *state.processes[index + 1 :]))
