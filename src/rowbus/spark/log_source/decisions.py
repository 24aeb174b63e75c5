"""Decisions on a micro-batch: how much of a log, which of its events, and how they are shared among tasks.

Sizes are estimates: an event sequence has gaps, and blocks differ. The contents of a micro-batch never depend on them.

Only transaction ids shorten the range, because snapshots say exactly which transactions lie between two ticks. Times do
not: an event's is the start of its transaction, which may have been idle for hours before it wrote, and the owner of a
log may append events with other times.

Splitting by block costs nothing; by event id every task would read the whole range.

Invariants: while there are unread events, every choice takes some, so no limit stops a stream for ever. Pure functions.
An event for which the conditions are true lies in the shorter range. The parts of a segment cover its blocks once. The
blocks are exact, not estimates: the events between two ticks never move, and no others join them.
"""

from __future__ import annotations

from bisect import bisect_right
from itertools import accumulate, pairwise
from math import ceil
from typing import TYPE_CHECKING, Final, NamedTuple

from rowbus.spark.filters import MOMENT, NOTHING, NUMBER, TEXT
from rowbus.spark.log_source.offset import Place, TickPosition

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rowbus.spark.filters import Conditions, Kind, Values


class TableRange(NamedTuple):
    """The blocks of one table, `first` to `last` inclusive, that hold the events between two ticks."""

    table: int
    name: str
    node: int
    first: int
    last: int
    events: int

    @property
    def density(self) -> float:
        """Events in a block."""
        return self.events / (self.last - self.first + 1)


def choose_tick(
    seq: int, ticks: Sequence[TickPosition], *, events: int | None = None, most: int | None = None
) -> TickPosition | None:
    """Choose the last tick within `events` of a sequence number and among the `most` first; at least the first."""
    chosen = None
    for tick in ticks[:most]:
        if chosen is not None and events is not None and tick.seq - seq > events:
            break
        chosen = tick
    return chosen


