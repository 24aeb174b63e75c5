"""Has events handled inside a transaction, so that those that fail do not spoil it for the others.

The events of one key stay in order: behind one of them that is retried, and among workers that share a batch.

Invariants: after `handle` every event's work either stands in the transaction or is undone and has a verdict; which
part of how many an event belongs to depends on its key alone (without a key: on its id), in every process, so that the
parts of an interrupted batch can be told apart again.
"""

from __future__ import annotations

import logging
import random
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from copy import copy
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple
from zlib import crc32

from rowbus.errors import ConfigurationError
from rowbus.log.consumers.policy import Defer, RetryAfter, Verdict, describe, judge
from rowbus.log.event import Event
from rowbus.running.functions import check_function, is_unawaited
from rowbus.running.scope import Scope, contained
from rowbus.work.attempt import Attempt, attempt, lost, outage
from rowbus.work.fate import DONE, Ending, Failure, Fate, Kind, kind_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rowbus.database.postgresql.receive_session import ReceiveSession
    from rowbus.log.consumers.policy import Retries
    from rowbus.log.consumers.table import Mark
    from rowbus.log.event import Batch
    from rowbus.work.attempt import Outcome

logger = logging.getLogger("rowbus.log")

AGAIN: Final = "their batch is delivered again"

Judged = tuple[Event, Verdict]
KeyFunction = Callable[[Event], object]


class Keys:
    """The key of an event: what a function says, or what a field holds. None means that order does not matter."""

    def __init__(self, key: str | KeyFunction | None) -> None:
        """Take a function of an event, or a field's name; raises ConfigurationError for what is neither."""
        if isinstance(key, str):
            if key not in Event._fields:
                raise ConfigurationError(f"An event has no field {key!r}; it has {', '.join(Event._fields)}.")
            position = Event._fields.index(key)
            self._key: KeyFunction | None = lambda event: event[position]
        else:
            if key is not None:
                check_function(key, "key, which gives the key of an event,", "event")
            self._key = None if key is None else lambda event: contained(partial(key, event))
        self._lane = 0, 1

    def of_lane(self, lane: int, lanes: int) -> Keys:
        """Return the same for one of so many lanes, which leaves the events of the others to them."""
        keys = copy(self)
        keys._lane = lane, lanes  # noqa: SLF001 - its own
        return keys

    def __bool__(self) -> bool:
        """Return whether events have keys."""
        return self._key is not None

    def of(self, event: Event) -> str | None:
        """Return the key of an event as text, or None; None also when the user's function fails on it."""
        if self._key is None:
            return None
        try:
            key = self._key(event)
            return None if key is None or is_unawaited(key) else str(key)
        except Exception:  # noqa: BLE001 - its handler will meet the same event, and fail or not
            return None

    def part(self, event: Event, parts: int) -> int:
        """Return which of so many parts an event belongs to."""
        if parts == 1:
            return 0
        key = self.of(event)
        return crc32((f"#{event.id}" if key is None else key).encode()) % parts

    def split(self, events: Iterable[Event], parts: int) -> list[list[Event]]:
        """Return the events of each part, in the order given."""
        if parts == 1:
            return [list(events)]
        split: list[list[Event]] = [[] for _ in range(parts)]
        for event in events:
            split[self.part(event, parts)].append(event)
        return split

    def left(self, events: Sequence[Event], marks: Sequence[Mark]) -> Sequence[Event]:
        """Return the events of the lane that are not done, by the marks of an interrupted batch."""
        lane, lanes = self._lane
        if lanes > 1:
            events = [event for event in events if self.part(event, lanes) == lane]
        if not marks:
            return events
        done = {(mark.parts, mark.part): mark.event for mark in marks}
        sizes = {mark.parts for mark in marks}
        return [
            event
            for event in events
            if all(event.id > done.get((parts, self.part(event, parts)), event.id - 1) for parts in sizes)
        ]


def resume_after(marks: Sequence[Mark]) -> int | None:
    """Return the event up to which all parts are done, or None if some part has not begun."""
    whole = [
        min(mark.event for mark in marks if mark.parts == parts)
        for parts in {mark.parts for mark in marks}
        if len({mark.part for mark in marks if mark.parts == parts}) == parts
    ]
    return max(whole, default=None)


class EventAttempt(Attempt):
    """One call of a handler, with one event or several: what it may use, and the verdicts it gives itself."""

    __slots__ = ("batch", "verdicts")

    def __init__(self, batch: Batch, session: ReceiveSession) -> None:
        """Belong to a batch and the transaction of a session."""
        super().__init__(session)
        self.batch = batch
        self.verdicts: dict[int, Judged] = {}


class Handling(NamedTuple):
    """The handling of events: `call` raises to fail; `one_by_one` gives it one event at a time."""

    call: Callable[[Sequence[Event], EventAttempt], Coroutine[object, object, None]]
    one_by_one: bool
    keys: Keys
    keep_tasks: bool = False
    judged: Callable[[Verdict], None] | None = None
    """Hears what becomes of each event that failed; None: there is no listener."""


