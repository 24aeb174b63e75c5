"""Random identifiers: version 4 UUIDs (RFC 9562), made in blocks without the standard library's UUID object.

Invariant: 122 bits from the operating system's generator; nothing is remembered outside an iterator, so that forked
processes and threads never share an identifier.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

_BLOCK = 256
_VERSION = bytes(byte & 0x0F | 0x40 for byte in range(256))
_VARIANT = bytes(byte & 0x3F | 0x80 for byte in range(256))


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
            yield _hyphenated(text[start : start + 32])


def new_message_id() -> str:
    """Return a new UUID as text, lower case with hyphens: what NServiceBus puts into MessageId."""
    return _hyphenated(_random_block(1).hex())


def _random_block(count: int) -> bytearray:
    block = bytearray(os.urandom(16 * count))
    block[6::16] = block[6::16].translate(_VERSION)
    block[8::16] = block[8::16].translate(_VARIANT)
    return block


def _hyphenated(text: str) -> str:
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"
