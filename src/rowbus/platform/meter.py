"""Measures each message: how long its processing took, how old it was at the end, and how often it is retried.

A message that is processed costs one note of raw values; what it says is worked out when the measurements are taken, in
pieces between which messages are handled.

Invariant: measuring never fails a message, and keeps a bounded number of measurements.
"""

from __future__ import annotations

import asyncio
from collections import deque
from functools import lru_cache
from time import time_ns
from typing import TYPE_CHECKING, Final

from rowbus.errors import InvalidTimestampError
from rowbus.messages.headers import Header
from rowbus.messages.timestamps import parse_timestamp
from rowbus.platform.forms import CRITICAL_TIME, PROCESSING_TIME, RETRIES, TICKS_OF_1970, ticks_at
from rowbus.transport.recoverability.policy import Decision, DelayedRetry, ImmediateRetry

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rowbus.platform.forms import Entry
    from rowbus.transport.receiving.delivery import Delivery, OnMessage
    from rowbus.transport.recoverability.policy import Throttling

MOST_KEPT: Final = 100_000  # of each kind, while monitoring cannot be reached; the oldest go first

AT_ONCE: Final = 1000  # notes worked out before others have their turn: about a millisecond

# Looked up for each message.
_TYPES: Final = Header.ENCLOSED_MESSAGE_TYPES
_DELIVER_AT: Final = Header.DELIVER_AT
_TIME_SENT: Final = Header.TIME_SENT

Processed = tuple[str | None, str | None, int, int]
"""A message processed: its types, the text of when it was to be there (when it was due, if it was delayed, else when it
was sent), when its processing began and ended, in nanoseconds."""


class Meter:
    """Measures one endpoint's messages, all of its instances' queues and batches. For one event loop."""

    def __init__(self) -> None:
        """Begin with nothing measured."""
        self._processed: deque[Processed] = deque(maxlen=MOST_KEPT)
        self._found: dict[str, deque[Entry]] = {
            kind: deque(maxlen=MOST_KEPT) for kind in (PROCESSING_TIME, CRITICAL_TIME, RETRIES)
        }

    def around(self, proceed: OnMessage) -> OnMessage:
        """Return the step that measures a message that is processed successfully."""
        note = self._processed.append

        async def measured(delivery: Delivery) -> None:
            read = delivery.headers.get
            types, sent = read(_TYPES), read(_DELIVER_AT) or read(_TIME_SENT)
            started = time_ns()
            await proceed(delivery)
            note((types, sent, started, time_ns()))

        return measured

    def observe(self, event: Decision | Throttling) -> None:
        """Count retries, immediate ones and delayed ones."""
        if isinstance(event, Decision) and isinstance(event.verdict, ImmediateRetry | DelayedRetry):
            tag = event.attempt.headers.get(_TYPES) or ""
            self._found[RETRIES].append((ticks_at(time_ns()), tag, 1))

    @property
    def has_measured(self) -> bool:
        """Whether there is what nobody took yet."""
        return bool(self._processed) or any(self._found.values())

    async def take(self) -> dict[str, list[Entry]]:
        """Return what was measured since the last time, by kind."""
        for _ in range(0, len(self._processed), AT_ONCE):
            self._work_out(AT_ONCE)
            await asyncio.sleep(0)
        taken = {kind: list(found) for kind, found in self._found.items() if found}
        for found in self._found.values():
            found.clear()
        return taken

    def put_back(self, taken: Mapping[str, list[Entry]]) -> None:
        """Keep what could not be sent for the next time."""
        for kind, measurements in taken.items():
            self._found[kind] = deque([*measurements, *self._found[kind]], maxlen=MOST_KEPT)

    def _work_out(self, count: int) -> None:
        """Make measurements of the first messages of those processed since the last time."""
        take = self._processed.popleft
        notes = [take() for _ in range(min(count, len(self._processed)))]
        self._found[PROCESSING_TIME].extend(
            [
                (ended // 100 + TICKS_OF_1970, types or "", (ended - started) // 1_000_000)
                for types, _, started, ended in notes
            ]
        )
        self._found[CRITICAL_TIME].extend(
            [
                (ended // 100 + TICKS_OF_1970, types or "", (ended - at) // 1_000_000)
                for types, sent, _, ended in notes
                if sent and (at := _instant(sent)) is not None
            ]
        )


def _instant(text: str) -> int | None:
    """Return an instant in nanoseconds; None for text that is none."""
    try:
        return _second(text[:20]) + int(text[20:26]) * 1000
    except (InvalidTimestampError, ValueError):
        return None


@lru_cache(maxsize=256)  # many messages are sent in one second
def _second(text: str) -> int:
    """Return the instant of a timestamp's first 20 characters, which end with the second."""
    return int(parse_timestamp(f"{text}000000 Z").timestamp()) * 1_000_000_000
