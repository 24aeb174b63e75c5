"""The entrance: exchanges a ticket for a cookie.

The answer is a page that leads on, not a redirect: a browser that followed a link from elsewhere would not send a
`SameSite=Strict` cookie along a redirect.

Invariant: the cookie is HttpOnly, `SameSite=Strict`, sealed, and ends with the browser's session.
"""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING, Final

from starlette.responses import HTMLResponse

from rowbus.web.outside import outside

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

    from rowbus.web.access.tickets import Tickets
    from rowbus.web.site import Site

LOST: Final = (
    "This address has been used, or was never valid: each one lets one browser in. The terminal or log of "
    "`rowbus web` shows the next."
)


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
            self._site.seals.sealed("cookie", secrets.token_urlsafe(24)),
            path=home,
            httponly=True,
            samesite="strict",
            secure=request.url.scheme == "https",
        )
        return answer
