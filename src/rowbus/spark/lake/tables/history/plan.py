"""Which versions of a table a batch of changes ends and begins.

Invariant: each change of the batch begins a version or ends one, in the order of the events.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from rowbus.errors import ConfigurationError
from rowbus.spark.captured import row_change
from rowbus.spark.lake.tables.history.timeline import (
    DELETE,
    INSERT,
    TRUNCATE,
    UPDATE,
    Change,
    Mark,
    Timeline,
    Version,
    epoch_of,
)

if TYPE_CHECKING:
    from datetime import datetime

    from rowbus.spark.lake.tables.history.timeline import Epoch
    from rowbus.spark.lake.tables.net_changes import Row, StagedChange

Key = Hashable

_WORDS = {
    row_change.INSERT: INSERT,
    row_change.UPDATE: UPDATE,
    row_change.DELETE: DELETE,
    row_change.TRUNCATE: TRUNCATE,
}


class ToldChange(NamedTuple):
    """A change that the copies before it do not see, with its row decoded."""

    change: StagedChange
    epoch: int
    row: Row

    @property
    def truncates(self) -> bool:
        """Whether it empties the table."""
        return self.change.operation == row_change.TRUNCATE

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
        goes = told.operation in {row_change.DELETE, row_change.TRUNCATE}
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
            all(told.row.get(name) is not None for name in key)
            and (key or change.operation == row_change.INSERT)
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
