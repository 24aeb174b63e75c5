"""The completeness of a table of a lake: the snapshot of a tick or of its copy, whose transactions it all shows.

Invariants: pure, no clock; what is said never exceeds what the table holds: of copies of which only the table knows
which it holds, the earliest counts.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, NamedTuple

from rowbus.spark.log_source.offset import TxidSnapshot
from rowbus.spark.options import tables_named

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from rowbus.spark.lake.tables.table_copy import Copy
    from rowbus.spark.log_source.offset import TickPosition

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Completeness(NamedTuple):
    """The completeness of a table."""

    tick: int | None
    """The log's tick whose events are all in the table; None before the first batch after its copy."""

    time: datetime
    """All that was committed before it, by the clock of the database, is in the table."""

    snapshot: str
    """As PostgreSQL writes it: all transactions that it sees are in the table."""

    def shows(self, until: int | datetime) -> bool:
        """Say whether a transaction has ended and is in the table, or all is that was committed before a time."""
        if isinstance(until, datetime):
            return self.time >= until
        return TxidSnapshot.parse(self.snapshot).sees(until)

    def and_more(self, other: Completeness) -> Completeness:
        """Return how far a table is that shows what both say; their snapshots are of one server."""
        newer = max(self, other, key=_age)
        ticks = [tick for tick in (self.tick, other.tick) if tick is not None]
        return Completeness(max(ticks, default=None), max(self.time, other.time), newer.snapshot)


def completeness(copies: Collection[Copy], end: TickPosition | None) -> Completeness | None:
    """Return how far a table is that holds one of these copies, and the events before a tick; None without a copy."""
    if not copies:
        return None
    copied = min(map(_copied, copies), key=_age)
    return copied if end is None else copied.and_more(_ended(end))


def is_shown(tables: Mapping[str, Completeness], patterns: Iterable[str], until: int | datetime) -> bool:
    """Say whether all tables show a transaction, or what was committed before a time; each pattern has to name one."""
    named = [tables_named(tables, pattern) for pattern in patterns]
    return all(names and all(tables[name].shows(until) for name in names) for names in named)


def _copied(copy: Copy) -> Completeness:
    return Completeness(None, _EPOCH + timedelta(microseconds=copy.began), copy.snapshot)


def _ended(end: TickPosition) -> Completeness:
    return Completeness(end.tick, datetime.fromisoformat(end.ts), end.snap)


def _age(given: Completeness) -> tuple[int, int, int]:
    """Order the snapshots of one server: a later one sees more, so that fewer of the same are running."""
    snapshot = TxidSnapshot.parse(given.snapshot)
    return snapshot.xmax, snapshot.xmin, -len(snapshot.running)
