"""Cookies that hold something: sealed, for a time, and void for good once they were used up.

Invariant: HttpOnly, `SameSite=Lax` (a link in a chat, and the way back from the provider, come from elsewhere; every
change is a POST), `Secure` wherever the page is reached by TLS. One that another process voided is valid here until its
time is over.
"""

from __future__ import annotations

import base64
import json
import secrets
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

    from rowbus.web.access.seals import Seals
    from rowbus.web.openid.settings import OpenIdConnect


class Slip(NamedTuple):
    """What a cookie holds, with its own id, and when its time is over in seconds since 1970."""

    id: str
    until: float
    values: Mapping[str, Any]


class SealedCookie:
    """One kind of cookie, such as the one of a session."""

    def __init__(
        self,
        seals: Seals,
        purpose: str,
        settings: OpenIdConnect,
        seconds: int,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """Take what seals it, what it is for, where it is sent, and how long it is valid."""
        self._seals = seals
        self._purpose = purpose
        self._path, self._secure = settings.path, settings.is_secure
        self._seconds = seconds
        self._clock = clock
        self._spent: dict[str, float] = {}
        self.name = f"{self._prefix()}rowbus-{purpose}-{seals.token('cookie', 'name')[:8]}"

    def give(self, answer: Response, values: Mapping[str, Any]) -> None:
        """Send a new one with an answer."""
        slip = Slip(secrets.token_urlsafe(24), self._clock() + self._seconds, values)
        text = base64.urlsafe_b64encode(json.dumps(slip).encode()).decode()
        answer.set_cookie(
            self.name,
            self._seals.sealed(self._purpose, text),
            max_age=self._seconds,
            path=self._path,
            httponly=True,
            samesite="lax",
            secure=self._secure,
        )

    def read(self, request: Request) -> Slip | None:
        """Return what a request brings; None if it is not from here, too old, or void."""
        text = self._seals.opened(self._purpose, request.cookies.get(self.name, ""))
        if text is None:
            return None
        slip = Slip(*json.loads(base64.urlsafe_b64decode(text)))
        return None if slip.until < self._clock() or slip.id in self._spent else slip

    def take(self, request: Request) -> Slip | None:
        """Return what a request brings, for the last time: a copy of it is worth nothing."""
        slip = self.read(request)
        if slip is not None:
            now = self._clock()
            self._spent = {name: until for name, until in self._spent.items() if until >= now}
            self._spent[slip.id] = slip.until
        return slip

    def forget(self, answer: Response) -> None:
        """Have the browser forget it."""
        answer.delete_cookie(self.name, self._path, secure=self._secure, httponly=True, samesite="lax")

    def _prefix(self) -> str:
        """Return what has browsers refuse a cookie of this name that a neighbouring host sets."""
        if not self._secure:
            return ""
        return "__Host-" if self._path == "/" else "__Secure-"
