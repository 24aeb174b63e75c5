"""`/metrics` of the page: the gauges of its database, as `rowbus metrics` has them.

Invariant: the database is measured at most once in `FRESH` seconds, however many ask; that it is away is a gauge.
Only those are answered who may see the page, or have the token.
"""

from __future__ import annotations

import asyncio
import hmac
import time
from typing import TYPE_CHECKING, Final

from starlette.responses import PlainTextResponse, Response

from rowbus.errors import RowbusError
from rowbus.log.gauges import DatabaseGauges, unreachable
from rowbus.running.telemetry.series import CONTENT_TYPE, exposition
from rowbus.sagas.stuck import StuckSagas

if TYPE_CHECKING:
    from starlette.requests import Request

    from rowbus.database.sessions import Session
    from rowbus.running.telemetry.series import Family
    from rowbus.web.guard import Who
    from rowbus.web.site import Site

FRESH: Final = 5.0  # seconds
NOT_IN: Final = (
    "Sign in to the page, or send the token that it was started with: Authorization: Bearer TOKEN\n"
)


class Metrics:
    """The route `/metrics`."""

    def __init__(self, site: Site, who: Who) -> None:
        """Take the site, and what knows who makes a request. No I/O."""
        self._site = site
        self._who = who
        self._gauges = DatabaseGauges(site.addresses, StuckSagas().measure, has_logs=site.database.has_logs)
        self._reading = asyncio.Lock()
        self._text = ""
        self._read_at = float("-inf")

    async def answer(self, request: Request) -> Response:
        """Answer a scrape."""
        if not self._has_token(request) and await self._who(request) is None:
            return PlainTextResponse(NOT_IN, 401, {"www-authenticate": "Bearer"})
        async with self._reading:
            if time.monotonic() - self._read_at >= FRESH:
                self._text = exposition(await self._families())
                self._read_at = time.monotonic()
            return Response(self._text, media_type=CONTENT_TYPE)

    def _has_token(self, request: Request) -> bool:
        token = self._site.settings.metrics_token
        given = request.headers.get("authorization", "")
        return bool(token) and hmac.compare_digest(given.encode(), f"Bearer {token}".encode())

    async def _families(self) -> list[Family]:
        try:
            found = await self._site.read(self._read)
        except RowbusError as error:
            self._site.outage.failed(error)
            return unreachable(error)
        self._site.outage.succeeded()
        return found

    def _read(self, session: Session) -> list[Family]:
        return [*unreachable(None), *self._gauges.read(session)]
