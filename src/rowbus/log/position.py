"""Positions in a log as people write them: start, end, a tick, or a time.

Invariant: a text means the same position wherever people type it.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final, NamedTuple

from rowbus.log.range import LogRange

if TYPE_CHECKING:
    from rowbus.database.sessions import Session

NOTATION: Final = (
    "start, end, the number of a tick, or a time such as 2026-05-01T12:00 (UTC unless it says another zone)"
)
LONGEST_TICK: Final = 18  # digits; what is longer is no bigint


class Position(NamedTuple):
    """Where in a log: `start`, `end`, a tick, or a time."""

    word: str = ""
    tick: int | None = None
    time: datetime | None = None


def read_position(text: str) -> Position:
    """Read a position as people type it; raises ValueError for what is none."""
    if text in {"start", "end"}:
        return Position(text)
    if text.isdecimal() and len(text) <= LONGEST_TICK:
        return Position(tick=int(text))
    time = datetime.fromisoformat(text)
    return Position(time=time if time.tzinfo else time.replace(tzinfo=UTC))


def find_tick(session: Session, log: str, where: Position) -> int:
    """Return the tick at a position. Raises LogNotFoundError, LostPositionError."""
    retained = LogRange(log)
    bounds = session.run(retained.bounds())
    if where.time is not None:
        found = session.run(retained.tick_at(where.time))
    else:
        found = {"start": bounds.oldest, "end": bounds.newest}.get(where.word, where.tick)
    return bounds.retained(log, found)
