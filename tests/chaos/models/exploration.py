"""Breadth-first over all states of a model: no order of steps is left out; what is wrong has the fewest steps.

Invariant: a model is a value with pure functions; the exploration ends because its states are finitely many.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Iterable
from typing import NamedTuple, Protocol, TypeVar

S = TypeVar("S", bound=Hashable)


class Model(Protocol[S]):
    """Processes that take turns, one atomic step at a time."""

    def initial(self) -> S:
        """Give the state in which everything begins."""
        raise NotImplementedError

    def steps(self, state: S) -> Iterable[tuple[str, S]]:
        """Give every step that is possible, with the state it leads to."""
        raise NotImplementedError

    def wrong(self, state: S) -> str | None:
        """Say what must never be, if it is so in this state."""
        raise NotImplementedError

    def unfinished(self, state: S) -> str | None:
        """Say what is missing in a state in which no step is possible any more."""
        raise NotImplementedError


class Exploration(NamedTuple):
    """The number of states, and what is wrong with one of them, with the steps that lead there."""

    states: int
    wrong: str | None = None
    steps: tuple[str, ...] = ()


def explore(model: Model[S]) -> Exploration:
    """Visit every state; end at the first that is wrong, or that nothing leads out of though something is missing."""
    first = model.initial()
    came: dict[S, tuple[S, str] | None] = {first: None}
    waiting = deque([first])
    while waiting:
        state = waiting.popleft()
        following = list(model.steps(state))
        wrong = model.wrong(state) or (None if following else model.unfinished(state))
        if wrong:
            return Exploration(len(came), wrong, _way(came, state))
        for label, reached in following:
            if reached not in came:
                came[reached] = (state, label)
                waiting.append(reached)
    return Exploration(len(came))


def _way(came: dict[S, tuple[S, str] | None], state: S) -> tuple[str, ...]:
    steps: list[str] = []
    while (before := came[state]) is not None:
        state, label = before
        steps.append(label)
    return tuple(reversed(steps))
