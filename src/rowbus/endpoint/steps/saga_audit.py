"""Tells ServiceControl what a message did to the endpoint's sagas, as .NET's plug-in SagaAudit does.

Invariant: what is told leaves with the message's own sends, before its audit copy; a change that cannot be told is
logged, and fails no message.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from rowbus.errors import MessageSerializationError
from rowbus.messages.dispatch import Send
from rowbus.messages.state_change import AUDITED_WITH, STATE_CHANGES, StateChange, audit_headers

if TYPE_CHECKING:
    from rowbus.messages.address import QueueAddress
    from rowbus.platform.reports import Reporter
    from rowbus.transport.receiving.delivery import Delivery, OnMessage

logger = logging.getLogger("rowbus.platform")


class SagaAudit:
    """Tells the changes of one endpoint's sagas."""

    def __init__(self, reporter: Reporter, queue: QueueAddress) -> None:
        """Send to `queue`, from which ServiceControl's audit instance receives."""
        self._reporter = reporter
        self._queue = queue

    def around(self, proceed: OnMessage) -> OnMessage:
        """Return the step that processes a message and tells the changes that it has made."""

        async def step(delivery: Delivery) -> None:
            changes: list[StateChange] = []
            delivery.items[STATE_CHANGES] = changes
            received = dict(delivery.headers)
            await proceed(delivery)
            for change in changes:
                self._tell(delivery, change, received)
            delivery.items[AUDITED_WITH] = audit_headers(changes)

        return step

    def _tell(self, delivery: Delivery, change: StateChange, received: dict[str, str | None]) -> None:
        try:
            delivery.send(Send(self._queue, self._reporter.saga_change(change, received)))
        except MessageSerializationError as error:
            logger.warning("The change of saga %s is not told to ServiceControl: %s", change.id, error)
