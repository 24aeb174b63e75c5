"""Random identifiers: version 4 UUIDs (RFC 9562), made without the standard library's UUID object.

Invariant: 122 bits from the operating system's generator, nothing remembered, so safe across forks and threads.
"""

from __future__ import annotations

import os


def random_uuid() -> bytes:
    """Return the 16 bytes of a new UUID, as binary COPY takes it."""
    random = bytearray(os.urandom(16))
    random[6] = random[6] & 0x0F | 0x40
    random[8] = random[8] & 0x3F | 0x80
    return bytes(random)


def new_message_id() -> str:
    """Return a new UUID as text, lower case with hyphens: what NServiceBus puts into MessageId."""
    text = random_uuid().hex()
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"
