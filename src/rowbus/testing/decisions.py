"""What `drain` does next: a decision on the state of queues, delayed messages and logs.

Invariant: pure; the times are spans by the database's clock.
"""

from __future__ import annotations

from datetime import timedelta
from enum import Enum
from typing import NamedTuple

NOTHING = timedelta()


class State(NamedTuple):
    """How all stands at one moment: messages in queues, when the next delayed one is due, consumers and events.

    `next_due` is None when no message is delayed, and not positive when one is due now.
    """

    queued: int
    next_due: timedelta | None
    behind: int = 0
    fresh: int = 0
    retries: int = 0

    @property
    def is_due(self) -> bool:
        """Whether a delayed message is due, and about to be moved."""
        return self.next_due is not None and self.next_due <= NOTHING

    def __str__(self) -> str:
        """Return what is left, in words."""
        left = {
            "messages in queues": self.queued,
            "delayed messages": int(self.next_due is not None),
            "consumers that are behind": self.behind,
            "events that wait for a tick": self.fresh,
            "events that wait for a retry": self.retries,
        }
        return ", ".join(
            f"{what}: {'some' if what[0] == 'd' else count}" for what, count in left.items() if count
        )


class Move(Enum):
    """What is to be done."""

    WAIT = "wait for what is being processed"
    RETRY = "have the events that failed come again"
    TICK = "tick the logs"
    ADVANCE = "let time pass until the next delayed message"
    END = "nothing is left"


def next_move(state: State, *, ticked: bool, left: timedelta | None) -> Move:
    """Say what to do; `ticked`: the logs were ticked since a queue held something; `left`: time that may pass.

    None: as much as the delayed messages need.
    """
    if state.queued or state.is_due or state.behind:
        return Move.WAIT
    if state.retries:
        return Move.RETRY
    if state.fresh or not ticked:
        return Move.TICK
    return Move.END if (left is None and state.next_due is None) or left == NOTHING else Move.ADVANCE


def time_to_pass(next_due: timedelta | None, left: timedelta | None) -> timedelta:
    """Say how much time is to pass: until the next delayed message, or what is left of the time, if that is less."""
    if next_due is None:
        return left or NOTHING
    return next_due if left is None else min(next_due, left)
