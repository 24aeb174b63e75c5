"""Visitors: who uses the page and what they may do, and which hosts a request may name and a form come from.

Invariants: a person is a viewer unless the way by which they came in makes them an operator; what is missing or cannot
be read is refused.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from enum import Enum
from typing import Final, NamedTuple
from urllib.parse import urlsplit


class Role(Enum):
    """What a person may do: a viewer looks, an operator also acts."""

    VIEWER = "viewer"
    OPERATOR = "operator"


class Person(NamedTuple):
    """Who makes a request. `key` binds CSRF tokens to a session; the name alone if there is nothing better."""

    name: str
    role: Role = Role.VIEWER
    key: str = ""

    @property
    def is_operator(self) -> bool:
        """Whether the person may act."""
        return self.role is Role.OPERATOR


LOOPBACK: Final = ("localhost", "127.0.0.1", "::1")
ANY: Final = "*"


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
