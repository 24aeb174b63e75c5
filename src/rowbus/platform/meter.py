"""Measures each message: how long its processing took, how old it was at the end, and how often it is retried.

A message that is processed costs one note; what it says is worked out when the measurements are taken.

Invariant: measuring never fails a message, and keeps a bounded number of measurements.
"""

from __future__ import annotations

from collections import deque
from functools import lru_cache, partial
from time import time
from typing import TYPE_CHECKING, Final

from rowbus.errors import InvalidTimestampError
from rowbus.messages.dispatch import DelayedSend
from rowbus.messages.headers import Header
from rowbus.messages.timestamps import parse_timestamp
from rowbus.platform.forms import CRITICAL_TIME, PROCESSING_TIME, RETRIES
from rowbus.platform.measurements import Measurement, milliseconds_between, ticks_at
from rowbus.transport.receiving.delivery import ErrorResult

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rowbus.transport.receiving.delivery import Delivery, FailedDelivery, OnError, OnMessage

MOST_KEPT: Final = 100_000  # of each kind, while monitoring cannot be reached; the oldest go first
LONGEST_TAG: Final = 4000  # characters; more than any list of types

Processed = tuple[str | None, str | None, float, float]
"""A message processed: its types, the text of when it was sent, when its processing began and ended, in seconds."""


class Meter:
    """Measures one endpoint's messages, all of its instances' queues and batches. For one event loop."""

    def __init__(self) -> None:
        """Begin with nothing measured."""
        self._processed: deque[Processed] = deque(maxlen=MOST_KEPT)
        self._found: dict[str, deque[Measurement]] = {
            kind: deque(maxlen=MOST_KEPT) for kind in (PROCESSING_TIME, CRITICAL_TIME, RETRIES)
        }

    def around(self, proceed: OnMessage) -> OnMessage:
        """Return the step that measures a message that is processed successfully."""
        return partial(self._process, proceed)

    def on_error(self, decide: OnError) -> OnError:
        """Return an error policy that counts its retries, immediate ones and delayed ones."""

        async def counted(failed: FailedDelivery) -> ErrorResult:
            result = await decide(failed)
            sends = failed.delivery.sends
            if result is ErrorResult.RETRY_REQUIRED or any(isinstance(one, DelayedSend) for one in sends):
                tag = _tag(failed.delivery.headers.get(Header.ENCLOSED_MESSAGE_TYPES))
                self._found[RETRIES].append(Measurement(ticks_at(time()), tag, 1))
            return result

        return counted

    def take(self) -> dict[str, list[Measurement]]:
        """Return what was measured since the last time, by kind."""
        self._work_out()
        taken = {kind: list(found) for kind, found in self._found.items() if found}
        for found in self._found.values():
            found.clear()
        return taken

    def put_back(self, taken: Mapping[str, list[Measurement]]) -> None:
        """Keep what could not be sent for the next time."""
        for kind, measurements in taken.items():
            self._found[kind] = deque([*measurements, *self._found[kind]], maxlen=MOST_KEPT)

    async def _process(self, proceed: OnMessage, delivery: Delivery) -> None:
        headers = delivery.headers
        types, sent = headers.get(Header.ENCLOSED_MESSAGE_TYPES), _sent(headers)
        started = time()
        await proceed(delivery)
        self._processed.append((types, sent, started, time()))

    def _work_out(self) -> None:
        """Make measurements of the messages processed since the last time."""
        processing, critical = self._found[PROCESSING_TIME], self._found[CRITICAL_TIME]
        while self._processed:
            types, sent, started, ended = self._processed.popleft()
            tag, ticks = _tag(types), ticks_at(ended)
            processing.append(Measurement(ticks, tag, milliseconds_between(started, ended)))
            if (at := _instant(sent)) is not None:
                critical.append(Measurement(ticks, tag, milliseconds_between(at, ended)))


def _tag(types: str | None) -> str:
    return (types or "")[:LONGEST_TAG]


def _sent(headers: Mapping[str, str | None]) -> str | None:
    """Return the text of when a message was to be there: when it was due, if it was delayed, else when it was sent."""
    return headers.get(Header.DELIVER_AT) or headers.get(Header.TIME_SENT)


def _instant(text: str | None) -> float | None:
    """Return an instant in seconds; None for text that is none."""
    try:
        return _second(text[:20]) + int(text[20:26]) / 1_000_000 if text else None
    except (InvalidTimestampError, ValueError):
        return None


@lru_cache(maxsize=256)  # many messages are sent in one second
def _second(text: str) -> float:
    """Return the instant of a timestamp's first 20 characters, which end with the second."""
    return parse_timestamp(f"{text}000000 Z").timestamp()
