"""Offsets of logs, as Spark keeps them in checkpoints: a tick with its snapshot, and perhaps a place after it.

```json
{"v": 1, "orders": {"tick": 20, "snap": "767:767:", "seq": 1000000, "ts": "2026-11-20T23:25:09Z"}}
```

Rotation deletes a tick's row; its snapshot still says which transactions had committed. An offset inside a range that
is too large for a micro-batch has more fields: `"to": {…}, "tbl": 1, "blk": 4096, "node": 16423` means that the events
between the tick and `to` are read table by table and block by block, and are done before block 4096 of table 1, whose
file was 16423.

Invariants: Spark compares offsets as text, so equal offsets are written equally: logs by name, keys in one order. The
text is what `txid_snapshot` prints, `xmin:xmax:id,id…`, and is kept word for word. Source: PostgreSQL documentation,
"System Information Functions", table of transaction id functions.
"""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from rowbus.errors import ConfigurationError

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


VERSION = 1


class TickPosition(NamedTuple):
    """A tick as an offset names it."""

    tick: int
    snap: str
    seq: int
    """The event sequence at the tick: a hint of how many events lie between two."""

    ts: str

    @property
    def snapshot(self) -> TxidSnapshot:
        """The tick's snapshot."""
        return TxidSnapshot.parse(self.snap)


class Place(NamedTuple):
    """A place in a log's tables: before a block of one of them; valid while the table's file is this one."""

    table: int
    block: int
    node: int


class Cut(NamedTuple):
    """The end of what has been read: the events before the tick `to`."""

    to: TickPosition
    place: Place


class LogOffset(NamedTuple):
    """A position in one log: the tick `at`, and with a cut a part of the events after it."""

    at: TickPosition
    cut: Cut | None = None


Offsets = dict[str, LogOffset]


class Segment(NamedTuple):
    """The events between two ticks of a log, perhaps only from a place or up to one."""

    begin: TickPosition
    end: TickPosition
    after: Place | None = None
    upto: Place | None = None


def segments(start: LogOffset, end: LogOffset) -> list[Segment]:
    """Return the consecutive segments between two offsets of a log."""
    if start == end:
        return []
    if start.cut is None:
        return _from_tick(start.at, end)
    begun = start.cut
    if end.cut is not None and (end.at.snap, end.cut.to.snap) == (start.at.snap, begun.to.snap):
        return [Segment(start.at, begun.to, begun.place, end.cut.place)]
    return [Segment(start.at, begun.to, begun.place), *_from_tick(begun.to, end)]


def _from_tick(begin: TickPosition, end: LogOffset) -> list[Segment]:
    whole = [] if begin.snap == end.at.snap else [Segment(begin, end.at)]
    return whole if end.cut is None else [*whole, Segment(end.at, end.cut.to, None, end.cut.place)]


# ------------------------------------------------------------------------------------------------------ as JSON


def offsets_to_json(offsets: Mapping[str, LogOffset]) -> dict[str, object]:
    """Return offsets for Spark: only numbers, strings and dictionaries, in a stable order."""
    return {"v": VERSION, **{log: offset_to_json(offsets[log]) for log in sorted(offsets)}}


def offset_to_json(offset: LogOffset) -> dict[str, object]:
    """Return one log's part of it."""
    if offset.cut is None:
        return offset.at._asdict()
    to, place = offset.cut
    return {
        **offset.at._asdict(),
        "to": to._asdict(),
        "tbl": place.table,
        "blk": place.block,
        "node": place.node,
    }


def offsets_from_json(given: Mapping[str, Any] | str) -> Offsets:
    """Read offsets of this source; raises ConfigurationError for anything else."""
    parts = _parts(json.loads(given) if isinstance(given, str) else given, given)
    if parts.get("v") != VERSION:
        raise _unreadable(given, "it is not of version 1")
    return {log: offset_from_json(part, given) for log, part in parts.items() if log != "v"}


def offset_from_json(given: object, whole: object) -> LogOffset:
    """Read one log's part."""
    part = _parts(given, whole)
    try:
        if "to" not in part:
            return LogOffset(_position(part))
        place = Place(int(part["tbl"]), int(part["blk"]), int(part["node"]))
        return LogOffset(_position(part), Cut(_position(part["to"]), place))
    except (KeyError, TypeError, ValueError) as error:
        raise _unreadable(whole, f"{error!r}") from error


def _parts(given: object, whole: object) -> Mapping[str, Any]:
    if not isinstance(given, Mapping):
        raise _unreadable(whole, f"{given!r} is no JSON object")
    return cast("Mapping[str, Any]", given)


def _position(part: Mapping[str, Any]) -> TickPosition:
    position = TickPosition(int(part["tick"]), str(part["snap"]), int(part["seq"]), str(part["ts"]))
    TxidSnapshot.parse(position.snap)
    return position


def _unreadable(given: object, reason: str) -> ConfigurationError:
    return ConfigurationError(f"{given!r} is not an offset of a log that this version can read: {reason}.")
