"""The versions of one row, and what a change does to them: it ends a version, and begins one.

A copy of the table begins an epoch: changes that its snapshot does not see come after its moment, changes that it sees
before. Changes seen by a later copy may come after it, from the log; they are put in before its moment.

Invariant: no version begins before its predecessor ends, even where the times of events are out of order.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from datetime import datetime

    from rowbus.spark.log_source.snapshot import TxidSnapshot

COPY: Final = "COPY"
INSERT: Final = "INSERT"
UPDATE: Final = "UPDATE"
DELETE: Final = "DELETE"
TRUNCATE: Final = "TRUNCATE"


class Epoch(NamedTuple):
    """What a copy began: the changes that its snapshot does not see."""

    snapshot: TxidSnapshot
    moment: datetime


class Mark(NamedTuple):
    """What began or ended a version."""

    time: datetime
    operation: str
    transaction: int | None = None
    user: str | None = None


@dataclass
class Version:
    """A version of a row; `row` is the place of its columns."""

    row: int
    begin: Mark
    event: int | None = None
    end: Mark | None = None
    held: bool = False
    """Whether the table has it."""

    changed: bool = False
    gone: bool = False
    """Whether the one before it lasts instead."""

    @property
    def written(self) -> bool:
        """Whether the table does not have it so."""
        return self.changed or self.gone if self.held else not self.gone


class Change(NamedTuple):
    """A change of a row, in its epoch."""

    epoch: int
    event: int
    mark: Mark
    row: int | None
    """The place of the new row's columns; None where the row goes."""


def epoch_of(transaction: int, epochs: Sequence[Epoch]) -> int | None:
    """Return the last epoch whose copy does not see a transaction; None if all do."""
    return next(
        (at for at in reversed(range(len(epochs))) if not epochs[at].snapshot.sees(transaction)), None
    )


class Timeline:
    """The versions of one row, in order."""

    def __init__(
        self, versions: Sequence[Version], epochs: Sequence[Epoch], same: Callable[[int, int], bool]
    ) -> None:
        """Take versions in any order, and how to know that the columns at two places are the same."""
        self._epochs = epochs
        self._same = same
        self._moments = [epoch.moment for epoch in epochs]
        self.versions = sorted(versions, key=self._rank)
        self.gone: list[Version] = []

    def apply(self, change: Change) -> None:
        """Let a change end the version that it finds, and begin one."""
        place = bisect_right(self.versions, (change.epoch, change.event), key=self._rank)
        before = self.versions[place - 1] if place else None
        copied = self._next_copy(change.epoch)
        alive = before is not None and _lasts(before, copied)
        mark = change.mark._replace(time=self._time(change, before if alive else None, before, copied))
        end = copied
        if alive and before is not None:
            if before.end is None and copied is not None:
                self.versions.insert(place, Version(before.row, copied))
            end = before.end or copied
            before.end, before.changed = mark, True
        if change.row is not None:
            self.versions.insert(place, Version(change.row, mark, change.event, end))
            self._join(place)

    def _join(self, place: int) -> None:
        """Let a version last where the copy after it shows the same."""
        version, *later = self.versions[place : place + 2]
        if later and version.end == later[0].begin and self._same(version.row, later[0].row):
            version.end, later[0].gone = later[0].end, True
            self.gone.append(self.versions.pop(place + 1))

    def _next_copy(self, epoch: int) -> Mark | None:
        return Mark(self._moments[epoch + 1], COPY) if epoch + 1 < len(self._moments) else None

    def _time(
        self, change: Change, alive: Version | None, before: Version | None, copied: Mark | None
    ) -> datetime:
        """Return a change's time, not before that of its predecessor and not after that of the next copy."""
        times = [change.mark.time, self._moments[change.epoch]]
        if alive is not None:
            times.append(alive.begin.time)
        elif before is not None and before.end is not None:
            times.append(before.end.time)
        return max(times) if copied is None else min(max(times), copied.time)

    def _rank(self, version: Version) -> tuple[int, int]:
        if version.begin.transaction is None or version.event is None:
            return max(bisect_right(self._moments, version.begin.time) - 1, 0), 0
        epoch = epoch_of(version.begin.transaction, self._epochs)
        return epoch or 0, version.event


def _lasts(version: Version, copied: Mark | None) -> bool:
    """Say whether a version lasts until a change: it is current, or the copy after the change ended it."""
    if version.end is None:
        return True
    return copied is not None and version.end.operation == COPY and version.end.time >= copied.time
