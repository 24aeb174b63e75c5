"""Events of a log as people read them, and those that come.

Invariant: bounded: a look reads at most `MOST_READ` events and shows at most `MOST_SHOWN` of any log.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final, NamedTuple
from urllib.parse import unquote_plus

from rowbus.log.event import Event
from rowbus.log.range import LogRange
from rowbus.web.contents import text_content

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rowbus.database.sessions import Session
    from rowbus.log.range import Bounds
    from rowbus.web.contents import Content

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
