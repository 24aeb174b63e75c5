"""The spans of a slot's round trips: what it received together, and what it settled together.

Invariant: made only where the process traces; a round trip costs nothing else.
"""

from __future__ import annotations

from time import time_ns
from typing import TYPE_CHECKING

from rowbus.messages.headers import Header
from rowbus.running.telemetry.tracing import tracing

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rowbus.messages.message import MessageRow
    from rowbus.running.telemetry.spans import Spans


class RoundTrips:
    """The round trips to one queue."""

    def __init__(self, spans: Spans, queue: str) -> None:
        """Name the queue."""
        self._spans = spans
        self._queue = queue

    @staticmethod
    def now() -> int:
        """Return the time, as `received` and `settled` take it."""
        return time_ns()

    def received(self, rows: Sequence[MessageRow], started: int) -> None:
        """Note that messages were received, by a statement that was begun then."""
        self._note("receive", rows, started)

    def settled(self, rows: Sequence[MessageRow], started: int, error: BaseException | None = None) -> None:
        """Note that messages were completed, and what they sent was sent; or the error of the commit."""
        self._note("settle", rows, started, error)

    def _note(
        self, operation: str, rows: Sequence[MessageRow], started: int, error: BaseException | None = None
    ) -> None:
        for row in rows:
            if Header.TRACEPARENT in row.headers:  # a text: it is decoded for none of this
                texts = [row.headers for row in rows]
                self._spans.batch(operation, self._queue, texts, started, error=error)
                return


def round_trips(queue: str) -> RoundTrips | None:
    """Return what notes the round trips to a queue; None: the process does not trace."""
    spans = tracing()
    return None if spans is None else RoundTrips(spans, queue)
