"""The tail of a log: events as they come, by server-sent events.

Source: the section "Server-sent events" of the HTML standard. A stream asks the database every `PERIOD` seconds, on a
session that it gives back, and ends after `LONGEST` seconds; the browser then comes again with the tick it has seen.

Invariant: at most `MOST_STREAMS` streams are open in a process, and each event of one is markup whose text is escaped.
"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Final

from starlette.responses import PlainTextResponse, StreamingResponse

from rowbus.errors import RowbusError
from rowbus.web.logs import events

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from starlette.responses import Response

    from rowbus.web.logs.events import News
    from rowbus.web.visit import Visit

PERIOD: Final = 2.0
LONGEST: Final = 600.0
MOST_STREAMS: Final = 10
_MOST_DIGITS: Final = 18

_open = set[object]()


async def tail(visit: Visit) -> Response:
    """Show the latest events, and have the script add what comes."""
    log = visit.query.get("log", "")
    news = await visit.read(events.latest, log, None, visit.site.settings.mask)
    return visit.render("logs/tail.html", log=log, news=news)


async def stream(visit: Visit) -> Response:
    """Send events as they come, from the tick that the browser has seen on."""
    if len(_open) >= MOST_STREAMS:
        return PlainTextResponse("Too many tails are open here; close one.\n", 503)
    seen = visit.request.headers.get("last-event-id") or visit.query.get("after", "")
    after = int(seen) if seen.isascii() and seen.isdecimal() and len(seen) <= _MOST_DIGITS else None
    lines = following(visit, visit.query.get("log", ""), after)
    headers = {"cache-control": "no-store", "x-accel-buffering": "no"}
    return StreamingResponse(lines, media_type="text/event-stream", headers=headers)


async def following(
    visit: Visit, log: str, after: int | None, *, period: float = PERIOD, longest: float = LONGEST
) -> AsyncGenerator[str]:
    """Give the stream, as text."""
    mark = object()
    _open.add(mark)
    try:
        ends = time.monotonic() + longest
        yield ": events as they come\n\n"
        while time.monotonic() < ends:
            try:
                news = await visit.read(events.latest, log, after, visit.site.settings.mask)
            except RowbusError:
                return  # the browser comes again, and the page says what the trouble is
            yield _written(visit, news) if news.events else ": none\n\n"
            after = news.tick
            await asyncio.sleep(period)
    finally:
        _open.discard(mark)


def _written(visit: Visit, news: News) -> str:
    markup = visit.site.templates.get_template("logs/events.html").render(visit=visit, news=news)
    lines = "".join(f"data: {line}\n" for line in markup.splitlines())
    return f"id: {news.tick}\n{lines}\n"
