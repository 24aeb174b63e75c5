"""The messages an endpoint has processed: what its table is called.

Invariant: values only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from rowbus.messages.address import QueueAddress
    from rowbus.messages.addresses import Addresses

INBOX: Final = "Inbox"
"""The qualifier of the table: `Billing.Inbox`."""


def inbox_address(endpoint: str, addresses: Addresses) -> QueueAddress:
    """Return the table of what an endpoint has processed."""
    return addresses.for_endpoint(endpoint, qualifier=INBOX)
