"""Receive, retry, error: two workers, a healthy message, and a poison whose handler ends its own session.

Faults: the server goes away (all sessions at once), a worker is killed. A loss is counted against a message only from a
second session that lives on, in a transaction of its own, and durably.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal

HEALTHY, POISON = 0, 1
MOST_LOSSES = 3
FAULTS = 3
WORKERS = 2

Place = Literal["queue", "done", "error"]


@dataclass(frozen=True, slots=True)
class Worker:
    """Messages in a worker's hand, and the one whose loss it has seen and not yet counted."""

    holds: int | None = None
    saw_lost: int | None = None


@dataclass(frozen=True, slots=True)
class State:
    places: tuple[tuple[Place, ...], ...] = (("queue",), ("queue",))
    """Where each message is, once for each copy of it."""
    workers: tuple[Worker, ...] = (Worker(),) * WORKERS
    losses: tuple[int, ...] = (0, 0)
    tries: int = 0
    """Of the poison."""
    faults: int = 0
    follow_ups: int = 0


@dataclass(frozen=True, slots=True)
class Receiving:
    """The product's way, or a mutant of it."""

    mutant: Literal["", "outages count", "counted in memory", "error queue first", "sends outside"] = ""

    def initial(self) -> State:
        return State()

    def steps(self, state: State) -> Iterator[tuple[str, State]]:
        for index, worker in enumerate(state.workers):
            if worker.saw_lost is not None:
                yield f"worker {index} counts", self._count(state, index, worker.saw_lost)
            elif worker.holds is None:
                yield from self._receive(state, index)
            elif worker.holds == POISON:
                yield (
                    f"the poison ends the session of worker {index}",
                    _set(state, index, Worker(None, POISON)),
                )
            else:
                yield from self._commit(state, index)
        if state.faults < FAULTS:
            yield "the server goes away", self._outage(state)
            for index in range(len(state.workers)):
                yield f"worker {index} is killed", self._kill(state, index)

    def _receive(self, state: State, index: int) -> Iterator[tuple[str, State]]:
        """Take a message that nobody holds; one with too many losses goes to the error queue in that transaction."""
        held = {worker.holds for worker in state.workers}
        for message in (HEALTHY, POISON):
            if "queue" not in state.places[message] or message in held:
                continue
            if state.losses[message] >= MOST_LOSSES:
                yield f"worker {index} gives {message} up", self._give_up(state, message)
            else:
                tries = state.tries + (message == POISON)
                yield (
                    f"worker {index} receives {message}",
                    replace(_set(state, index, Worker(message)), tries=tries),
                )

    def _give_up(self, state: State, message: int) -> State:
        return _copy(state, message) if self.mutant == "error queue first" else _move(state, message, "error")

    def _commit(self, state: State, index: int) -> Iterator[tuple[str, State]]:
        if self.mutant == "sends outside" and not state.follow_ups > state.faults:
            yield f"worker {index} sends", replace(state, follow_ups=state.follow_ups + 1)
        sent = state.follow_ups + (self.mutant != "sends outside")
        done = _set(_move(state, HEALTHY, "done"), index, Worker())
        yield f"worker {index} commits", replace(done, follow_ups=sent)

    def _count(self, state: State, index: int, message: int) -> State:
        losses = tuple(count + (at == message) for at, count in enumerate(state.losses))
        return replace(_set(state, index, Worker()), losses=losses)

    def _outage(self, state: State) -> State:
        """End all sessions: what was in hand is back, and there is no second session to count it from."""
        blamed = self.mutant == "outages count"
        workers = tuple(Worker(None, worker.holds if blamed else None) for worker in state.workers)
        return replace(state, workers=workers, faults=state.faults + 1)

    def _kill(self, state: State, index: int) -> State:
        losses = (0, 0) if self.mutant == "counted in memory" else state.losses
        return replace(_set(state, index, Worker()), losses=losses, faults=state.faults + 1)

    def wrong(self, state: State) -> str | None:
        if any(len(places) != 1 for places in state.places):
            return "a message is in two places"
        if "error" in state.places[HEALTHY]:
            return "a healthy message is in the error queue"
        if state.follow_ups > 1:
            return "a follow-up is doubled"
        if (
            state.tries > MOST_LOSSES + (WORKERS - 1) + WORKERS * state.faults
        ):  # a fault forgets one try of each
            return "the poison was tried too often"
        return None

    def unfinished(self, state: State) -> str | None:
        if state.places != (("done",), ("error",)):
            return f"everything has stopped with {state.places}"
        return None


def _set(state: State, index: int, worker: Worker) -> State:
    return replace(state, workers=(*state.workers[:index], worker, *state.workers[index + 1 :]))


def _move(state: State, message: int, place: Place) -> State:
    places = list(state.places)
    places[message] = (place,)
    return replace(state, places=tuple(places))


def _copy(state: State, message: int) -> State:
    places = list(state.places)
    places[message] = (*places[message], "error")
    return replace(state, places=tuple(places))
