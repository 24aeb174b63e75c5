"""What is due when: the spans of time that delayed messages are counted in, and the bars that show the counts.

Invariant: pure; the spans follow one another without a gap, so each message is in one of them.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from datetime import datetime

MOST_COUNTED: Final = 100_000
"""Messages of one span are counted up to here."""

WIDEST: Final = 100.0
NARROWEST: Final = 1.0
"""Widths of bars, in units of their drawing; a span with any message has a bar that can be seen."""

_EDGES: Final = (
    ("within a minute", timedelta(minutes=1)),
    ("in 1 to 10 minutes", timedelta(minutes=10)),
    ("in 10 to 60 minutes", timedelta(hours=1)),
    ("in 1 to 6 hours", timedelta(hours=6)),
    ("in 6 to 24 hours", timedelta(days=1)),
    ("in 1 to 7 days", timedelta(days=7)),
    ("in 7 to 30 days", timedelta(days=30)),
)


class Span(NamedTuple):
    """A span of time from one instant (None: the first) until before another (None: the last)."""

    name: str
    first: datetime | None
    last: datetime | None


class Bar(NamedTuple):
    """A span with how many messages are due in it, and how wide its bar is."""

    name: str
    messages: int
    width: float

    @property
    def shown(self) -> str:
        """The count, which stops at a limit."""
        return f"{MOST_COUNTED:,} or more" if self.messages >= MOST_COUNTED else f"{self.messages:,}"


def spans(at: datetime) -> Iterator[Span]:
    """Give the spans as they are at a time: overdue, then ever longer ones."""
    yield Span("overdue", None, at)
    first = at
    for name, length in _EDGES:
        yield Span(name, first, at + length)
        first = at + length
    yield Span("later", first, None)


def bars(counts: Iterable[tuple[str, int]]) -> list[Bar]:
    """Return a bar for each count, the longest as wide as there is room."""
    found = list(counts)
    most = max((count for _, count in found), default=0)
    return [Bar(name, count, _width(count, most)) for name, count in found]


def _width(count: int, most: int) -> float:
    return round(max(WIDEST * count / most, NARROWEST), 1) if count else 0.0
