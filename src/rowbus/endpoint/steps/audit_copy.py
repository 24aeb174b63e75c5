"""The sends that leave with a processed message: the audit copy, and the acknowledgement of ServiceControl's retry.

Invariant: the audit copy has the body as it was received and every header it is given (one that ServiceControl could
not read, under another name), and never expires by the message's own time to be received; what is added are facts about
the processing (docs/wire-format.md#audit).
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from rowbus.errors import InvalidAddressError
from rowbus.messages.dispatch import Send
from rowbus.messages.headers import Header, encode_copied_headers, write_with
from rowbus.messages.malformed_headers import without_malformed
from rowbus.messages.message import OutgoingMessage
from rowbus.messages.outgoing import COMPATIBLE_VERSION

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from datetime import timedelta

    from rowbus.messages.address import QueueAddress
    from rowbus.messages.identity import Identity


class AuditCopies:
    """Makes the audit copies of one endpoint's messages. What they all say of their processing is written once."""

    def __init__(self, identity: Identity, *, time_to_be_received: timedelta | None = None) -> None:
        """Say who processes the messages, and how long a copy is worth receiving."""
        self._processed_by = identity.processing_headers()
        self._added = {Header.PROCESSING_STARTED, Header.PROCESSING_ENDED, *self._processed_by}
        self._time_to_be_received = time_to_be_received

    def copy(
        self,
        headers: Mapping[str, str | None],
        body: bytes,
        *,
        received_from: QueueAddress,
        started: str,
        ended: str,
    ) -> OutgoingMessage:
        """Return the copy of a processed message; `headers` are the message's after its handlers.

        `started` and `ended` are timestamps, as headers have them. Raises InvalidHeaderError.
        """
        kept = without_malformed(headers)
        if not kept.keys().isdisjoint(self._added):
            kept = {name: value for name, value in kept.items() if name not in self._added}
        if is_acknowledged(headers, received_from):
            kept[Header.RETRY_ACKNOWLEDGEMENT_SENT] = "true"
        facts = f'"{Header.PROCESSING_STARTED}":"{started}","{Header.PROCESSING_ENDED}":"{ended}",{self._who}'
        return OutgoingMessage(write_with(kept, facts), body, self._time_to_be_received)

    @cached_property
    def _who(self) -> str:
        """The members that say who processed a message."""
        return encode_copied_headers(self._processed_by)[1:-1]


def retry_acknowledgement(
    headers: Mapping[str, str | None],
    *,
    received_from: QueueAddress,
    message_id: Callable[[], str],
    now: str,
) -> Send | None:
    """Return what tells ServiceControl that a message it had retried was processed, None if it is no such message.

    `now` is a timestamp, as headers have it.
    """
    queue = _acknowledgement_queue(headers, received_from)
    if queue is None:
        return None
    acknowledgement = {
        Header.MESSAGE_ID: message_id(),
        Header.CONTROL_MESSAGE: "True",
        Header.VERSION: COMPATIBLE_VERSION,
        Header.TIME_SENT: now,
        Header.RETRY_UNIQUE_MESSAGE_ID: headers[Header.RETRY_UNIQUE_MESSAGE_ID],
        Header.RETRY_SUCCESSFUL: now,
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
