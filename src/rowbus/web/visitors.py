"""Visitors of the page: who they are and what they may do, and by which hosts, forms, tickets and seals they come in.

Invariants: a person is a viewer unless the way by which they came in makes them an operator; what is missing or cannot
be read is refused. A ticket works once; the next is made and announced when one was used; no seal is compared in a time
that depends on it, and one made for a purpose is worth nothing for another.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Callable, Collection, Mapping
from enum import Enum
from typing import Final, NamedTuple
from urllib.parse import urlsplit

LOOPBACK: Final = ("localhost", "127.0.0.1", "::1")
ANY: Final = "*"


class Role(Enum):
    """The rights of a person: a viewer looks, an operator also acts."""

    VIEWER = "viewer"
    OPERATOR = "operator"


class Person(NamedTuple):
    """The maker of a request. `key` binds CSRF tokens to a session; the name alone if there is nothing better."""

    name: str
    role: Role = Role.VIEWER
    key: str = ""

    @property
    def is_operator(self) -> bool:
        """Whether the person may act."""
        return self.role is Role.OPERATOR


def host_of(value: str) -> str | None:
    """Return the host of a `Host` header in lower case, without port and brackets; None if it is none."""
    try:
        found = urlsplit(f"//{value}")
        _ = found.port
    except ValueError:
        return None
    return None if found.path or found.username is not None else found.hostname


def is_allowed(header: str, allowed: Collection[str]) -> bool:
    """Say whether a `Host` header names one of the hosts allowed; `*` allows any."""
    return ANY in allowed or host_of(header) in {name.strip("[]").lower() for name in allowed}


def is_own_form(headers: Mapping[str, str]) -> bool:
    """Say whether a POST comes from a page of the same origin, as far as the browser tells.

    `Sec-Fetch-Site` is what today's browsers say; `Origin` is for older ones. Programs say neither, and have the CSRF
    token to show.
    """
    site = headers.get("sec-fetch-site")
    if site is not None:
        return site in {"same-origin", "none"}
    origin = headers.get("origin")
    return origin is None or urlsplit(origin).netloc == headers.get("host")


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


class Seals:
    """Seals texts with a secret. Several processes that serve the same people need the same secret."""

    def __init__(self, secret: str = "") -> None:
        """Take a secret of 32 characters or more; without one, make one that lasts as long as this object."""
        self._key = (secret or secrets.token_urlsafe(32)).encode()

    def sealed(self, purpose: str, text: str) -> str:
        """Return a text with its seal."""
        return f"{text}.{self._seal(purpose, text)}"

    def opened(self, purpose: str, sealed: str) -> str | None:
        """Return the text of a seal made here for this purpose; None for anything else."""
        text, _, seal = sealed.rpartition(".")
        fits = hmac.compare_digest(seal.encode(), self._seal(purpose, text).encode())
        return text if fits and text else None

    def token(self, purpose: str, text: str) -> str:
        """Return the seal of a text alone, as CSRF tokens are."""
        return self._seal(purpose, text)

    def fits(self, purpose: str, text: str, token: str) -> bool:
        """Say whether a token is the seal of this text."""
        return hmac.compare_digest(token.encode(), self._seal(purpose, text).encode())

    def _seal(self, purpose: str, text: str) -> str:
        return hmac.new(self._key, f"{purpose}\0{text}".encode(), hashlib.sha256).hexdigest()
