"""Events of a log as people read them, and its tail: events as they come, by server-sent events.

Source: the section "Server-sent events" of the HTML standard. A stream asks the database every `PERIOD` seconds, on a
session that it gives back, and ends after `LONGEST` seconds; the browser then comes again with the tick it has seen.

Invariants: bounded: a look reads at most `MOST_READ` events and shows at most `MOST_SHOWN` of any log; at most
`MOST_STREAMS` streams are open in a process, and each event of one is markup whose text is escaped.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from typing import TYPE_CHECKING, Final, NamedTuple
from urllib.parse import unquote_plus

from starlette.responses import PlainTextResponse, StreamingResponse

from rowbus.errors import RowbusError
from rowbus.log.event import Event
from rowbus.log.range import LogRange
from rowbus.web.contents import text_content

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Sequence

    from starlette.responses import Response

    from rowbus.database.sessions import Session
    from rowbus.log.range import Bounds
    from rowbus.web.contents import Content
    from rowbus.web.visit import Visit

MOST_READ: Final = 5_000
MOST_SHOWN: Final = 100
_AT_ONCE: Final = 500
_STEP: Final = 8  # so many times as many ticks are read when those before had too few events
_LONGEST_PAIRS: Final = 100_000


class ShownEvent(NamedTuple):
    """An event with its data as people read it."""

    event: Event
    content: Content
    extras: list[str]


class News(NamedTuple):
    """The latest events up to a tick, the oldest first; `left_out` came before them, and there may be more."""

    tick: int
    events: list[ShownEvent]
    left_out: int

    @property
    def latest_first(self) -> News:
        """The same, the newest first."""
        return self._replace(events=self.events[::-1])


def latest(session: Session, log: str, after: int | None, paths: Sequence[str]) -> News:
    """Read the events after a tick; those of the last ticks if it is None, or not retained. Raises LogNotFoundError.

    In a transaction of its own, that reads only.
    """
    retained = LogRange(log)
    bounds = session.run(retained.bounds())
    start = bounds.newest + 1 if after is None else after
    if start == bounds.newest:
        return News(bounds.newest, [], 0)
    if bounds.oldest <= start < bounds.newest:
        found, count = _read(session, retained, start, bounds.newest)
    else:
        found, count = _read_back(session, retained, bounds)
    shown = [shown_event(event, paths) for event in found]
    return News(bounds.newest, shown, count - len(shown))


def _read_back(session: Session, retained: LogRange, bounds: Bounds) -> tuple[deque[Event], int]:
    """Read the events of the last ticks, of ever more of them until there are enough to show."""
    ticks = session.run(retained.ticks(max(bounds.oldest, bounds.newest - MOST_READ) - 1, MOST_READ + 1))
    back, found, count = 1, deque[Event](), 0
    while count < MOST_SHOWN and back < _STEP * len(ticks):
        back *= _STEP
        start = ticks[max(0, len(ticks) - 1 - back)]
        found, count = _read(session, retained, start.id, bounds.newest)
    return found, count


def _read(session: Session, retained: LogRange, start: int, end: int) -> tuple[deque[Event], int]:
    """Return the last events that were read, and how many were read."""
    found, count = deque[Event](maxlen=MOST_SHOWN), 0
    with session.transaction():
        reading = retained.reading(start, end, None, _AT_ONCE)
        session.run(reading.open)
        while count < MOST_READ and (events := session.run(reading.fetch)):
            found.extend(events)
            count += len(events)
        session.run(reading.close)
    return found, count


def shown_event(event: Event, paths: Sequence[str]) -> ShownEvent:
    """Return an event as people read it."""
    data = event.data or ""
    content = text_content(data if paths else _pairs(data), paths)
    extras = [extra for extra in event[6:] if extra]
    if paths:
        extras = [text_content(extra, paths).text for extra in extras]
    return ShownEvent(event, content, extras)


def _pairs(text: str) -> str:
    """Write `name=value&…`, as PgQ's triggers do, a pair a line and decoded; leave any other text as it is."""
    if (
        "=" not in text
        or text[:1] in "{[<"
        or any(letter.isspace() for letter in text)
        or len(text) > _LONGEST_PAIRS
    ):
        return text
    pairs = [pair.partition("=") for pair in text.split("&")]
    return "\n".join(
        f"{unquote_plus(name)}: {unquote_plus(value)}" if equals else f"{unquote_plus(name)} is null"
        for name, equals, value in pairs
    )


PERIOD: Final = 2.0
LONGEST: Final = 600.0
MOST_STREAMS: Final = 10
_MOST_DIGITS: Final = 18

_open = set[object]()


async def tail(visit: Visit) -> Response:
    """Show the latest events, and have the script add what comes."""
    log = visit.query.get("log", "")
    news = await visit.read(latest, log, None, visit.site.settings.mask)
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
                news = await visit.read(latest, log, after, visit.site.settings.mask)
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
