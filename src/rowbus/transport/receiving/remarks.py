"""A receiver's remarks on its messages: log lines for those that go an unusual way, spans of round trips.

Invariants: each remark names the row and the queue, and has the message's fields, as far as its headers can be read;
spans are made only where the process traces; a round trip costs nothing else.
"""

from __future__ import annotations

import logging
from contextlib import suppress
from typing import TYPE_CHECKING, Final, Literal

from rowbus.errors import MalformedHeadersError
from rowbus.messages.headers import Header, decode_headers
from rowbus.messages.message_names import MessageSubject
from rowbus.running.telemetry.instruments import tracing
from rowbus.transport.receiving.decisions import is_missed
from rowbus.transport.receiving.delivery import Delivery

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rowbus.messages.address import QueueAddress
    from rowbus.messages.message import MessageRow
    from rowbus.running.telemetry.spans import Spans

logger = logging.getLogger("rowbus.receiving")

DROPPED: Final = (
    "Row %s of %s is dropped: its time to be received ran out before it was tried again. It had failed: %r"
)
MOVED: Final = "Moving row %s of %s to the error queue: %s"
UNREADABLE: Final = (
    "Error receiving message. Probable message metadata corruption. Moving to error queue. (row %s of %s: %s)"
)


class Remarks:
    """Logs what happens to messages of one queue."""

    def __init__(self, address: QueueAddress) -> None:
        """Name the queue."""
        self._address = address
        self._has_noted_missed = False

    def missed(self, delivery: Delivery, time_left: float) -> None:
        """Say once how messages of other software that live as long as a look takes can be received."""
        if not self._has_noted_missed and is_missed(time_left, delivery.headers):
            self._has_noted_missed = True
            logger.warning(
                "Row %s of %s expired before it was received: its time to be received, %s, is as short as the wait "
                "between looks for messages that come without a notification. A shorter peek_delay, or on PostgreSQL "
                "foreign_notifications=True, has such messages received; this is said once.",
                delivery.id,
                self._address,
                delivery.headers.get(Header.TIME_TO_BE_RECEIVED),
                extra=about(delivery, self._address),
            )

    def dropped(self, row: MessageRow, error: BaseException) -> None:
        """Say that a message goes without having been handled: its time ran out while it was to be tried again."""
        self._say(logging.WARNING, DROPPED, row, error)

    def moved(self, row: MessageRow, error: BaseException) -> None:
        """Say that a message moves to the error queue for what it asks for, or for what its handler did."""
        self._say(logging.ERROR, MOVED, row, error)

    def unreadable(self, row: MessageRow, error: BaseException) -> None:
        """Say that a row moves to the error queue because it cannot be read."""
        self._say(logging.ERROR, UNREADABLE, row, error)

    def _say(self, level: int, text: str, row: MessageRow, error: BaseException) -> None:
        logger.log(level, text, row.id, self._address, error, extra=about(row, self._address))


def about(message: MessageRow | Delivery, address: QueueAddress) -> dict[str, object]:
    """Return what a log line says of a message, of which perhaps only the row can be read."""
    headers = message.headers if isinstance(message, Delivery) else headers_of(message)
    return MessageSubject(headers.get(Header.MESSAGE_ID) or message.id, headers, address.table).fields()


def headers_of(row: MessageRow) -> Mapping[str, str | None]:
    """Return the headers of a row, none where they cannot be read."""
    with suppress(MalformedHeadersError):
        return decode_headers(row.headers)
    return {}


class RoundTrips:
    """The round trips to one queue."""

    def __init__(self, spans: Spans, queue: str) -> None:
        """Name the queue."""
        self._spans = spans
        self._queue = queue

    def note(
        self,
        operation: Literal["receive", "settle"],
        rows: Sequence[MessageRow],
        started: int,
        error: BaseException | None = None,
    ) -> None:
        """Note that messages were received, or completed with what they sent, by a statement that was begun then.

        `error` is that of the commit.
        """
        for row in rows:
            if Header.TRACEPARENT in row.headers:  # a text: it is decoded for none of this
                texts = [row.headers for row in rows]
                self._spans.batch(operation, self._queue, texts, started, error=error)
                return


def round_trips(queue: str) -> RoundTrips | None:
    """Return what notes the round trips to a queue; None: the process does not trace."""
    spans = tracing()
    return None if spans is None else RoundTrips(spans, queue)
