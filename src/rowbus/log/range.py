"""Retained events: the ticks of a log, the events between any two of them, and positions as people write them.

Invariants: nothing here locks or changes anything; no batch is taken; a text means the same position wherever people
type it.
"""

from __future__ import annotations

from datetime import UTC, datetime
from itertools import count
from typing import TYPE_CHECKING, Final, NamedTuple

from rowbus.database.statements import Query, Statement, each, load, no_rows, scalar
from rowbus.errors import LostPositionError
from rowbus.log.consumers.table import events, log_not_found
from rowbus.log.event import Tick
from rowbus.log.queries import FOLDER, log_query
from rowbus.messages.address import refuse_nul
from rowbus.messages.timestamps import with_zone

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rowbus.database.sessions import Session
    from rowbus.database.statements import Decode, Rows, T


class Bounds(NamedTuple):
    """The oldest and the newest tick of a log."""

    oldest: int
    newest: int

    def retained(self, log: str, tick: int | None) -> int:
        """Return a tick if the log retains it; None is one looked for in vain. Raises LostPositionError."""
        if tick is None or not self.oldest <= tick <= self.newest:
            what = "No tick that old" if tick is None else f"Tick {tick}"
            raise LostPositionError(
                f'{what} of log "{log}" is not retained; there are ticks {self.oldest} to {self.newest}.',
                log=log,
                tick=tick,
                oldest=self.oldest,
            )
        return tick


class LogRange:
    """Statements on the retained ticks and events of one log."""

    def __init__(self, log: str) -> None:
        """Bind the SQL files to the log's name; ConfigurationError if it holds NUL. No I/O."""
        refuse_nul("log", log)
        self.log = log

    def reading(self, from_tick: int, to_tick: int, consumer: str | None, size: int) -> Reading:
        """Return the statements that read the events between two ticks, `size` at a time."""
        return Reading(self.log, {"from_tick": from_tick, "to_tick": to_tick, "consumer": consumer}, size)

    def _once(self, operation: str, failing: str, decode: Decode[T], **parameters: object) -> Statement[T]:
        query = log_query(operation, f'{failing} log "{self.log}"', log=self.log)
        return Statement(query, {"log": self.log, **parameters}, decode)

    def find(self) -> Statement[int]:
        """Ask for the log's id; raises LogNotFoundError."""

        def decode(rows: Rows, _count: int) -> int:
            if not rows:
                raise log_not_found(self.log)
            return int(rows[0][0])

        return self._once("logs/find", "Could not look for", decode)

    def listen(self, queue_id: int) -> Statement[None]:
        """Have the session notified of the log's ticks."""
        query = load(
            f"{FOLDER}/logs/listen.sql",
            identifiers={"channel": f"pgq_{queue_id}"},
            failing=f'Could not listen to log "{self.log}"',
            prepare=False,
        )
        return Statement(query, {}, no_rows)

    def max_retries(self) -> Statement[int | None]:
        """Ask how often the log wants failed events to be retried; None when it does not say."""
        return self._once(
            "logs/max_retries", "Could not read the options of", lambda rows, _: rows[0][0] if rows else None
        )

    def bounds(self) -> Statement[Bounds]:
        """Ask for the oldest and the newest tick; raises LogNotFoundError."""

        def decode(rows: Rows, _count: int) -> Bounds:
            if not rows:
                raise log_not_found(self.log)
            return Bounds(*rows[0])

        return self._once("ranges/bounds", "Could not look for the ticks of", decode)

    def transaction(self) -> Statement[int]:
        """Ask for the number of the transaction."""
        return self._once("ranges/transaction", "Could not tell a position in", scalar)

    def tick_at(self, time: datetime) -> Statement[int | None]:
        """Find the newest tick that is not after a time; None when there is none."""
        return self._once(
            "ranges/tick_at", "Could not search", lambda rows, _: rows[0][0] if rows else None, time=time
        )

    def count(self, from_tick: int, to_tick: int, most: int) -> Statement[int]:
        """Count the events between two ticks, up to `most`, without those put back for a consumer. Locks nothing."""
        parameters = {"from_tick": from_tick, "to_tick": to_tick, "most": most}
        return self._once("ranges/count", "Could not count the events of", scalar, **parameters)

    def ticks(self, after: int, most: int) -> Statement[list[Tick]]:
        """List ticks after one, the oldest first."""
        return self._once(
            "ranges/ticks", "Could not list the ticks of", each(Tick._make), after=after, most=most
        )


_numbers = count(1)


class Reading:
    """Statements that read a range once: open, fetch until nothing comes, close; in one transaction."""

    def __init__(self, log: str, parameters: Mapping[str, object], size: int) -> None:
        """Name the cursor like no other of this process, as several may be open in one transaction of the user's."""
        self._log = log
        self._cursor = f"rowbus_range_{next(_numbers)}"
        self.open = Statement(self._load("ranges/open"), {"log": log, **parameters}, no_rows)
        self.fetch = Statement(self._load("ranges/fetch", chunk_size=size), {}, events)
        self.close = Statement(self._load("ranges/close"), {}, no_rows)

    def _load(self, operation: str, **literals: object) -> Query:
        return load(
            f"{FOLDER}/{operation}.sql",
            identifiers={"cursor": self._cursor},
            literals=literals,
            failing=f'Could not read log "{self._log}"',
            log=self._log,
            prepare=False,
        )


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
    try:
        return Position(time=with_zone(time).astimezone(UTC))
    except OverflowError as error:  # its zone leads out of the years that there are
        raise ValueError(text) from error


def find_tick(session: Session, log: str, where: Position) -> int:
    """Return the tick at a position. Raises LogNotFoundError, LostPositionError."""
    retained = LogRange(log)
    bounds = session.run(retained.bounds())
    if where.time is not None:
        found = session.run(retained.tick_at(where.time))
    else:
        found = {"start": bounds.oldest, "end": bounds.newest}.get(where.word, where.tick)
    return bounds.retained(log, found)
