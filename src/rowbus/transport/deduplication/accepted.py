"""The messages an endpoint has processed: what its table is called, and under which key a message is noted.

Invariant: equal message ids have equal keys, different ones different keys, and every key fits into an index.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from rowbus.messages.address import QueueAddress
    from rowbus.messages.addresses import Addresses

INBOX: Final = "Inbox"
"""The qualifier of the table: `Billing.Inbox`."""

LONGEST_KEY: Final = 200
"""Characters of a message id that is its own key; a B-tree's row holds 2704 bytes, and ids come from anywhere."""

_DIGEST: Final = "sha256:"


def inbox_address(endpoint: str, addresses: Addresses) -> QueueAddress:
    """Return the table of what an endpoint has processed."""
    return addresses.for_endpoint(endpoint, qualifier=INBOX)


def message_key(message_id: str) -> str:
    """Return the key under which a message is noted: its id, or a digest of an id that the table could not hold."""
    if len(message_id) <= LONGEST_KEY and "\0" not in message_id and not message_id.startswith(_DIGEST):
        return message_id
    return f"{_DIGEST}{hashlib.sha256(message_id.encode()).hexdigest()}"
