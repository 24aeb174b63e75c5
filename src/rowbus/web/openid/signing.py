"""Signing in and out: three routes, the cookies that hold something, and who a request is from afterwards.

Invariants: a sign-in is finished once, in the browser that began it; no one without a role gets a session, and each
session has a key of its own. HttpOnly, `SameSite=Lax` (a link in a chat, and the way back from the provider, come from
elsewhere; every change is a POST), `Secure` wherever the page is reached by TLS. One that another process voided is
valid here until its time is over.
"""

from __future__ import annotations

import base64
import json
import logging
import secrets
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from urllib.parse import urlencode

from starlette.responses import RedirectResponse
from starlette.routing import Route

from rowbus.errors.strangers import printable
from rowbus.web.guard import Link, outside
from rowbus.web.openid.provider import OLD, Provider, SignInError
from rowbus.web.openid.settings import name_of, role_of
from rowbus.web.visitors import Person, Role

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

    from rowbus.web.openid.settings import OpenIdConnect
    from rowbus.web.site import Site
    from rowbus.web.visitors import Seals

logger = logging.getLogger("rowbus.web")


class Slip(NamedTuple):
    """The contents of a cookie, with its own id, and when its time is over in seconds since 1970."""

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
            self._forget_old()
            self._spent[slip.id] = slip.until
        return slip

    def _forget_old(self) -> None:
        """Forget what is too old by itself. All last equally long, so the oldest were voided nearly first."""
        while self._spent and self._spent[first := next(iter(self._spent))] < self._clock():
            del self._spent[first]

    def forget(self, answer: Response) -> None:
        """Have the browser forget it."""
        answer.delete_cookie(self.name, self._path, secure=self._secure, httponly=True, samesite="lax")

    def _prefix(self) -> str:
        """Return what has browsers refuse a cookie of this name that a neighbouring host sets."""
        if not self._secure:
            return ""
        return "__Host-" if self._path == "/" else "__Secure-"


SESSION: Final = 8 * 60 * 60  # seconds; then the groups are asked for again
UNDER_WAY: Final = 10 * 60  # seconds from the beginning of a sign-in to its end
LONGEST_PATH: Final = 1_000  # of the page to go back to; a cookie holds 4,096 bytes
NOT_IN: Final = "Sign in with your company's account to see this page."
NO_ROLE: Final = (
    "You are signed in as {}, but none of your groups has a role here. Those who run this page can give one of them a "
    "role, or add you to a group that has one."
)
OUT: Final = (
    "You are signed out here. Your provider may still know you, and then signs you in again without asking."
)


class SignIn:
    """The routes `/sign-in`, `/signed-in` and `/sign-out`, and the sessions that they begin and end."""

    def __init__(self, site: Site, settings: OpenIdConnect, clock: Callable[[], float] = time.time) -> None:
        """Take the site and the settings. No I/O."""
        self._site = site
        self._settings = settings
        self._provider = Provider(settings)
        self._pending = SealedCookie(site.seals, "sign-in", settings, UNDER_WAY, clock)
        self._session = SealedCookie(site.seals, "session", settings, SESSION, clock)

    def routes(self) -> list[Route]:
        """Return what is open to those who are not in yet."""
        return [
            Route("/sign-in", self._begin, name="sign_in"),
            Route("/signed-in", self._finish, name="signed_in"),
        ]

    async def who(self, request: Request) -> Person | None:
        """Return who has a session."""
        slip = self._session.read(request)
        return None if slip is None else Person(slip.values["name"], Role(slip.values["role"]), slip.id)

    async def _begin(self, request: Request) -> Response:
        """Send a browser to the provider."""
        try:
            begun = await self._provider.begin()
        except SignInError as error:
            return self._refuse(error)
        answer = RedirectResponse(begun.url, 302)
        self._pending.give(answer, {**begun.kept, "next": _own_path(request.query_params.get("next", ""))})
        return answer

    async def _finish(self, request: Request) -> Response:
        """Take a browser back from the provider, once."""
        pending = self._pending.take(request)
        if pending is None:
            return self._refuse(SignInError(OLD))
        try:
            answer = await self._let_in(pending.values, request.query_params)
        except SignInError as error:
            answer = self._refuse(error)
        self._pending.forget(answer)
        return answer

    async def _let_in(self, kept: Mapping[str, str], query: Mapping[str, str]) -> Response:
        """Begin a session for who is proved to be there, and go where they wanted to."""
        claims = await self._provider.finish(kept, query)
        name, role = name_of(claims), role_of(claims, self._settings)
        if role is None:
            logger.warning("%s signed in, and has no role", printable(name))
            raise SignInError(NO_ROLE.format(name))
        logger.info("%s signed in as %s", printable(name), role.value)
        answer = RedirectResponse(f"{self._settings.address}{kept['next']}", 303)
        self._session.give(answer, {"name": name, "role": role.value})
        return answer

    async def leave(self, request: Request) -> Response:
        """End a session; for a request whose form was checked."""
        self._session.take(request)
        further = await self._provider.leave_address()
        links = [Link(self._sign_in(), "Sign in again")]
        if further:
            links.append(Link(further, "Sign out of your provider, too"))
        answer = outside(self._site, 200, OUT, title="Signed out", links=links)
        self._session.forget(answer)
        return answer

    def refuse_stranger(self, request: Request) -> Response:
        """Answer who is not signed in; a page is gone back to after the sign-in."""
        path = request.url.path.removeprefix(request.scope.get("root_path", ""))
        wanted = f"{path}?{request.url.query}" if request.url.query else path
        link = Link(self._sign_in(wanted if request.method == "GET" else ""), "Sign in")
        return outside(self._site, 401, NOT_IN, links=[link])

    def _refuse(self, error: SignInError) -> Response:
        return outside(self._site, error.status, str(error), links=[Link(self._sign_in(), "Sign in again")])

    def _sign_in(self, wanted: str = "") -> str:
        query = f"?{urlencode({'next': wanted})}" if wanted else ""
        return f"{self._settings.path}sign-in{query}"


def _own_path(text: str) -> str:
    """Return a path of this page to go to; its root for any other address, so that none leads elsewhere."""
    is_path = text.startswith("/") and not text.startswith(("//", "/\\")) and len(text) <= LONGEST_PATH
    return text if is_path and text.isprintable() and "\\" not in text else "/"
