"""The versions of rows, and what changes do to them: each ends a version, and begins one.

A copy of the table begins an epoch: changes that its snapshot does not see come after its moment, changes that it sees
before. Changes seen by a later copy may come after it, from the log; they are put in before its moment.

Invariants: no version begins before its predecessor ends, even where the times of events are out of order; each change
of the batch begins a version or ends one, in the order of the events.
"""

from __future__ import annotations

import json
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

from rowbus.errors import ConfigurationError
from rowbus.log import event

if TYPE_CHECKING:
    from datetime import datetime

    from rowbus.spark.lake.tables.net_changes import Row, StagedChange
    from rowbus.spark.log_source.offset import TxidSnapshot

COPY: Final = "COPY"
INSERT: Final = "INSERT"
UPDATE: Final = "UPDATE"
DELETE: Final = "DELETE"
TRUNCATE: Final = "TRUNCATE"


class Epoch(NamedTuple):
    """The beginnings in a copy: the changes that its snapshot does not see."""

    snapshot: TxidSnapshot
    moment: datetime


class Mark(NamedTuple):
    """The change that began or ended a version."""

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


Key = Hashable

_WORDS = {
    event.INSERT: INSERT,
    event.UPDATE: UPDATE,
    event.DELETE: DELETE,
    event.TRUNCATE: TRUNCATE,
}


class ToldChange(NamedTuple):
    """A change that the copies before it do not see, with its row decoded."""

    change: StagedChange
    epoch: int
    row: Row

    @property
    def truncates(self) -> bool:
        """Whether it empties the table."""
        return self.change.operation == event.TRUNCATE

    @property
    def time(self) -> datetime:
        """The event's time."""
        if self.change.time is None:
            raise ConfigurationError(
                "Versions need the events' times: stage changes with the option history."
            )
        return self.change.time

    def at(self, place: int) -> Change:
        """Return it as a change of a row that is at a place."""
        told = self.change
        mark = Mark(self.time, _WORDS[told.operation], told.transaction, told.user)
        goes = told.operation in {event.DELETE, event.TRUNCATE}
        return Change(self.epoch, told.event, mark, None if goes else place)


def told_changes(
    changes: Iterable[StagedChange], key: Sequence[str], epochs: Sequence[Epoch]
) -> list[ToldChange]:
    """Return the changes that are to be told, in order: not those that the first copy sees, nor rows without a key.

    Without a key only new rows count, and what empties the table.
    """
    found: list[ToldChange] = []
    for change in sorted(changes, key=lambda change: (change.event, change.part)):
        epoch = epoch_of(change.transaction, epochs)
        if epoch is None:
            continue
        told = ToldChange(change, epoch, json.loads(change.row))
        if told.truncates or (
            all(told.row.get(name) is not None for name in key) and (key or change.operation == event.INSERT)
        ):
            found.append(told)
    return found


def changed_versions(
    changes: Iterable[tuple[Key | None, Change]],
    there: Iterable[tuple[Key, Version]],
    epochs: Sequence[Epoch],
    same: Callable[[int, int], bool],
) -> list[Version]:
    """Return the versions to be written, among those of the changes' keys; a key of None is every key.

    `same` says whether the columns at two places are the same.
    """
    told = list(changes)
    held = defaultdict[Key, list[Version]](list)
    for key, version in there:
        held[key].append(version)
    keys = {key for key, _change in told if key is not None} | set(held)
    lines = {key: Timeline(held[key], epochs, same) for key in keys}
    for key, change in told:
        for line in lines.values() if key is None else (lines[key],):
            line.apply(change)
    found = [version for line in lines.values() for version in (*line.versions, *line.gone)]
    return [version for version in found if version.written]
