"""Deletes the files of a lake's tables that their versions no longer need.

It makes no commit, so it never disturbs a job that writes.

Invariant: a file that the newest version or the one noted for a tick needs is never deleted, nor one so young that its
batch may still be committed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from rowbus.spark.lake.files import remove
from rowbus.spark.lake.tables.folder import LakeFolder
from rowbus.spark.lake.tables.stored_table import stored_table

if TYPE_CHECKING:
    from datetime import timedelta


class VacuumedTable(NamedTuple):
    """A table, and the files that were deleted, or would be; by their paths within its folder."""

    name: str
    files: list[str]


def vacuum_tables(
    path: str, *, older_than: timedelta, dry_run: bool, tell: Callable[[str], object]
) -> list[VacuumedTable]:
    """Delete what is `older_than`; `dry_run` deletes nothing. Readers of older versions may find files gone."""
    folder, found = LakeFolder(path), list[VacuumedTable]()
    kind, noted = folder.format(), folder.versions()
    for name in folder.names():
        tell(f"Looking at {name}")
        table = stored_table(folder.table(name), name, kind)
        files = table.unneeded(older_than, noted.get(name))
        if not dry_run:
            remove(folder.table(name), files)
        found.append(VacuumedTable(name, files))
    return found
