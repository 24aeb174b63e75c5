"""Shared by the `rowbus log` commands: their arguments, and the notation of positions in a log.

Invariant: a position that people type means the same to every command.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from rowbus.log.range import LogRange

if TYPE_CHECKING:
    from rowbus.database.sessions import Session

LogName = Annotated[str, typer.Argument(metavar="LOG", help="A log, by its name.")]
AnyLog = Annotated[str | None, typer.Argument(metavar="LOG", help="Only this log.")]
ConsumerName = Annotated[str, typer.Argument(metavar="CONSUMER", help="A consumer of the log, by its name.")]
IntoLog = Annotated[str, typer.Option("--log", metavar="NAME", help="The log.")]

POSITION_HELP = (
    "start, end, the number of a tick, or a time such as 2026-05-01T12:00 (UTC unless it says another zone)"
)


class Position(NamedTuple):
    """Where in a log: `start`, `end`, a tick, or a time."""

    word: str = ""
    tick: int | None = None
    time: datetime | None = None


def position(text: str) -> Position:
    """Read a position as people type it."""
    if text in {"start", "end"}:
        return Position(text)
    if text.isdecimal():
        return Position(tick=int(text))
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        raise typer.BadParameter(f"{text!r} is none of: {POSITION_HELP}.") from None
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
