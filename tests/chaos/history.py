"""Histories of runs, as values: what was sent, what took effect, when work could not go on.

Invariant: a history is made of what programs noted themselves (producers in their journals, handlers in the transaction
of their message), never of what the queues say: a queue that loses a message says nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Final


class Outcome(Enum):
    """A transaction as its producer knows it."""

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
    "deed": ("deed", "follow-up of the deed"),
    "deed event": ("event of a deed",),
    "aside": ("aside", "arrival"),
    "keyed": ("keyed",),
    "keyed-event": ("keyed event",),
    "long": ("first page", "second page", "last page", "report"),
    "poison": (),
    "poison event": (),
}
"""The effects that a send of each kind has, each exactly once. A poison has none, and goes to the error queue. The
handler of a deed does something that it should not, and no other message is to notice; that of `aside` sends to a queue
apart."""

POISONS: Final = frozenset({"poison", "poison event"})
CONCERNED: Final = frozenset({"deed", "follow-up of the deed", "event of a deed", "aside", "arrival"})
"""Stages of what a fault sends itself: it may have to wait for the fault's end."""
LONG: Final = frozenset({"first page", "second page", "last page", "report"})
"""Stages of a handler that takes long. Its fault measures how soon another has what a lost one had."""
UNTIMED: Final = CONCERNED | LONG | {"retried", "follow-up of the retried", "completion", "event in Spark"}
"""Stages of which nobody notes when their work could begin: a delay after a failed attempt, which leaves no trace; the
end of a saga, which is noted with the last of its steps. Nobody stands by for a Spark driver: how soon its work goes on
is how soon Spark starts."""
TIMED: Final = frozenset(stage for stages in STAGES.values() for stage in stages) - UNTIMED
ORDERED: Final = "event"
"""The stage in which the sends of one producer take effect in their order."""
KEYED: Final = frozenset({"keyed", "keyed event"})
"""The stages in which each key goes on by itself: messages in the order of their commits, whoever sent them, and events
in the order of their producer."""
KEYS: Final = 6


def key_of(number: int) -> int:
    """Give the key of a number: all producers send each of them."""
    return number // 2 % KEYS


@dataclass(frozen=True, slots=True)
class Send:
    """One number that a producer sent; `ready` is when its work could begin, in seconds by the database's clock."""

    number: int
    kind: str
    outcome: Outcome
    ready: float
    producer: int = 0
    fault: str = ""
    """The fault that sent it itself; empty: a producer did."""
    place: int = 0
    """Of a message with a key: its place in the order in which those of its key were committed."""


@dataclass(frozen=True, slots=True)
class Effect:
    """An effect that a handler committed; `position` grows with time, `due` is its earliest moment."""

    position: int
    stage: str
    number: int
    process: int
    at: float
    due: float | None = None
    again: bool = False
    """Whether a failed delivery came before, which takes the event out of the order."""
    found: str = ""
    """Things that its handler found and another had left: a setting, a context variable."""


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
    """Seconds for which healthy work may stand still."""
    is_strict: bool = False
    """Whether every healthy message is to be handled within the limit, not only some."""
    ended: tuple[str, ...] = ()
    """Programs that ended though nothing ended them."""
    unconfirmed: tuple[int, ...] = ()
    """Positions of effects that were there while the standby was away that has to confirm each commit."""
    waits: tuple[float, ...] = ()
    """Seconds that it took each time until others had what a lost process had in hand."""

    def part(self, fault: str) -> History:
        """Give what concerns one fault, where several strike the same system: without what the others sent."""
        others = {send.number for send in self.sends if send.fault not in {"", fault}}
        return replace(
            self,
            sends=tuple(send for send in self.sends if send.number not in others),
            effects=tuple(effect for effect in self.effects if effect.number not in others),
            failed=self.failed - others,
        )
