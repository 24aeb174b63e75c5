"""The sends that leave with a processed message: the audit copy, and the acknowledgement of ServiceControl's retry.

Invariant: the audit copy has the body as it was received and every header it is given (one that ServiceControl could
not read, under another name), and never expires by the message's own time to be received; what is added are facts about
the processing (docs/wire-format.md#audit).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rowbus.errors import InvalidAddressError
from rowbus.messages.dispatch import Send
from rowbus.messages.headers import Header
from rowbus.messages.malformed_headers import without_malformed
from rowbus.messages.message import OutgoingMessage
from rowbus.messages.outgoing import COMPATIBLE_VERSION
from rowbus.messages.timestamps import format_timestamp

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from datetime import datetime, timedelta

    from rowbus.messages.address import QueueAddress
    from rowbus.messages.identity import Identity


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
    if is_acknowledged(headers, received_from):
        facts[Header.RETRY_ACKNOWLEDGEMENT_SENT] = "true"
    return OutgoingMessage({**without_malformed(headers), **facts}, body, time_to_be_received)


def retry_acknowledgement(
    headers: Mapping[str, str | None],
    *,
    received_from: QueueAddress,
    message_id: Callable[[], str],
    now: datetime,
) -> Send | None:
    """Return what tells ServiceControl that a message it had retried was processed, None if it is no such message."""
    queue = _acknowledgement_queue(headers, received_from)
    if queue is None:
        return None
    acknowledgement = {
        Header.MESSAGE_ID: message_id(),
        Header.CONTROL_MESSAGE: "True",
        Header.VERSION: COMPATIBLE_VERSION,
        Header.TIME_SENT: format_timestamp(now),
        Header.RETRY_UNIQUE_MESSAGE_ID: headers[Header.RETRY_UNIQUE_MESSAGE_ID],
        Header.RETRY_SUCCESSFUL: format_timestamp(now),
    }
    return Send(queue, OutgoingMessage(acknowledgement))


def is_acknowledged(headers: Mapping[str, str | None], received_from: QueueAddress) -> bool:
    """Say whether the processing of such a message is acknowledged."""
    return _acknowledgement_queue(headers, received_from) is not None


def _acknowledgement_queue(
    headers: Mapping[str, str | None], received_from: QueueAddress
) -> QueueAddress | None:
    """Return where the acknowledgement goes; nowhere if it is not asked for, or no header says where."""
    address = headers.get(Header.RETRY_ACKNOWLEDGEMENT_QUEUE)
    if not (address and headers.get(Header.RETRY_UNIQUE_MESSAGE_ID)):
        return None
    try:
        return received_from.neighbour(address)
    except InvalidAddressError:
        return None
