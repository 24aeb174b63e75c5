"""An endpoint's own sends after a message was processed: the audit copy, the retry's acknowledgement.

Invariant: both leave as the handlers' own sends do, so under the transaction mode, and not at all when the attempt
fails. What handlers do to the headers shows in the audit copy, as in .NET, and not in who is acknowledged.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, cast

from rowbus.endpoint.steps.audit_copy import audit_copy, is_acknowledged, retry_acknowledgement
from rowbus.endpoint.steps.duplicates import DUPLICATE
from rowbus.messages.dispatch import Send
from rowbus.messages.headers import Header
from rowbus.messages.state_change import AUDITED_WITH
from rowbus.messages.uuids import new_message_id
from rowbus.running.turns import onto_loop

if TYPE_CHECKING:
    from collections.abc import Awaitable, Mapping
    from datetime import timedelta

    from rowbus.messages.address import QueueAddress
    from rowbus.messages.identity import Identity
    from rowbus.messages.message import OutgoingMessage
    from rowbus.transport.receiving.delivery import Delivery, OnMessage

_KNOWN_BY = (Header.MESSAGE_ID, Header.RETRY_UNIQUE_MESSAGE_ID, Header.RETRY_ACKNOWLEDGEMENT_QUEUE)


class Audit:
    """Sends what is to be sent about a message that was processed."""

    def __init__(
        self,
        identity: Identity,
        *,
        queue: QueueAddress | None,
        time_to_be_received: timedelta | None,
    ) -> None:
        """Send copies to `queue` (None: no copies), and acknowledgements to the queue that a message names for them."""
        self._identity = identity
        self._queue = queue
        self._time_to_be_received = time_to_be_received

    def around(self, proceed: OnMessage) -> OnMessage:
        """Return the step that processes a message and, if that succeeds, leaves word of it."""

        def step(delivery: Delivery) -> Awaitable[None]:
            if self._queue is None and not is_acknowledged(delivery.headers, delivery.receive_address):
                return proceed(delivery)
            return self._process(proceed, delivery)

        return step

    async def _process(self, proceed: OnMessage, delivery: Delivery) -> None:
        received = dict(delivery.headers)
        started = datetime.now(UTC)
        await proceed(delivery)
        ended = datetime.now(UTC)
        queue = delivery.receive_address
        if acknowledgement := retry_acknowledgement(
            received, received_from=queue, message_id=new_message_id, now=ended
        ):
            await onto_loop()
            await delivery.require_queue(acknowledgement.destination)
            delivery.send(acknowledgement)
        if self._queue is not None and DUPLICATE not in delivery.items:
            left = _as_left(delivery, received)
            delivery.send(Send(self._queue, self._copy(left, delivery, started, ended)))

    def _copy(
        self, headers: dict[str, str | None], delivery: Delivery, started: datetime, ended: datetime
    ) -> OutgoingMessage:
        return audit_copy(
            headers,
            delivery.body,
            received_from=delivery.receive_address,
            identity=self._identity,
            started=started,
            ended=ended,
            time_to_be_received=self._time_to_be_received,
        )


def _as_left(delivery: Delivery, received: dict[str, str | None]) -> dict[str, str | None]:
    """Return the headers of the copy: as the handlers left them, but for those by which the platform knows the message.

    With them are those that only the copy has.
    """
    known = {name: value for name in _KNOWN_BY if (value := received.get(name))}
    found_out = cast("Mapping[str, str]", delivery.items.get(AUDITED_WITH, {}))
    return {**delivery.headers, Header.MESSAGE_ID: delivery.id, **known, **found_out}
