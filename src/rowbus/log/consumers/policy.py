"""The fate of a batch's events: retry or dead letter for one that failed, and which are suspected when some were lost.

What was lost is halved at each loss until one event is alone; then the failure is that event's. A loss is explained
when another session of the process lived on. One that is not, because the process or the server ended, may have any
cause: it counts against an event only when it has come `UNEXPLAINED` times in a row while that event was alone.

Invariants: everything here is pure: the same failure, count and random number give the same verdict; events come in the
order of their ids.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final, NamedTuple

from rowbus.errors import Unrecoverable
from rowbus.errors.strangers import is_a, text_of, type_name
from rowbus.running.backoff import doubling, jittered

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from rowbus.log.event import Event


LONGEST_REASON = 4000  # characters of an error's text that are kept with a dead letter

UNEXPLAINED: Final = 3
"""Losses in a row of one event alone, none of them explained, that count as one failure of that event."""

ANY_EVENT: Final = 2**63 - 1
"""Stands for a batch's last event where it is not known yet."""

NO_EVENT: Final = 0
"""Stands for the place before a batch's first event."""


# Verdicts on events that failed.


class RetryAfter(NamedTuple):
    """Deliver the event again, to this consumer alone, when so many seconds have passed."""

    seconds: int


class Defer(NamedTuple):
    """Deliver the event again as if this delivery had not happened: an earlier event of its key is being retried."""

    seconds: int


class DeadLetter(NamedTuple):
    """Put the event aside, with the reason, until it is replayed or purged."""

    reason: str


Verdict = RetryAfter | Defer | DeadLetter


class Retries(NamedTuple):
    """Number and times of retries; delays in seconds."""

    most: int
    first_delay: float
    longest_delay: float


def judge(error: BaseException, retried: int, retries: Retries, random: Callable[[], float]) -> Verdict:
    """Return the verdict on an event that failed after it had been retried so many times.

    Delays double from retry to retry, give or take a fifth, and are whole seconds, rounded up. `Unrecoverable` is
    never retried. `random` returns a number from 0 to 1.
    """
    if is_a(error, Unrecoverable) or retried >= retries.most:
        return DeadLetter(describe(error))
    delay = doubling(retried + 1, first=retries.first_delay, most=retries.longest_delay)
    return RetryAfter(math.ceil(round(jittered(delay, random), 6)))  # 12.000000000000002 is 12


def describe(error: BaseException) -> str:
    """Say what an error was, in a text that PostgreSQL can keep."""
    name, said = type_name(error), text_of(error)
    text = f"{name}: {said}" if said else name
    return text.replace("\x00", "")[:LONGEST_REASON]


# Suspicion of events that were lost.


class Note(NamedTuple):
    """A note that a process wrote before it began: part `part` of `parts` was at the events up to `upto`."""

    parts: int
    part: int
    upto: int
    losses: int
    """The number of times they had been lost before, if they are one event; else 0."""


class Doubt(NamedTuple):
    """A loss as it is known before the events are: they end with `upto`, and were lost so often.

    Not once, if a batch was only left: its process was stopped, or died, and nothing was noted. Then its first events
    are handled as before, but noted.
    """

    upto: int
    losses: int


LEFT: Final = Doubt(ANY_EVENT, 0)


class Suspicion(NamedTuple):
    """The last loss: events up to one, `losses` times in a row if that one was `alone`."""

    upto: int
    losses: int
    alone: bool
    explained: bool = False
    failure: BaseException | None = None
    """The deed of the handler of the last of these on its connection, where that is known."""


def doubt(notes: Sequence[Note], place: tuple[int, int], *, interrupted: bool) -> Doubt | None:
    """Say what is to be doubted in a batch that was taken: nothing, unless another process or session had it before.

    Notes of another division into parts say only that something was lost.
    """
    for note in notes:
        if (note.parts, note.part) == place:
            return Doubt(note.upto, note.losses + 1)
    if notes:
        return Doubt(ANY_EVENT, 1)
    return LEFT if interrupted else None


def suspect(doubt: Doubt, events: Sequence[Event]) -> Suspicion:
    """Return the suspicion that falls on events which are now known; there is at least one."""
    if doubt == LEFT and len(events) > 1:
        return Suspicion(NO_EVENT, 0, alone=False)
    upto = min(doubt.upto, events[-1].id)
    return Suspicion(upto, doubt.losses, alone=_suspects(events, upto) == 1)


def lost(events: Sequence[Event], before: Suspicion | None, *, explained: bool) -> Suspicion:
    """Return the suspicion after these events have been lost."""
    again = before is not None and is_alone(events, before)
    losses = before.losses + 1 if before is not None and again else 1
    return Suspicion(events[-1].id, losses, alone=len(events) == 1, explained=explained)


def known(culprit: Event, failure: BaseException) -> Suspicion:
    """Return the suspicion after an event has been seen to break its connection."""
    return Suspicion(culprit.id, 1, alone=True, explained=True, failure=failure)


def size(events: Sequence[Event], suspicion: Suspicion | None, singly: int = NO_EVENT) -> int:
    """Say how many events to handle next: half of those suspected, or all when none is.

    One of those up to `singly`, which failed as a whole. Where one is known to be the cause, those before it come
    together. An event that is being retried has failed before, so it is handled alone while others are suspected.
    """
    if events and events[0].id <= singly:
        return 1
    suspects = 0 if suspicion is None else _suspects(events, suspicion.upto)
    if not suspects:
        return len(events)
    if suspicion is not None and suspicion.failure is not None:
        return max(1, suspects - 1)
    half = (suspects + 1) // 2
    retried = next((place for place, event in enumerate(events[:half]) if event.retry), half)
    return max(1, retried)


def is_alone(events: Sequence[Event], suspicion: Suspicion) -> bool:
    """Say whether these events are the one that was lost alone."""
    return suspicion.alone and len(events) == 1 and events[0].id == suspicion.upto


def is_convicted(events: Sequence[Event], suspicion: Suspicion) -> bool:
    """Say whether these events are one to which its losses are to be counted as a failure."""
    return is_alone(events, suspicion) and (suspicion.explained or suspicion.losses >= UNEXPLAINED)


def noted_losses(events: Sequence[Event], suspicion: Suspicion) -> int:
    """Say how often these events have been lost, for the note that is written before they are begun."""
    return suspicion.losses if is_alone(events, suspicion) else 0


def _suspects(events: Sequence[Event], upto: int) -> int:
    return sum(event.id <= upto for event in events)
