"""Measures each message: how long its processing took, how old it was at the end, and how often it is retried.

Invariant: measuring never fails a message, and keeps a bounded number of measurements.
"""

from __future__ import annotations

from collections import deque
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Final

from rowbus.errors import InvalidTimestampError
from rowbus.messages.dispatch import DelayedSend
from rowbus.messages.headers import Header
from rowbus.messages.timestamps import parse_timestamp
from rowbus.platform.forms import CRITICAL_TIME, PROCESSING_TIME, RETRIES
from rowbus.platform.measurements import Measurement, milliseconds, ticks_of
from rowbus.transport.receiving.delivery import ErrorResult

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rowbus.transport.receiving.delivery import Delivery, FailedDelivery, OnError, OnMessage

MOST_KEPT: Final = 100_000  # of each kind, while monitoring cannot be reached; the oldest go first
LONGEST_TAG: Final = 4000  # characters; more than any list of types


class Meter:
    """Measures one endpoint's messages, all of its instances' queues and batches. For one event loop."""

    def __init__(self) -> None:
        """Begin with nothing measured."""
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
                self._note(RETRIES, ticks_of(datetime.now(UTC)), _tag(failed.delivery.headers), 1)
            return result

        return counted

    def take(self) -> dict[str, list[Measurement]]:
        """Return what was measured since the last time, by kind."""
        taken = {kind: list(found) for kind, found in self._found.items() if found}
        for found in self._found.values():
            found.clear()
        return taken

    def put_back(self, taken: Mapping[str, list[Measurement]]) -> None:
        """Keep what could not be sent for the next time."""
        for kind, measurements in taken.items():
            self._found[kind] = deque([*measurements, *self._found[kind]], maxlen=MOST_KEPT)

    async def _process(self, proceed: OnMessage, delivery: Delivery) -> None:
        tag, sent = _tag(delivery.headers), _sent(delivery.headers)
        started = datetime.now(UTC)
        await proceed(delivery)
        ended = datetime.now(UTC)
        ticks = ticks_of(ended)
        self._note(PROCESSING_TIME, ticks, tag, milliseconds(ended - started))
        if sent is not None:
            self._note(CRITICAL_TIME, ticks, tag, milliseconds(ended - sent))

    def _note(self, kind: str, ticks: int, tag: str, value: int) -> None:
        self._found[kind].append(Measurement(ticks, tag, value))


def _tag(headers: Mapping[str, str | None]) -> str:
    return (headers.get(Header.ENCLOSED_MESSAGE_TYPES) or "")[:LONGEST_TAG]


def _sent(headers: Mapping[str, str | None]) -> datetime | None:
    """Return when a message was to be there: when it was due, if it was delayed, else when it was sent."""
    text = headers.get(Header.DELIVER_AT) or headers.get(Header.TIME_SENT)
    try:
        return parse_timestamp(text) if text else None
    except InvalidTimestampError:
        return None
