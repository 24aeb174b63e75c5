"""The fate of a row after a call of its handler, and which failures are outages: pure functions of what happened.

An outage counts against no message: nothing is wrong with it, and it would fail as well with any other. It goes back to
its queue, and the receiver waits as its circuit breaker says. A driver's error in a handler tells of our database only
where it says that the server lacks something (disk, memory, connections): a connection that a handler opened elsewhere
may be lost while ours works, and that is the handler's.

Invariant: pure; nothing is counted, asked or undone here: the caller does what a fate says. A conflict between
transactions is no outage, because the next try may go through.
"""

from __future__ import annotations

from enum import Enum
from typing import Final, NamedTuple

from rowbus.errors import ConnectionLostError, StorageError, TransactionConflictError
from rowbus.errors.strangers import attribute, is_a

# Seconds for which a message is passed over that met an outage which others do not meet, perhaps.
PASSED_OVER: Final = 5.0
# Seconds after which a message that meets outages while others are completed has failed.
PATIENCE: Final = 1800.0


def is_outage(error: BaseException) -> bool:
    """Say whether the database, not the message, is to blame for an error of a call of ours."""
    return (
        is_a(error, StorageError)
        and attribute(error, "transient") is True
        and not is_a(error, TransactionConflictError)
    )


def is_outage_in_handler(error: BaseException, translated: BaseException | None) -> bool:
    """Say the same of what a handler raised; `translated` is our error for it, if it is a driver's."""
    if translated is None:
        return is_outage(error)
    return is_outage(translated) and not is_a(translated, ConnectionLostError)


def is_to_blame(seconds: float, completed: int) -> bool:
    """Say whether a message has met outages for so long, while others were completed, that it is its own doing."""
    return seconds > PATIENCE and completed > 0


class Ending(Enum):
    """The ways in which a call of a handler ends."""

    DONE = "done"
    FAILED = "failed"
    """It raised, or left its transaction unusable; what it did is to be undone."""
    ENDED = "ended"
    """It failed, and there is no transaction any more: it ended that itself, or an error made the server do so."""
    LOST = "lost"
    """It failed, and its connection is closed or broken."""
    OVERDUE = "overdue"
    """It ran longer than it may or was to end, and its connection has been given up with it."""
    UNFINISHED = "unfinished"
    """Its connection was in the midst of something when it ended, and has been given up."""


class Kind(Enum):
    """The fates of a row."""

    DONE = "done"
    """It is completed with its transaction."""
    FAILED = "failed"
    """Undo what the handler did and count it; then the policy is asked, in the same transaction."""
    GIVEN_UP = "given up"
    """It moves to the error queue without the policy: its row is gone, or it may not go where it is to go."""
    PUT_BACK = "put back"
    """Roll back; others of its transaction are received one by one. Nothing is counted that was not before."""
    COUNTED = "counted"
    """Count it and roll back: the server has rolled the row's transaction back already."""
    POSTPONED = "postponed"
    """Roll back, and have it wait where it is, with the headers that its entry has for it."""
    PAUSED = "paused"
    """Roll back, and wait for so many seconds: no row is to blame."""
    OUTAGE = "outage"
    """Roll back, and wait as the breaker says: the database lacks something."""
    LOST = "lost"
    """The connection is gone: whether the row is to blame, another session finds out."""


class Fate(NamedTuple):
    """A fate, what caused it, and for how many seconds to wait."""

    kind: Kind
    cause: BaseException | None = None
    seconds: float = 0.0


DONE: Final = Fate(Kind.DONE)
PUT_BACK: Final = Fate(Kind.PUT_BACK)


class Failure(NamedTuple):
    """Facts of a call that failed, beside how it ended."""

    is_outage: bool
    """Whether the database, and not the row, is to blame."""
    in_transaction: bool = True
    is_refused: bool = False
    """Whether its destination was refused, to which it was only to be sent on."""
    is_held: bool = True
    """Whether the row is still there, in a transaction that has ended."""
    is_conflict_of_several: bool = False
    """Whether it met a conflict between transactions, in one that has other rows too: alone it holds up nothing."""
    pause: float | None = None
    """The seconds to wait for something that is not the row's fault; None: there is no such thing."""


def kind_of(ending: Ending, failure: Failure) -> Kind:  # noqa: PLR0911 - a return for each rule, in their order
    """Return the fate of a row whose handler's call ended so."""
    if failure.is_refused:
        return Kind.GIVEN_UP
    if ending is Ending.UNFINISHED:  # what it raised says nothing of what its connection is left in
        return Kind.LOST if failure.in_transaction else Kind.FAILED
    if ending is Ending.OVERDUE:
        return Kind.COUNTED if failure.in_transaction else Kind.FAILED
    if failure.pause is not None:
        return Kind.PAUSED
    if failure.is_conflict_of_several:
        return Kind.PUT_BACK
    if ending is Ending.LOST:
        return Kind.LOST
    if ending is Ending.ENDED:
        return Kind.COUNTED if failure.is_held else Kind.GIVEN_UP
    return Kind.OUTAGE if failure.in_transaction and failure.is_outage else Kind.FAILED
