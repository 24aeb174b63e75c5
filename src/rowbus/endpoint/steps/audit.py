"""An endpoint's own sends after a message was processed: its audit copy, a retry's acknowledgement, its sagas' changes.

The changes of sagas are told to ServiceControl as .NET's plug-in SagaAudit tells them.

Invariants: all leave as the handlers' own sends do, so under the transaction mode, and not at all when the attempt
fails; what handlers do to the headers shows in the audit copy, as in .NET, and not in who is acknowledged; the audit
copy has the body as it was received and every header it is given (one that ServiceControl could not read, under another
name), unless a mutator changes it, and never expires by the message's own time to be received; what is added to it are
facts about the processing (docs/wire-format.md#audit); changes of sagas leave before the audit copy, and one that
cannot be told is logged, and fails no message.
"""

from __future__ import annotations

import logging
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, cast

from rowbus.endpoint.pipeline import where_marked
from rowbus.endpoint.steps.duplicates import DUPLICATE
from rowbus.errors import InvalidAddressError, MessageSerializationError
from rowbus.messages.dispatch import Send
from rowbus.messages.headers import Header
from rowbus.messages.malformed_headers import is_guid, without_malformed
from rowbus.messages.message import OutgoingMessage, new_message_id
from rowbus.messages.mutators import changed_copy
from rowbus.messages.state_change import AUDITED_WITH, STATE_CHANGES, StateChange, audit_headers
from rowbus.messages.timestamps import format_timestamp
from rowbus.running.turns import onto_loop
from rowbus.transport.recoverability.failed_message import acknowledgement

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import timedelta

    from rowbus.endpoint.parts import Parts
    from rowbus.messages.address import QueueAddress
    from rowbus.messages.headers import Identity
    from rowbus.platform.reports import Reporter
    from rowbus.transport.receiving.delivery import Delivery, OnMessage


logger = logging.getLogger("rowbus.platform")

_KNOWN_BY = (Header.MESSAGE_ID, Header.RETRY_UNIQUE_MESSAGE_ID, Header.RETRY_ACKNOWLEDGEMENT_QUEUE)


def audit_copy(
    headers: Mapping[str, str | None],
    body: bytes,
    *,
    received_from: QueueAddress,
    identity: Identity,
    started: datetime,
    ended: datetime,
    time_to_be_received: timedelta | None = None,
) -> OutgoingMessage:
    """Return the copy of a processed message for the audit queue; `headers` are the message's after its handlers."""
    facts = {
        Header.PROCESSING_STARTED: format_timestamp(started),
        Header.PROCESSING_ENDED: format_timestamp(ended),
        **identity.processing_headers(),
    }
    if _acknowledgement_queue(headers, received_from) is not None:
        facts[Header.RETRY_ACKNOWLEDGEMENT_SENT] = "true"
    return OutgoingMessage({**without_malformed(headers), **facts}, body, time_to_be_received)


def retry_acknowledgement(
    headers: Mapping[str, str | None],
    *,
    received_from: QueueAddress,
    now: datetime,
) -> Send | None:
    """Return what tells ServiceControl that a message it had retried was processed, None if it is no such message."""
    queue = _acknowledgement_queue(headers, received_from)
    if queue is None:
        return None
    retry_id = headers[Header.RETRY_UNIQUE_MESSAGE_ID] or ""
    return Send(queue, acknowledgement(retry_id, new_message_id(), now))


def _acknowledgement_queue(
    headers: Mapping[str, str | None], received_from: QueueAddress
) -> QueueAddress | None:
    """Return where the acknowledgement goes; nowhere if it is not asked for, or no header says where.

    One of an id that is no GUID would stop ServiceControl's import of all that it reads with it.
    """
    address = headers.get(Header.RETRY_ACKNOWLEDGEMENT_QUEUE)
    if not (address and is_guid(headers.get(Header.RETRY_UNIQUE_MESSAGE_ID) or "")):
        return None
    try:
        return received_from.neighbour(address)
    except InvalidAddressError:
        return None


class Audit:
    """Sends what is to be sent about a message that was processed."""

    def __init__(self, parts: Parts, identity: Identity) -> None:
        """Send copies to the endpoint's audit queue, if it has one, and acknowledgements to where a message says.

        That is the error queue where ServiceControl asks: the endpoint's own is its operator's choice, and not judged.
        """
        self._parts = parts
        self._identity = identity

    def around(self, proceed: OnMessage) -> OnMessage:
        """Return the step that processes a message and, if that succeeds, leaves word of it."""
        step = partial(self._process, proceed)
        if self._parts.audit_queue is not None:
            return step
        return where_marked(Header.RETRY_ACKNOWLEDGEMENT_QUEUE, step, proceed)

    async def _process(self, proceed: OnMessage, delivery: Delivery) -> None:
        received = dict(delivery.headers)
        started = datetime.now(UTC)
        await proceed(delivery)
        ended = datetime.now(UTC)
        queue = delivery.receive_address
        if told := retry_acknowledgement(received, received_from=queue, now=ended):
            await onto_loop()
            if told.destination != self._parts.error_queue:
                await delivery.require(told.destination)
            delivery.send(told)
        if self._parts.audit_queue is not None and DUPLICATE not in delivery.items:
            copy = audit_copy(
                _as_left(delivery, received),
                delivery.body,
                received_from=queue,
                identity=self._identity,
                started=started,
                ended=ended,
                time_to_be_received=self._parts.settings.audit_time_to_be_received,
            )
            delivery.send(Send(self._parts.audit_queue, changed_copy(copy, self._parts.mutators)))


def _as_left(delivery: Delivery, received: dict[str, str | None]) -> dict[str, str | None]:
    """Return the headers of the copy: as the handlers left them, but for those by which the platform knows the message.

    With them are those that only the copy has.
    """
    known = {name: value for name in _KNOWN_BY if (value := received.get(name))}
    found_out = cast("Mapping[str, str]", delivery.items.get(AUDITED_WITH, {}))
    return {**delivery.headers, Header.MESSAGE_ID: delivery.id, **known, **found_out}


async def tell_sagas(reporter: Reporter, queue: QueueAddress, proceed: OnMessage, delivery: Delivery) -> None:
    """Process a message, and tell the changes of sagas to `queue`, from which ServiceControl receives."""
    changes: list[StateChange] = []
    delivery.items[STATE_CHANGES] = changes
    received = dict(delivery.headers)
    await proceed(delivery)
    for change in changes:
        try:
            delivery.send(Send(queue, reporter.saga_change(change, received)))
        except MessageSerializationError as error:
            logger.warning("The change of saga %s is not told to ServiceControl: %s", change.id, error)
    delivery.items[AUDITED_WITH] = audit_headers(changes)
