"""The message that is measured with: what an endpoint sends, with all standard headers and a small JSON body.

Invariant: the sides by hand send and receive the very same rows.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from rowbus.messages.headers import decode_headers, encode_copied_headers, encode_headers
from rowbus.messages.message import OutgoingMessage
from rowbus.messages.message_types import command, event, serialize
from rowbus.messages.outgoing import Origin, compose
from rowbus.transport.composition import identity_of
from rowbus.transport.delayed.policy import marked

if TYPE_CHECKING:
    from rowbus.messages.address import QueueAddress

ROW_BYTES: Final = 150  # beside headers and body: the row's head, its id, and its entries in two indexes


@command("Rowbus.Bench.PlaceOrder")
@dataclass
class PlaceOrder:
    """A command of a measurement."""

    order_id: str
    total: float


@event("Rowbus.Bench.OrderPlaced")
@dataclass
class OrderPlaced:
    """An event of a measurement."""

    order_id: str
    total: float


MESSAGE: Final = PlaceOrder("42", 9.5)
EVENT: Final = OrderPlaced("42", 9.5)
BODY: Final = serialize(MESSAGE).body


def outgoing() -> OutgoingMessage:
    """Return the message as a client composes it."""
    return compose(
        serialize(MESSAGE),
        intent="Send",
        message_id=str(uuid.uuid4()),
        now=datetime.now(UTC),
        origin=Origin(identity_of(None, None, None)),
    )


def headers_text() -> str:
    """Return its header text."""
    return encode_headers(outgoing().headers)


def headers_for(queue: QueueAddress) -> str:
    """Return its header text in a table of delayed messages, with the queue that it is for."""
    message = marked(OutgoingMessage(decode_headers(headers_text())), queue)
    return encode_copied_headers(message.headers)


def bytes_of_one() -> int:
    """Return about how much of the server's memory one message takes."""
    return len(headers_text()) + len(BODY) + ROW_BYTES
