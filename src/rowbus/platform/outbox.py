"""One queue of ServiceControl's, and how messages get there.

Invariant: what is not sent raises; nothing here reaches the endpoint's critical-error callback.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from rowbus.messages.dispatch import Send
from rowbus.running.critical import Alarm, ReportedBreaker

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rowbus.messages.address import QueueAddress
    from rowbus.messages.message import OutgoingMessage
    from rowbus.transport.receiving.dispatcher import Dispatcher

logger = logging.getLogger("rowbus.platform")


class Outbox:
    """Sends to one queue."""

    def __init__(self, dispatcher: Dispatcher, queue: QueueAddress) -> None:
        """Send to `queue`, which ServiceControl made. No I/O."""
        self._dispatcher = dispatcher
        self._queue = queue

    async def send(self, messages: Iterable[OutgoingMessage]) -> None:
        """Send them in one transaction of their own. Raises QueueNotFoundError, StorageError."""
        await self._dispatcher.dispatch([Send(self._queue, message) for message in messages])

    def outages(self, activity: str, failure: str) -> ReportedBreaker:
        """Return the breaker of a service that sends here; what fails for long is logged, and no more."""
        return ReportedBreaker(activity, f"{failure} ({self._queue})", logger, Alarm(_log_lasting))


def _log_lasting(text: str, error: BaseException) -> None:
    logger.error("%s for long: %s", text, error)
