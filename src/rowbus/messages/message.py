"""Messages as values: what goes into a queue and what comes out of it.

Invariant: a message in hand keeps the header text exactly as it was read, so that it can be given up on without loss.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from rowbus.messages.headers import Header

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import timedelta

    from rowbus.messages.address import QueueAddress


class KeptValue(NamedTuple):
    """A value that leaves with a message, into a table: in the transaction that sends the message.

    `keep_for` is how long it is kept after the message may first be received.
    """

    table: QueueAddress
    id: str
    content: bytes
    keep_for: timedelta


class OutgoingMessage(NamedTuple):
    """A message to be sent: headers, body, and how long it is worth receiving (None: for ever).

    `kept` are values that leave with it.
    """

    headers: Mapping[str, str | None]
    body: bytes = b""
    time_to_be_received: timedelta | None = None
    kept: tuple[KeptValue, ...] = ()

    @property
    def message_id(self) -> str:
        """The id that it has in its headers."""
        return self.headers.get(Header.MESSAGE_ID) or ""


class MessageRow(NamedTuple):
    """A row of a queue as it was received.

    `id` is the row's, never the message's; `time_left` says, by the database's clock, for how many seconds more it may
    be received (None: for ever); `headers` is the raw text; `body` is None only if other software wrote NULL on
    PostgreSQL; `seq` is the position in the queue.
    """

    id: str
    time_left: float | None
    headers: str
    body: bytes | None
    seq: int

    @property
    def expired(self) -> bool:
        """Whether its time to be received was over when it was received."""
        return self.time_left is not None and self.time_left <= 0


class PeekedMessage(NamedTuple):
    """A row looked at without being taken; `expires` is an aware UTC time or None.

    Headers and body are their beginning only when they are long; `cut_from` is the size of a body that was cut.
    """

    id: str
    expires: object
    headers: str
    body: bytes | None
    seq: int
    cut_from: int | None = None
