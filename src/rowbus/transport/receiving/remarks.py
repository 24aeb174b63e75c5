"""What is logged of the messages of a queue that do not go their usual way.

Invariant: each remark names the row and the queue, and has the message's fields, as far as its headers can be read.
"""

from __future__ import annotations

import logging
from contextlib import suppress
from typing import TYPE_CHECKING

from rowbus.errors import MalformedHeadersError
from rowbus.messages.headers import Header, decode_headers
from rowbus.messages.message_names import MessageSubject
from rowbus.transport.receiving.decisions.short_lives import is_missed
from rowbus.transport.receiving.delivery import Delivery

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rowbus.messages.address import QueueAddress
    from rowbus.messages.message import MessageRow

logger = logging.getLogger("rowbus.receiving")


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
        logger.warning(
            "Row %s of %s is dropped: its time to be received ran out before it was tried again. It had failed: %r",
            row.id,
            self._address,
            error,
            extra=about(row, self._address),
        )

    def moved(self, row: MessageRow, error: BaseException) -> None:
        """Say that a message moves to the error queue for what it asks for, or for what its handler did."""
        logger.error(
            "Moving row %s of %s to the error queue: %s",
            row.id,
            self._address,
            error,
            extra=about(row, self._address),
        )

    def unreadable(self, row: MessageRow, error: BaseException) -> None:
        """Say that a row moves to the error queue because it cannot be read."""
        logger.error(
            "Error receiving message. Probable message metadata corruption. Moving to error queue. "
            "(row %s of %s: %s)",
            row.id,
            self._address,
            error,
            extra=about(row, self._address),
        )


def about(message: MessageRow | Delivery, address: QueueAddress) -> dict[str, object]:
    """Return what a log line says of a message, of which perhaps only the row can be read."""
    headers: Mapping[str, str | None] = {}
    if isinstance(message, Delivery):
        headers = message.headers
    else:
        with suppress(MalformedHeadersError):
            headers = decode_headers(message.headers)
    return MessageSubject(headers.get(Header.MESSAGE_ID) or message.id, headers, address.table).fields()
