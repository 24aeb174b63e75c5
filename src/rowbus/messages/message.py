"""Messages as values: what goes into a queue and what comes out of it, their ids, and how people read them.

Ids are random: version 4 UUIDs (RFC 9562); many are made in blocks, without the standard library's UUID object.

Invariants: a message in hand keeps the header text exactly as it was read, so that it can be given up on without loss;
what cannot be decoded is given all the same, as raw text or hexadecimal digits, and says so; an id has 122 bits from
the operating system's generator, and nothing is remembered outside an iterator, so that forked processes and threads
never share one.
"""

from __future__ import annotations

import codecs
import os
from typing import TYPE_CHECKING, NamedTuple
from uuid import uuid4

from rowbus.errors import InvalidTimestampError, MalformedHeadersError
from rowbus.messages.headers import Header, decode_headers
from rowbus.messages.timestamps import parse_timestamp

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from datetime import datetime, timedelta

    from rowbus.messages.address import QueueAddress


_ENCODINGS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)

_BLOCK = 256  # ids that are made at once
_VERSION = bytes(byte & 0x0F | 0x40 for byte in range(256))
_VARIANT = bytes(byte & 0x3F | 0x80 for byte in range(256))


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

    def bound_for(self, destination: QueueAddress) -> OutgoingMessage:
        """Return it as it waits in a table of delayed messages: with the header that says where it goes."""
        return self._replace(headers={**self.headers, Header.FORWARD_DESTINATION: destination.canonical})


class MessageRow(NamedTuple):
    """A row of a queue as it was received.

    `id` is the row's, never the message's; `time_left` says, by the database's clock, for how many seconds more it may
    be received (None: for ever); `headers` is the raw text; `body` is None only if other software wrote NULL on
    PostgreSQL; `seq` is the position in the queue; `place` is the key of a limit of which the receive took a place;
    `noted` is the id under which the receive noted the message as processed.
    """

    id: str
    time_left: float | None
    headers: str
    body: bytes | None
    seq: int
    place: str | None = None
    noted: str | None = None

    @property
    def expired(self) -> bool:
        """Whether its time to be received was over when it was received."""
        return self.time_left is not None and self.time_left <= 0


class ReadMessage(NamedTuple):
    """A row that was read before its first attempt: its headers, and an object for each of its readers."""

    row: MessageRow
    headers: dict[str, str | None]
    objects: dict[object, object]


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


class Body(NamedTuple):
    """A body as text, and how it was read: `utf-8`, `utf-16-le`, `utf-16-be`, `hex`, or `none` for NULL."""

    text: str | None
    encoding: str


def read_body(body: bytes | None) -> Body:
    """Read a body as text by its byte order mark, else as UTF-8, else as hexadecimal digits."""
    if body is None:
        return Body(None, "none")
    mark, encoding = next(((m, e) for m, e in _ENCODINGS if body.startswith(m)), (b"", "utf-8"))
    try:
        text = body[len(mark) :].decode(encoding)
    except UnicodeDecodeError:
        return Body(body.hex(), "hex")
    return Body(body.hex(), "hex") if "\0" in text else Body(text, encoding)


def read_headers(text: str | None) -> dict[str, str | None] | None:
    """Decode a row's headers; None if they cannot be read."""
    try:
        return decode_headers(text)
    except MalformedHeadersError:
        return None


def time_sent(headers: Mapping[str, str | None] | None) -> datetime | None:
    """Return when a message was sent, if its headers say so."""
    try:
        return parse_timestamp((headers or {}).get(Header.TIME_SENT) or "")
    except InvalidTimestampError:
        return None


def short_type(headers: Mapping[str, str | None] | None) -> str:
    """Return the name of the message's most concrete type, without assembly."""
    types = (headers or {}).get(Header.ENCLOSED_MESSAGE_TYPES) or ""
    return types.partition(";")[0].partition(",")[0]


def random_uuids() -> Iterator[bytes]:
    """Give new UUIDs without end, 16 bytes each, as binary COPY takes them."""
    while True:
        block = bytes(_random_block(_BLOCK))
        for start in range(0, len(block), 16):
            yield block[start : start + 16]


def random_uuid_texts(count: int) -> list[str]:
    """Return so many new UUIDs as texts of 32 digits, which PostgreSQL reads as it reads those with hyphens."""
    text = _random_block(count).hex()
    return [text[start : start + 32] for start in range(0, len(text), 32)]


def new_message_ids() -> Iterator[str]:
    """Give new message ids without end; for one, `new_message_id` is cheaper."""
    while True:
        text = _random_block(_BLOCK).hex()
        for start in range(0, len(text), 32):
            digits = text[start : start + 32]
            yield f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"


def new_message_id() -> str:
    """Return a new UUID as text, lower case with hyphens: what NServiceBus puts into MessageId."""
    return str(uuid4())


def _random_block(count: int) -> bytearray:
    block = bytearray(os.urandom(16 * count))
    block[6::16] = block[6::16].translate(_VERSION)
    block[8::16] = block[8::16].translate(_VARIANT)
    return block
