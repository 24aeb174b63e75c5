"""The size of a log's part of a micro-batch: up to which tick, or, inside a tick that is too large, up to which block.

Sizes are estimates: an event sequence has gaps, and blocks differ. The contents of a micro-batch never depend on them.

Invariant: while there are unread events, every choice takes some, so no limit stops a stream for ever.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from rowbus.spark.log_source.offset import Place, TickPosition

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


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
