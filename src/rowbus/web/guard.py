"""The guard: decides who a request is from, before any page runs; the entrance exchanges a ticket for a cookie.

The answer is a page that leads on, not a redirect: a browser that followed a link from elsewhere would not send a
`SameSite=Strict` cookie along a redirect.

Invariants: no page, action or event stream runs for a request whose host is not allowed or whose person is not known;
only the assets and the entrance are open; the cookie is HttpOnly, `SameSite=Strict`, sealed, and ends with the
browser's session or after `LASTS`; pages for those who are not in show nothing of the database.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from starlette.datastructures import MutableHeaders
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse

from rowbus.web.visitors import Person, Role, is_allowed

if TYPE_CHECKING:
    from starlette.responses import Response
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from rowbus.web.settings import WebSettings
    from rowbus.web.site import Site
    from rowbus.web.visitors import Seals, Tickets

LASTS: Final = 24 * 60 * 60  # seconds; then a browser needs another ticket, whatever secret seals its cookie

ANSWERS_CARRY: Final = {
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
        "font-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "x-frame-options": "DENY",
    "x-content-type-options": "nosniff",
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
}
"""Headers of every answer; a page's `cache-control` is `no-store` unless it says otherwise."""

WRONG_HOST: Final = (
    "This request names another host than this page is for. Open it as http://127.0.0.1:PORT, or start it with "
    "--allow-host NAME for each name that a proxy gives it.\n"
)
LOST: Final = (
    "This address has been used, or was never valid: each one lets one browser in. The terminal or log of "
    "`rowbus web` shows the next."
)

Who = Callable[[Request], Awaitable[Person | None]]


class Guard:
    """Refuses other hosts, and adds the headers of `ANSWERS_CARRY` to every answer."""

    def __init__(self, app: ASGIApp, settings: WebSettings) -> None:
        """Stand before an application."""
        self._app = app
        self._hosts = settings.hosts if settings.openid is None else (*settings.hosts, settings.openid.host)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or refuse it."""
        if scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008})
            return
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in ANSWERS_CARRY.items():
                    headers[name] = value
                headers.setdefault("cache-control", "no-store")
            await send(message)

        if is_allowed(Request(scope).headers.get("host", ""), self._hosts):
            await self._app(scope, receive, send_with_headers)
        else:
            await PlainTextResponse(WRONG_HOST, 421)(scope, receive, send_with_headers)


class TrustedHeader:
    """Knows people by the header of a proxy, on connections from that proxy alone."""

    def __init__(self, settings: WebSettings) -> None:
        """Take the header and the proxies."""
        self._settings = settings

    async def __call__(self, request: Request) -> Person | None:
        """Return who the proxy says is there."""
        if request.client is None or request.client.host not in self._settings.proxies:
            return None
        given = request.headers.getlist(self._settings.trusted_header)
        if len(given) != 1 or not given[0].strip():
            return None
        name = given[0].strip()
        operators = self._settings.operators
        return Person(name, Role.OPERATOR if not operators or name in operators else Role.VIEWER)


class TicketCookie:
    """Knows people by the cookie that a ticket was exchanged for."""

    def __init__(self, seals: Seals, cookie: str, name: str) -> None:
        """Take what seals the cookie, its name, and what to call who holds it."""
        self._seals = seals
        self._cookie = cookie
        self._name = name

    async def __call__(self, request: Request) -> Person | None:
        """Return who has a cookie that was sealed here."""
        key = self._seals.opened("cookie", request.cookies.get(self._cookie, ""))
        return None if key is None or _is_over(key) else Person(self._name, Role.OPERATOR, key)


def _is_over(key: str) -> bool:
    until = key.rpartition(".")[2]
    return not until.isdecimal() or int(until) < time.time()


class Link(NamedTuple):
    """A way on."""

    href: str
    label: str


def outside(
    site: Site, status: int, text: str, *, title: str = "Not let in", links: Sequence[Link] = ()
) -> Response:
    """Answer with such a page."""
    template = site.templates.get_template("out.html")
    return HTMLResponse(template.render(text=text, title=title, links=links), status)


class Entrance:
    """The route `/enter`."""

    def __init__(self, site: Site, tickets: Tickets, cookie: str) -> None:
        """Take what issues tickets, and the cookie's name."""
        self._site = site
        self._tickets = tickets
        self._cookie = cookie

    async def answer(self, request: Request) -> Response:
        """Answer a request that shows a ticket."""
        if not self._tickets.use(request.query_params.get("ticket", "")):
            return outside(self._site, 403, LOST)
        home = f"{request.scope.get('root_path', '')}/"
        answer = HTMLResponse(self._site.templates.get_template("in.html").render(home=home))
        answer.set_cookie(
            self._cookie,
            self._site.seals.sealed("cookie", f"{secrets.token_urlsafe(24)}.{int(time.time()) + LASTS}"),
            path=home,
            httponly=True,
            samesite="strict",
            secure=request.url.scheme == "https",
        )
        return answer
