"""Two movers on one table of delayed messages, ours and NServiceBus's: neither knows that the other is there.

Each takes due rows that nobody has locked, deletes them, writes them into the queue, and commits; or is killed anywhere
in between. Time goes on in steps; the database's clock says what is due.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal

DUE = (1, 2)
LATEST = 2
KILLS = 2


@dataclass(frozen=True, slots=True)
class Mover:
    """The rows in hand, and how far the transaction has come."""

    rows: tuple[int, ...] = ()
    written: bool = False


@dataclass(frozen=True, slots=True)
class State:
    clock: int = 0
    delayed: tuple[int, ...] = (0, 1)
    queue: tuple[int, ...] = ()
    movers: tuple[Mover, ...] = (Mover(), Mover())
    kills: int = 0
    early: bool = False


@dataclass(frozen=True, slots=True)
class Moving:
    """The product's way, or a mutant of it."""

    mutant: Literal["", "no lock", "copy first", "own clock", "delete first"] = ""

    def initial(self) -> State:
        return State()

    def steps(self, state: State) -> Iterator[tuple[str, State]]:
        if state.clock < LATEST:
            yield "time passes", replace(state, clock=state.clock + 1)
        for index, mover in enumerate(state.movers):
            if not mover.rows:
                yield from self._take(state, index)
            elif not mover.written:
                yield f"mover {index} writes", self._write(state, index, mover)
            else:
                yield f"mover {index} commits", self._commit(state, index, mover)
            if mover.rows and state.kills < KILLS:
                yield f"mover {index} is killed", replace(_set(state, index, Mover()), kills=state.kills + 1)

    def _take(self, state: State, index: int) -> Iterator[tuple[str, State]]:
        """Lock what is due; a transaction of one row, or of all."""
        clock = state.clock + (self.mutant == "own clock" and index == 0)
        locked = {row for mover in state.movers for row in mover.rows if self.mutant != "no lock"}
        due = tuple(row for row in state.delayed if DUE[row] <= clock and row not in locked)
        for rows in {due[:1], due} - {()}:
            taken = _set(state, index, Mover(rows))
            if self.mutant == "delete first":
                taken = replace(taken, delayed=_without(state.delayed, rows))
            yield f"mover {index} takes {rows}", taken

    def _write(self, state: State, index: int, mover: Mover) -> State:
        written = _set(state, index, replace(mover, written=True))
        return _arrived(written, mover.rows) if self.mutant == "copy first" else written

    def _commit(self, state: State, index: int, mover: Mover) -> State:
        left = replace(_set(state, index, Mover()), delayed=_without(state.delayed, mover.rows))
        return left if self.mutant == "copy first" else _arrived(left, mover.rows)

    def wrong(self, state: State) -> str | None:
        if state.early:
            return "a message is early"
        for row in range(len(DUE)):
            copies = state.queue.count(row) + state.delayed.count(row)
            if self.mutant == "copy first" and any(row in m.rows and m.written for m in state.movers):
                continue  # between its two transactions; what counts is what is left of it
            if copies > 1:
                return "a message is in two places"
            if copies < 1 and not any(row in mover.rows for mover in state.movers):
                return "a message is lost"
        return None

    def unfinished(self, state: State) -> str | None:
        return None if sorted(state.queue) == [0, 1] else "a message is not in its queue"


def _arrived(state: State, rows: tuple[int, ...]) -> State:
    early = state.early or any(DUE[row] > state.clock for row in rows)
    return replace(state, queue=tuple(sorted((*state.queue, *rows))), early=early)


def _set(state: State, index: int, mover: Mover) -> State:
    return replace(state, movers=(*state.movers[:index], mover, *state.movers[index + 1 :]))


def _without(rows: tuple[int, ...], taken: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(row for row in rows if row not in taken)