def split_budget(total: int, backlogs: Mapping[str, int]) -> dict[str, int]:
    """Share a limit among logs in proportion to their backlogs; each gets at least one event."""
    waiting = sum(max(backlog, 1) for backlog in backlogs.values())
    return {log: max(total * max(backlog, 1) // waiting, 1) for log, backlog in backlogs.items()}


def left_of(tables: Sequence[TableRange], after: Place | None) -> list[TableRange]:
    """Return what lies after a place, with events in proportion to the blocks."""
    if after is None:
        return [table for table in tables if table.events]
    names = [table.table for table in tables]
    passed = names.index(after.table) if after.table in names else 0
    left: list[TableRange] = []
    for table in tables[passed:]:
        first = max(table.first, after.block) if table.table == after.table else table.first
        if table.events and first <= table.last:
            left.append(
                table._replace(first=first, events=round(table.density * (table.last - first + 1)) or 1)
            )
    return left


def choose_cut(tables: Sequence[TableRange], after: Place | None, events: int) -> Place | None:
    """Choose the place about so many events after a place; None when fewer are left."""
    left = left_of(tables, after)
    budget = float(events)
    for table in left:
        if budget < table.events:
            blocks = max(int(budget / table.density), 1) if table is left[0] else int(budget / table.density)
            end = table.first + blocks
            if end <= table.last or table is not left[-1]:
                return Place(table.table, end, table.node)
        budget -= table.events
    return None


KINDS: Final[Mapping[str, Kind]] = {
    "ev_id": NUMBER,
    "ev_time": MOMENT,
    "ev_txid": NUMBER,
    "ev_type": TEXT,
    "ev_extra1": TEXT,
}
"""The columns that conditions may be on."""


def literals(where: Conditions) -> dict[str, object]:
    """Return the conditions as the statements that read events take them; None is no condition."""
    return {
        f"{column}_{name}": sorted(limit) if name == "one_of" and limit is not None else limit
        for column in KINDS
        for name, limit in _possible(where, column)._asdict().items()
    }


def _possible(where: Conditions, column: str) -> Values:
    """Return what a column may hold: of one that is never NULL nothing, if it is to be that."""
    values = where.of(column)
    return NOTHING if values.null and KINDS[column] is not TEXT else values


def shorten(
    where: Conditions, begin: TickPosition, end: TickPosition, between: Sequence[TickPosition]
) -> tuple[TickPosition, TickPosition]:
    """Return the ticks closest to each other, of those between and of the ends, between which the events lie."""
    least, most = where.of("ev_txid").lowest, where.of("ev_txid").highest
    ticks = [begin, *between, end]
    for tick in ticks:
        if least is not None and tick.snapshot.xmax <= least:
            begin = tick
    for tick in reversed(ticks):
        if most is not None and tick.snapshot.xmin > most:
            end = tick
    return (begin, end) if begin.tick < end.tick else (begin, begin)


SMALL = 50_000  # events: fewer are read by one task
RECORDS = 250_000  # events of a task, about, by default


class BlockRange(NamedTuple):
    """A part of one table: the blocks from `first` to before `end`."""

    table: int
    name: str
    node: int
    first: int
    end: int


class TableSample(NamedTuple):
    """The numbers of a range's events in some blocks of a table, evenly spread."""

    table: int
    name: str
    node: int
    blocks: int
    counts: tuple[int, ...]

    @property
    def share(self) -> float:
        """The fraction of the table that belongs to the range."""
        return sum(map(bool, self.counts)) / len(self.counts)

    @property
    def events(self) -> int:
        """The estimated number of events."""
        return round(sum(self.counts) * self.blocks / len(self.counts))


def clip(tables: Sequence[TableRange], after: Place | None, upto: Place | None) -> list[TableRange]:
    """Return what lies after one place and before another."""
    left = left_of(tables, after)
    if upto is None:
        return left
    order = [table.table for table in tables]
    stop = order.index(upto.table) if upto.table in order else len(order)
    clipped: list[TableRange] = []
    for table in left:
        index = order.index(table.table)
        if index > stop:
            break
        last = min(table.last, upto.block - 1) if index == stop else table.last
        if last >= table.first:
            events = round(table.density * (last - table.first + 1)) or 1
            clipped.append(table._replace(last=last, events=events))
    return clipped


def split(
    tables: Sequence[TableRange | TableSample], *, least: int = 1, most_events: int | None = None
) -> list[BlockRange]:
    """Cut ranges of blocks into at least `least` parts, if there are as many blocks, of about `most_events` each.

    A sampled table is covered from its first block to its last.
    """
    events = sum(table.events for table in tables)
    wanted = max(least, ceil(events / most_events) if most_events else round(events / RECORDS), 1)
    parts: list[BlockRange] = []
    for table in tables:
        if not table.events:
            continue
        share = ceil(wanted * table.events / events)
        parts += _cut_sampled(table, share) if isinstance(table, TableSample) else _cut(table, share)
    return parts


def _cut_sampled(table: TableSample, parts: int) -> list[BlockRange]:
    """Cut into parts of equal events, assuming that each sample stands for the blocks up to the next."""
    sums = list(accumulate(table.counts, initial=0))
    edges = {0, table.blocks}
    for part in range(1, parts):
        wanted = sums[-1] * part / parts
        index = bisect_right(sums, wanted) - 1
        inside = (wanted - sums[index]) / table.counts[index] if table.counts[index] else 0
        edges.add(int(table.blocks * (index + inside) / len(table.counts)))
    return _between(table, sorted(edges))


def _between(table: TableRange | TableSample, edges: Sequence[int]) -> list[BlockRange]:
    return [
        BlockRange(table.table, table.name, table.node, first, end)
        for first, end in pairwise(edges)
        if end > first
    ]


def _cut(table: TableRange, parts: int) -> list[BlockRange]:
    blocks = table.last - table.first + 1
    parts = min(parts, blocks)
    return _between(table, [table.first + blocks * part // parts for part in range(parts + 1)])
