"""Looks after the tables of a lake by the way: after some batches, small files are merged and old ones deleted.

Invariant: it changes no row; a job that is killed in the midst leaves each table with its old files or its new ones.
"""

from __future__ import annotations

from datetime import timedelta

from rowbus.spark.lake.policy import compacts, deletes
from rowbus.spark.lake.tables.folder import LakeFolder
from rowbus.spark.lake.tables.stored_table import stored_table
from rowbus.spark.lake.tables.vacuum import vacuum_tables


def look_after(path: str, batch: int, *, every: int, keep_hours: int) -> None:
    """Do what is due after a batch, every so many batches; nothing with `every` 0."""
    if compacts(batch, every):
        compact_tables(path)
    if deletes(batch, every):
        vacuum_tables(path, older_than=timedelta(hours=keep_hours), dry_run=False, tell=lambda _line: None)


def compact_tables(path: str) -> dict[str, int]:
    """Merge small files of the tables that have many; return how many were replaced in each."""
    folder = LakeFolder(path)
    kind = folder.format()
    return {name: stored_table(folder.table(name), name, kind).compact() for name in folder.names()}
