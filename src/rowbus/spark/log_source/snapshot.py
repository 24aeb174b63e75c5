"""Snapshots of PostgreSQL's transactions, as a log's ticks carry them.

Invariant: the text is what `txid_snapshot` prints, `xmin:xmax:id,id…`, and is kept word for word.
Source: PostgreSQL documentation, "System Information Functions", table of transaction id functions.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

NEAR = 100  # transaction ids: closer to the others than that, one range is cheaper than a look-up by id


class TxidSnapshot(NamedTuple):
    """A snapshot: it sees the transactions below `xmax` that were not running."""

    xmin: int
    xmax: int
    running: tuple[int, ...] = ()

    @classmethod
    def parse(cls, text: str) -> TxidSnapshot:
        """Read the text of a snapshot; raises ValueError."""
        xmin, xmax, running = text.split(":")
        return cls(int(xmin), int(xmax), tuple(map(int, running.split(","))) if running else ())

    def sees(self, transaction: int) -> bool:
        """Say whether a transaction had ended."""
        return transaction < self.xmin or (transaction < self.xmax and transaction not in self.running)


class Search(NamedTuple):
    """The transactions that one snapshot sees and an earlier one does not: a range of ids, and a few older ones."""

    low: int
    high: int
    """The end of the range, exclusive."""

    late: tuple[int, ...]
    """Long transactions that were running at the earlier snapshot and have ended since."""


def search_between(earlier: TxidSnapshot, later: TxidSnapshot) -> Search:
    """Choose the range as PgQ does, so that one old transaction does not widen every range."""
    low = earlier.xmax
    late: list[int] = []
    for transaction in sorted(set(earlier.running) - set(later.running), reverse=True):
        if low - NEAR <= transaction:
            low = transaction
        else:
            late.append(transaction)
    return Search(low, later.xmax, tuple(sorted(late)))


class TickSteps(NamedTuple):
    """The tick that first saw a transaction, as steps over ids: `ticks[i]` below `breaks[i]`, the last one above."""

    breaks: list[int]
    ticks: list[int]


def tick_steps(ticks: Sequence[tuple[int, TxidSnapshot]]) -> TickSteps:
    """Return which of `ticks` first saw each transaction."""
    if len(ticks) == 1:
        return TickSteps([], [ticks[0][0]])
    ends = [snapshot.xmax for _, snapshot in ticks]
    late = {
        running: _first_seen(ticks, bisect_right(ends, running), running)
        for _, snapshot in ticks[:-1]
        for running in snapshot.running
    }
    points = sorted({*ends[:-1], *late, *(running + 1 for running in late)})
    last = len(ticks) - 1

    def tick_at(point: int) -> int:
        index = late[point] if point in late else bisect_right(ends, point)
        return ticks[min(index, last)][0]

    return TickSteps(points, [ticks[0][0], *map(tick_at, points)])


def _first_seen(ticks: Sequence[tuple[int, TxidSnapshot]], begin: int, transaction: int) -> int:
    for index in range(begin, len(ticks)):
        if ticks[index][1].sees(transaction):
            return index
    return len(ticks)
