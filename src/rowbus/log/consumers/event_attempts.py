"""Has events handled inside a transaction, so that those that fail do not spoil it for the others.

Invariant: after `handle` every event's work either stands in the transaction or is undone and has a verdict.
"""

from __future__ import annotations

import logging
import random
from collections.abc import Callable, Coroutine, Sequence
from typing import TYPE_CHECKING, NamedTuple

from rowbus.errors import ConnectionLostError, StorageError
from rowbus.errors.exception_facts import sqlstate_of
from rowbus.log.consumers.policy import Defer, RetryAfter, Verdict, describe, judge
from rowbus.log.event import Event
from rowbus.work import attempt as work
from rowbus.work.attempt import Attempt, Ending

if TYPE_CHECKING:
    from rowbus.database.postgresql.receive_session import ReceiveSession
    from rowbus.log.consumers.keys import Keys
    from rowbus.log.consumers.policy import Retries
    from rowbus.log.event import Batch

logger = logging.getLogger("rowbus.log")

Judged = tuple[Event, Verdict]


class TransactionEndedError(Exception):
    """A handler ended the transaction; its cause says how."""


class CulpritError(Exception):
    """A handler left its connection in the midst of something, with one event in hand; the cause says how."""

    def __init__(self, event: Event, cause: BaseException) -> None:
        """Name the event."""
        super().__init__(str(cause))
        self.event, self.__cause__ = event, cause


class EventAttempt(Attempt):
    """One call of a handler, with one event or several: what it may use, and the verdicts it gives itself."""

    __slots__ = ("batch", "verdicts")

    def __init__(self, batch: Batch, session: ReceiveSession) -> None:
        """Belong to a batch and the transaction of a session."""
        super().__init__(session)
        self.batch = batch
        self.verdicts: dict[int, Judged] = {}


class Handling(NamedTuple):
    """Who handles events and how: `call` raises to fail; `one_by_one` gives it one event at a time."""

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


class EventAttempts:
    """Handles events in the transaction of one session."""

    def __init__(
        self,
        handling: Handling,
        retries: Retries,
        batch: Batch,
        session: ReceiveSession,
        waiting: Waiting,
        *,
        is_outage: Callable[[Event, BaseException], bool],
        is_cut_off: Callable[[], bool],
    ) -> None:
        """Say how; the session is in the transaction of the batch's work, `is_outage` judges what a handler raised.

        `is_cut_off` says whether the consumer's work is cancelled.
        """
        self._handling = handling
        self._retries = retries
        self._batch = batch
        self._session = session
        self._waiting = waiting
        self._is_outage, self._is_cut_off = is_outage, is_cut_off
        self.verdicts: list[Judged] = []

    async def handle(self, events: Sequence[Event]) -> None:
        """Have events handled; `verdicts` then has those that failed, or have to wait.

        Raises TransactionEndedError or CulpritError, and StorageError when the transaction is lost.
        """
        if not self._handling.one_by_one:
            await self._handle_together(events)
            return
        for event in events:
            await self._handle_together((event,))

    async def _handle_together(self, events: Sequence[Event]) -> None:
        """Handle events in one call; if it fails, halve them until those that fail are alone."""
        events = [event for event in events if not self._deferred(event)]
        if not events:
            return
        attempt = EventAttempt(self._batch, self._session)
        error = await self._attempt(events, attempt)
        if error is None:
            for event, verdict in attempt.verdicts.values():
                self.settle(event, verdict)
        elif len(events) == 1:
            self.fail(events[0], error)
        else:
            logger.info("A call with %s events failed; they are halved: %s", len(events), describe(error))
            middle = len(events) // 2
            await self._handle_together(events[:middle])
            await self._handle_together(events[middle:])

    def fail(self, event: Event, error: BaseException) -> None:
        """Judge an event whose handler failed."""
        verdict = judge(error, event.retry or 0, self._retries, random.random)
        what = " ".join(describe(error).split())
        logger.warning(
            "Event %s of batch %s failed (%s): %s",
            event.id,
            self._batch.id,
            what,
            _plain(verdict),
            extra={"event_type": event.type, "event_id": event.id, "batch_id": self._batch.id},
        )
        self.settle(event, verdict)

    def settle(self, event: Event, verdict: Verdict) -> None:
        """Note the verdict on an event."""
        self.verdicts.append((event, verdict))
        if self._handling.judged is not None:
            self._handling.judged(verdict)
        if isinstance(verdict, RetryAfter):
            self._waiting.add(event, verdict.seconds)

    def _deferred(self, event: Event) -> bool:
        verdict = self._waiting.defer(event)
        if verdict is not None:
            self.verdicts.append((event, verdict))
        return verdict is not None

    async def _attempt(self, events: Sequence[Event], attempt: EventAttempt) -> BaseException | None:
        """Call the handler; on failure undo what it did and return the error."""
        outcome = await work.attempt(
            self._handling.call(events, attempt),
            self._session,
            self._is_cut_off,
            keep_tasks=self._handling.keep_tasks,
        )
        if outcome is not None:
            await self._undo(events, *outcome)
        return None if outcome is None else outcome.error

    async def _undo(self, events: Sequence[Event], ending: Ending, error: BaseException) -> None:
        if ending is Ending.LOST:  # which is not the event's fault
            raise ConnectionLostError(
                "The connection broke while events were handled; their batch is delivered again.",
                sqlstate=None,
                transient=True,
            ) from error
        if ending is Ending.UNFINISHED and len(events) == 1:
            raise CulpritError(events[0], error) from error
        if ending is Ending.UNFINISHED:
            raise ConnectionLostError(str(error), sqlstate=None, transient=True) from error
        if ending is Ending.ENDED:
            raise TransactionEndedError from error
        if self._is_outage(events[0], error):
            raise StorageError(
                f"A handler met an outage; its batch is delivered again: {describe(error)}",
                sqlstate=sqlstate_of(error),
                transient=True,
            ) from error
        await self._session.undo_attempt()


def _plain(verdict: Verdict) -> str:
    return f"retry in {verdict.seconds} s" if isinstance(verdict, RetryAfter) else "dead letter"
