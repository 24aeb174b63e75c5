"""Leftovers of a lake: files that no commit names, of failed attempts or of a driver that died; finds and deletes them.

Invariant: a file that a table names is never deleted, nor one so young that its batch may still be committed.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

import pyarrow as pa
from pyarrow import fs

from rowbus.spark.lake.files import FOLDER, Layout, remove
from rowbus.spark.lake.storage import file_system
from rowbus.spark.lake.writer import LakeSettings

DAY = timedelta(days=1)


def collect(
    path: str,
    deliver: str,
    *,
    older_than: timedelta = DAY,
    dry_run: bool = False,
    table: str | None = None,
    catalog: str | None = None,
) -> list[str]:
    """Delete the leftovers in a table's folder, and return their paths within it; `dry_run` deletes nothing.

    Only files that this sink wrote and that are `older_than`. A Delta table's older versions lose the files that were
    replaced since, as in a VACUUM; Iceberg's snapshots keep theirs. `deliver`, `table` and `catalog` are the options
    the table was written with.
    """
    before = datetime.now(UTC) - older_than
    layout = Layout(path, pa.schema([]), (), 0, ())
    lake = LakeSettings(deliver, layout, table, catalog, app=None, version=None, overwrite=False).lake()
    # Listed before the table is read: files committed meanwhile are younger.
    written = set(written_files(path, before, {FOLDER: "parquet"}))
    leftovers = sorted(written - lake.referenced())
    if not dry_run:
        remove(path, leftovers)
    return leftovers


def written_files(path: str, before: datetime, kinds: Mapping[str, str]) -> list[str]:
    """Return files of a table's folder written before a time; `kinds` has the extension for each folder in it."""
    system, root = file_system(path)
    return [
        f"{folder}/{found.base_name}"
        for folder, kind in kinds.items()
        for found in system.get_file_info(fs.FileSelector(f"{root}/{folder}", allow_not_found=True))
        if found.is_file and found.extension == kind and found.mtime and found.mtime < before
    ]
