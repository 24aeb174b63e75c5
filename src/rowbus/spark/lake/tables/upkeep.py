"""Looks after the tables of a lake: merges small files now and then, and deletes those that no version needs.

It makes no commit, so it never disturbs a job that writes.

Invariants: it changes no row; a job that is killed in the midst leaves each table with its old files or its new ones; a
file that the newest version or the one noted for a tick needs is never deleted, nor one so young that its batch may
still be committed.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Final, NamedTuple

from rowbus.errors import ConfigurationError
from rowbus.spark.lake.files import remove
from rowbus.spark.lake.storage import check_storage
from rowbus.spark.lake.tables.folder import STATE, LakeFolder

DELETIONS: Final = 10
"""The number of looks for small files until old files are deleted once: that lists whole folders."""


class VacuumedTable(NamedTuple):
    """A table, and the files that were deleted, or would be; by their paths within its folder."""

    name: str
    files: list[str]


def vacuum_tables(
    path: str, *, older_than: timedelta, dry_run: bool, tell: Callable[[str], object], dsn: str | None = None
) -> list[VacuumedTable]:
    """Delete what is `older_than`; `dry_run` deletes nothing. Readers of older versions may find files gone.

    Raises ConfigurationError for a folder without a lake.
    """
    folder = LakeFolder(path, dsn)
    check_storage(folder.path)
    if not folder.state.has(""):
        raise ConfigurationError(f"{path} is no lake's folder: it has no folder {STATE}.")
    return _vacuumed(folder, older_than, tell, dry_run=dry_run)


def _vacuumed(
    folder: LakeFolder, older_than: timedelta, tell: Callable[[str], object], *, dry_run: bool
) -> list[VacuumedTable]:
    noted, found = folder.versions(), list[VacuumedTable]()
    oldest = min(noted.values(), default=None)
    if (lake := folder.ducklake()) and not dry_run:
        lake.forget(older_than, oldest)
    for name in folder.names():
        tell(f"Looking at {name}")
        files = folder.stored(name).unneeded(older_than, oldest if lake else noted.get(name))
        if not dry_run:
            remove(folder.table(name), files)
        found.append(VacuumedTable(name, files))
    return found


def compacts(batch: int, every: int) -> bool:
    """Return whether small files are looked for after a batch; with `every` 0 never."""
    return every > 0 and (batch + 1) % every == 0


def deletes(batch: int, every: int) -> bool:
    """Return whether files that no version needs are looked for after a batch; with `every` 0 never."""
    return compacts(batch, every * DELETIONS)


def look_after(folder: LakeFolder, batch: int, *, every: int, keep_hours: int) -> None:
    """Do what is due after a batch, every so many batches; nothing with `every` 0."""
    if compacts(batch, every):
        compact_tables(folder)
    if deletes(batch, every):
        _vacuumed(folder, timedelta(hours=keep_hours), lambda _line: None, dry_run=False)


def compact_tables(folder: LakeFolder) -> dict[str, int]:
    """Merge small files of the tables that have many; return how many were replaced in each."""
    return {name: folder.stored(name).compact() for name in folder.names()}