class Waiting:
    """The keys of which an event waits to be delivered again; later events of these have to wait too."""

    def __init__(self, keys: Keys) -> None:
        """Begin with none."""
        self._keys = keys
        self._since: dict[str, tuple[int, int]] = {}  # by key: the first event that waits, the longest wait

    def add(self, event: Event, seconds: int) -> None:
        """Note that an event will be delivered again after so many seconds."""
        key = self._keys.of(event) if self._keys else None
        if key is not None:
            first, longest = self._since.get(key, (event.id, 0))
            self._since[key] = (min(first, event.id), max(longest, seconds))

    def defer(self, event: Event) -> Defer | None:
        """Say how long an event has to wait for an earlier one of its key, if it has to."""
        key = self._keys.of(event) if self._since else None
        if key is None or key not in self._since:
            return None
        first, longest = self._since[key]
        return Defer(longest) if event.id > first else None


class BatchWork(NamedTuple):
    """The batch in hand, what is common to its workers, and what tells a lost connection from a lost server.

    `is_cut_off` says whether the consumer's work is cancelled.
    """

    batch: Batch
    marks: dict[tuple[int, int], int]
    """The marks that this process has read or written."""

    retries: Retries
    waiting: Waiting
    lives_on: Callable[[], Awaitable[bool]]
    is_cut_off: Callable[[], bool]


class EventAttempts:
    """Handles events in the transaction of one session."""

    def __init__(
        self,
        handling: Handling,
        work: BatchWork,
        session: ReceiveSession,
        is_outage: Callable[[Event, BaseException], bool],
    ) -> None:
        """Handle them so, in the transaction that the session has begun; `is_outage` judges what a handler raised."""
        self._handling = handling
        self._work = work
        self._session = session
        self._is_outage = is_outage
        self.verdicts: list[Judged] = []
        self.culprit: Event | None = None  # an event that left its connection in the midst of something

    async def handle(self, events: Sequence[Event]) -> Fate:
        """Have events handled; `verdicts` then has those that failed, or have to wait.

        Return DONE if the transaction can be committed, else why it is to be rolled back, with the `culprit` where one
        event is known to be the cause.
        """
        if not self._handling.one_by_one:
            return await self._handle_together(events)
        for event in events:
            fate = await self._handle_together((event,))
            if fate is not DONE:
                return fate
        return DONE

    async def _handle_together(self, events: Sequence[Event]) -> Fate:
        """Handle events in one call; if it fails, halve them until those that fail are alone."""
        events = [event for event in events if not self._deferred(event)]
        if not events:
            return DONE
        call = EventAttempt(self._work.batch, self._session)
        outcome = await attempt(
            Scope(),
            self._handling.call(events, call),
            self._session,
            self._work.is_cut_off,
            keep_tasks=self._handling.keep_tasks,
        )
        if outcome is None:
            for event, verdict in call.verdicts.values():
                self.settle(event, verdict)
            return DONE
        if outcome.ending is Ending.UNFINISHED and len(events) == 1:
            self.culprit = events[0]
        return await self._carry_out(self._fate(events[0], outcome), events)

    async def _carry_out(self, fate: Fate, events: Sequence[Event]) -> Fate:
        """Undo and judge what failed; return what is left to do."""
        if fate.kind is not Kind.FAILED or fate.cause is None:
            return fate
        if not await self._session.undo_attempt():
            return Fate(Kind.COUNTED, fate.cause)
        if len(events) == 1:
            self.fail(events[0], fate.cause)
            return DONE
        logger.info("A call with %s events failed; they are halved: %s", len(events), describe(fate.cause))
        middle = len(events) // 2
        first = await self._handle_together(events[:middle])
        return await self._handle_together(events[middle:]) if first is DONE else first

    def _fate(self, first: Event, outcome: Outcome) -> Fate:
        ending, error = outcome
        kind = kind_of(
            ending,
            Failure(is_outage=ending is Ending.FAILED and self._is_outage(first, error)),
        )
        if kind is Kind.LOST:
            return Fate(kind, lost(error, "The connection broke while events were handled", AGAIN))
        return Fate(kind, outage(error, AGAIN) if kind is Kind.OUTAGE else error)

    def fail(self, event: Event, error: BaseException) -> Verdict:
        """Judge an event whose handler failed, and return the verdict."""
        verdict = judge(error, event.retry or 0, self._work.retries, random.random)
        what = " ".join(describe(error).split())
        logger.warning(
            "Event %s of batch %s failed (%s): %s",
            event.id,
            self._work.batch.id,
            what,
            _plain(verdict),
            extra={"event_type": event.type, "event_id": event.id, "batch_id": self._work.batch.id},
        )
        self.settle(event, verdict)
        return verdict

    def settle(self, event: Event, verdict: Verdict) -> None:
        """Note the verdict on an event."""
        self.verdicts.append((event, verdict))
        if self._handling.judged is not None:
            self._handling.judged(verdict)
        if isinstance(verdict, RetryAfter):
            self._work.waiting.add(event, verdict.seconds)

    def _deferred(self, event: Event) -> bool:
        verdict = self._work.waiting.defer(event)
        if verdict is not None:
            self.verdicts.append((event, verdict))
        return verdict is not None


def _plain(verdict: Verdict) -> str:
    return f"retry in {verdict.seconds} s" if isinstance(verdict, RetryAfter) else "dead letter"
