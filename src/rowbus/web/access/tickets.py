"""Tickets: one-time tokens in an address, each of which lets one browser in.

Invariant: a ticket works once; the next is made and announced when one was used.
"""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Callable


class Tickets:
    """The one ticket that is valid now."""

    def __init__(self, announce: Callable[[str], None]) -> None:
        """Take what tells the operator a ticket, such as a line on a terminal. No I/O until `issue`."""
        self._announce = announce
        self._valid = ""

    def issue(self) -> str:
        """Make a ticket, announce it, and return it; the one before is void."""
        self._valid = secrets.token_urlsafe(24)
        self._announce(self._valid)
        return self._valid

    def use(self, ticket: str) -> bool:
        """Say whether a ticket is valid; if it is, it is void from now on, and another is issued."""
        if not self._valid or not hmac.compare_digest(ticket.encode(), self._valid.encode()):
            return False
        self.issue()
        return True
