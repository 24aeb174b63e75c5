"""Measures and traces what a consumer handles, where that is turned on.

Invariant: without a wish nothing is put around the handlers; measuring and tracing change nothing of the events.
"""

from __future__ import annotations

from contextlib import contextmanager, nullcontext
from time import time
from typing import TYPE_CHECKING

from rowbus.log.cause import NO_CAUSE, read_cause
from rowbus.log.consumers.policy import RetryAfter
from rowbus.running.handling import concerning
from rowbus.running.telemetry.instruments import instruments
from rowbus.running.telemetry.tracing import tracing

if TYPE_CHECKING:
    from collections.abc import Generator, Mapping, Sequence

    from rowbus.log.consumers.event_attempts import EventAttempt, Handling
    from rowbus.log.consumers.policy import Verdict
    from rowbus.log.event import Batch, Event


class BatchSubject:
    """A batch in hand: what lines about it and its events say."""

    __slots__ = ("_consumer", "_log", "handler", "id")

    def __init__(self, log: str, consumer: str, batch: Batch) -> None:
        """Take the names as they are."""
        self.id = str(batch.id)
        self.handler = ""
        self._log = log
        self._consumer = consumer

    def fields(self) -> Mapping[str, object]:
        """Return what a log line says of it."""
        return {"log": self._log, "consumer": self._consumer, "batch_id": int(self.id)}

    def cause(self) -> Mapping[str, str]:
        """Return nothing: its events cause changes."""
        return {}


class EventsSubject(BatchSubject):
    """Events of a batch that a handler is called with: what a change that it makes says it was caused by."""

    __slots__ = ("_events",)

    def __init__(self, log: str, consumer: str, batch: Batch, events: Sequence[Event], handler: str) -> None:
        """Take them as they are; nothing is read before something is changed."""
        super().__init__(log, consumer, batch)
        self.handler = handler
        self._events = events

    def cause(self) -> Mapping[str, str]:
        """Return `log/event` as the message, `log/first-last` where there are several; their type, if all have one.

        An event that tells a cause of its own, as that of a captured table does, goes on with the conversation, the
        user and the request.
        """
        first, last = self._events[0], self._events[-1]
        types = {event.type or "" for event in self._events}
        earlier = read_cause(first.extra4) if first is last else NO_CAUSE
        return {
            "message_id": f"{self._log}/{first.id}" + ("" if first is last else f"-{last.id}"),
            "conversation_id": earlier.conversation_id or "",
            "message_type": types.pop() if len(types) == 1 else "",
            "handler": self.handler,
            "endpoint": self._consumer,
            "user": earlier.user or "",
            "request": earlier.request or "",
        }


class Telling:
    """Tells of one consumer's batches and events."""

    def __init__(self, log: str, consumer: str) -> None:
        """Find out what is wanted, now: for as long as the consumer is started."""
        self._log = log
        self._labels = (log, consumer)
        self._measured = instruments()
        self._spans = tracing()

    @contextmanager
    def batch(self, batch: Batch) -> Generator[None]:
        """Tell of a batch that is worked off within."""
        started, measured, spans = time(), self._measured, self._spans
        if measured is not None:
            measured.consumer_lag.set(max(0.0, started - batch.to_time.timestamp()), self._labels)
        facts: dict[str, str | int] = {
            "rowbus.batch": batch.id,
            "messaging.consumer.group.name": self._labels[1],
        }
        span = nullcontext() if spans is None else spans.events("receive", self._log, (), facts)
        with concerning(BatchSubject(*self._labels, batch)), span:
            yield
        if measured is not None:
            measured.batches.add(self._labels)
            measured.batch_seconds.observe(time() - started, self._labels)

    def around(self, handling: Handling) -> Handling:
        """Return what handles events, measured and traced as it is wanted."""
        if self._spans is None and self._measured is None:
            return handling
        call, measured, spans = handling.call, self._measured, self._spans

        async def told(events: Sequence[Event], attempt: EventAttempt) -> None:
            if spans is None or (len(events) == 1 and events[0].extra4 is None):
                await call(events, attempt)
            else:
                facts: dict[str, str | int] = {"messaging.batch.message_count": len(events)}
                if len(events) == 1:
                    facts = {"messaging.message.id": str(events[0].id)}
                facts["messaging.consumer.group.name"] = self._labels[1]
                with spans.events("process", self._log, (event.extra4 for event in events), facts):
                    await call(events, attempt)
            if measured is not None:
                measured.events.add(self._labels, len(events))

        return handling._replace(call=told, judged=None if measured is None else self._judged)

    def _judged(self, verdict: Verdict) -> None:
        if self._measured is not None:
            kind = "retry" if isinstance(verdict, RetryAfter) else "dead letter"
            self._measured.events_failed.add((*self._labels, kind))
