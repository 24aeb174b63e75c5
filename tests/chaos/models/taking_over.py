"""A consumer that is taken over from: the one that led is frozen, its lock ends, another leads, and then it goes on.

A leader has two sessions: one that holds the lock, and a worker's, whose transaction may still be open when the lock is
gone. What fences the old leader off is the mark: the position is moved in the worker's transaction, and only from where
that transaction found it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal

EVENTS = 3
FREEZES = 2
KILLS = 1


@dataclass(frozen=True, slots=True)
class Consumer:
    """`at` is where the open transaction found the position, None without one; it has handled that event by now."""

    leads: bool = False
    frozen: bool = False
    at: int | None = None


@dataclass(frozen=True, slots=True)
class State:
    position: int = 0
    effects: tuple[int, ...] = (0,) * EVENTS
    holder: int | None = None
    consumers: tuple[Consumer, ...] = (Consumer(), Consumer())
    freezes: int = 0
    kills: int = 0


@dataclass(frozen=True, slots=True)
class TakingOver:
    """The product's way, or a mutant of it."""

    mutant: Literal["", "no mark", "position first", "no silence limit"] = ""

    def initial(self) -> State:
        return State()

    def steps(self, state: State) -> Iterator[tuple[str, State]]:
        for index, consumer in enumerate(state.consumers):
            if consumer.frozen:
                yield from self._frozen(state, index, consumer)
                continue
            yield from self._work(state, index, consumer)
            if consumer.leads and state.freezes < FREEZES:
                frozen = _set(state, index, replace(consumer, frozen=True))
                yield f"{index} is frozen", replace(frozen, freezes=state.freezes + 1)
            if consumer.leads and state.kills < KILLS:
                killed = _set(_release(state, index), index, Consumer())
                yield f"{index} is killed", replace(killed, kills=state.kills + 1)

    def _frozen(self, state: State, index: int, consumer: Consumer) -> Iterator[tuple[str, State]]:
        if state.holder == index and self.mutant != "no silence limit":
            yield f"the server ends the silent session of {index}", _release(state, index)
        if self.mutant != "no silence limit":
            yield f"{index} goes on", _set(state, index, replace(consumer, frozen=False))

    def _work(self, state: State, index: int, consumer: Consumer) -> Iterator[tuple[str, State]]:
        if not consumer.leads:
            if state.holder is None and state.position < EVENTS:
                leading = _set(state, index, replace(consumer, leads=True))
                yield f"{index} leads", replace(leading, holder=index)
        elif consumer.at is not None:
            yield f"{index} commits", self._commit(state, index, consumer, consumer.at)
        elif state.holder != index or state.position == EVENTS:
            yield f"{index} sees that it leads no more", _set(_release(state, index), index, Consumer())
        else:
            begun = _set(state, index, replace(consumer, at=state.position))
            if self.mutant == "position first":
                begun = replace(begun, position=state.position + 1)
            yield f"{index} handles event {state.position}", begun

    def _commit(self, state: State, index: int, consumer: Consumer, at: int) -> State:
        ended = _set(state, index, replace(consumer, at=None))
        if self.mutant not in {"no mark", "position first"} and state.position != at:
            return ended  # rolled back: the mark is not where it was
        effects = tuple(count + (event == at) for event, count in enumerate(state.effects))
        position = state.position if self.mutant == "position first" else at + 1
        return replace(ended, effects=effects, position=position)

    def wrong(self, state: State) -> str | None:
        if any(count > 1 for count in state.effects):
            return "an event took effect twice"
        if state.effects != tuple(sorted(state.effects, reverse=True)):
            return "an event took effect before the one before it"
        return None

    def unfinished(self, state: State) -> str | None:
        return None if state.effects == (1,) * EVENTS else "the log stands still"


def _release(state: State, index: int) -> State:
    return replace(state, holder=None) if state.holder == index else state


def _set(state: State, index: int, consumer: Consumer) -> State:
    return replace(state, consumers=(*state.consumers[:index], consumer, *state.consumers[index + 1 :]))
