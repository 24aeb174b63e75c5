"""Texts from anywhere as keys of a table: short enough for an index, and free of what the database cannot hold.

Invariant: equal texts have equal keys, different ones different keys.
"""

from __future__ import annotations

import hashlib
from typing import Final

from rowbus.messages.headers import is_encodable

LONGEST_KEY: Final = 200
"""Characters of a text that is its own key; a B-tree's row holds 2704 bytes."""

_DIGEST: Final = "sha256:"


def key_of(text: str) -> str:
    """Return the key of a text: the text itself, or a digest of one that the table could not hold."""
    is_own = len(text) <= LONGEST_KEY and "\0" not in text and not text.startswith(_DIGEST)
    return text if is_own and is_encodable(text) else digest_of(text)


def digest_of(text: str) -> str:
    """Return the digest of a text, as a key."""
    return f"{_DIGEST}{hashlib.sha256(text.encode(errors='surrogatepass')).hexdigest()}"
