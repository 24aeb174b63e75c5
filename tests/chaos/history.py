"""What happened in a run, as values: what was sent, what took effect, when work could not go on.

Invariant: a history is made of what programs noted themselves (producers in their journals, handlers in the transaction
of their message), never of what the queues say: a queue that loses a message says nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import Final


class Outcome(Enum):
    """What a producer knows about a transaction of its own."""

    COMMITTED = "committed"
    FAILED = "failed"
    UNKNOWN = "unknown"
    """The connection broke while it committed, or the producer did."""


STAGES: Final = {
    "command": ("command", "follow-up", "reply"),
    "delayed": ("delayed", "delayed follow-up"),
    "driven": ("event", "event in Spark"),
    "published": ("first subscriber", "second subscriber"),
    "event": ("event",),
    "retried": ("retried", "follow-up of the retried"),
    "process": ("first step", "second step", "timeout", "completion"),
    "poison": (),
    "poison event": (),
}
"""The effects that a send of each kind has, each exactly once. A poison has none, and goes to the error queue."""

POISONS: Final = frozenset({"poison", "poison event"})
UNTIMED: Final = frozenset({"retried", "follow-up of the retried", "completion", "event in Spark"})
"""Stages of which nobody notes when their work could begin: a delay after a failed attempt, which leaves no trace; the
end of a saga, which is noted with the last of its steps. Nobody stands by for a Spark driver: how soon its work goes on
is how soon Spark starts."""
ORDERED: Final = "event"
"""The stage in which the sends of one producer take effect in their order."""


@dataclass(frozen=True, slots=True)
class Send:
    """One number that a producer sent; `ready` is when its work could begin, in seconds by the database's clock."""

    number: int
    kind: str
    outcome: Outcome
    ready: float
    producer: int = 0


@dataclass(frozen=True, slots=True)
class Effect:
    """What a handler committed; `position` grows with time, `due` is when it was allowed to happen."""

    position: int
    stage: str
    number: int
    process: int
    at: float
    due: float | None = None
    again: bool = False
    """Whether a failed delivery came before, which takes the event out of the order."""


@dataclass(frozen=True, slots=True)
class Outage:
    """A time in which no program could reach the database, because the fault kept all of them from it."""

    begin: float
    end: float


@dataclass(frozen=True, slots=True)
class Tick:
    """A tick of the log, and what must not go back from one to the next."""

    number: int
    time: float
    last_event: int
    horizon: int


@dataclass(frozen=True, slots=True)
class History:
    """Everything that is known about a run when it has come to rest."""

    sends: tuple[Send, ...]
    effects: tuple[Effect, ...]
    outages: tuple[Outage, ...] = ()
    failed: frozenset[int] = field(default_factory=frozenset)
    """The numbers in the error queue and among the dead letters."""
    ticks: tuple[Tick, ...] = ()
    strikes: int = 0
    limit: float = 5.0
    """How many seconds healthy work may stand still."""
