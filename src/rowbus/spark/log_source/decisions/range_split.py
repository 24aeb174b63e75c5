"""The split of a range into tasks: ranges of blocks with about the same number of events.

Splitting by block costs nothing; by event id every task would read the whole range.

Invariant: the parts of a segment cover its blocks once. The blocks are exact, not estimates: the events between two
ticks never move, and no others join them.
"""

from __future__ import annotations

from bisect import bisect_right
from itertools import accumulate, pairwise
from math import ceil
from typing import TYPE_CHECKING, NamedTuple

from rowbus.spark.log_source.decisions.admission import left_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rowbus.spark.log_source.decisions.admission import TableRange
    from rowbus.spark.log_source.offset import Place

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
