"""A comparison of a lake's tables with those of the database: rows, and a checksum that ignores their order.

Both sides are read into the types of the lake, and each row becomes a number; a table's checksum is their sum.

Invariant: the rows of the database are of one snapshot for each table, and nothing is written.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# PyArrow has no annotations of its own.

from __future__ import annotations

from collections.abc import Callable, Iterable
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import pyarrow as pa

from rowbus.database.postgresql.database import Database
from rowbus.spark.captured import SourceTable, Unfit, describe_source_tables, reading_rows
from rowbus.spark.lake.storage import check_storage
from rowbus.spark.lake.tables.folder import LakeFolder
from rowbus.spark.lake.tables.followed_table import FollowedTable, chosen, lake_access
from rowbus.spark.lake.tables.history.table import HistoryTable

if TYPE_CHECKING:
    from collections.abc import Sequence

_BYTES: Final = 8
_MODULUS: Final = 2 ** (8 * _BYTES)


class Content(NamedTuple):
    """The number of rows, and their checksum."""

    rows: int
    checksum: int


class ComparedTable(NamedTuple):
    """A table, in the database and in the lake; None where it is missing or has other columns."""

    name: str
    database: Content
    lake: Content | None

    @property
    def equal(self) -> bool:
        """Whether both have the same rows."""
        return self.database == self.lake

    @property
    def says(self) -> str:
        """The result, in words."""
        if self.lake is None:
            return f"{self.database.rows:,} rows, and no such table in the lake"
        if self.equal:
            return f"equal, {self.database.rows:,} rows"
        if self.database.rows == self.lake.rows:
            return f"{self.database.rows:,} rows in both, with other values"
        return f"{self.database.rows:,} rows in the database, {self.lake.rows:,} in the lake"


def compare_tables(
    path: str, log: str, patterns: Sequence[str], dsn: str, tell: Callable[[str], object]
) -> list[ComparedTable]:
    """Compare the tables that are captured into a log with those of a lake. Raises ConfigurationError, StorageError."""
    folder, found = LakeFolder(path, dsn), list[ComparedTable]()
    check_storage(folder.path)
    with Database(dsn, application_name="rowbus spark compare").session() as session:
        tables = chosen(session.run(describe_source_tables(log)), patterns, log)
    for table in tables:
        tell(f"Comparing {table.name}")
        followed = FollowedTable(folder, dsn, table)
        compared = _compared(followed, dsn, table)
        found += [compared, *_versions_compared(HistoryTable(folder, table), followed, table, compared)]
    return found


def _compared(followed: FollowedTable, dsn: str, table: SourceTable) -> ComparedTable:
    copy = followed.copy()
    schema = followed.schema(copy.as_text if copy else table.columns)
    try:
        with reading_rows(lake_access(dsn), table) as read:
            there = content(table.convert(batch, schema) for batch in read.batches)
    except Unfit:
        return _compared_as_text(dsn, table)
    if copy is None or sorted(followed.stored.columns()) != sorted(table.columns):
        return ComparedTable(table.name, there, None)
    rows: Any = followed.stored.read()
    return ComparedTable(
        table.name, there, content(batch.select(schema.names).cast(schema) for batch in rows)
    )


def _versions_compared(
    history: HistoryTable, followed: FollowedTable, table: SourceTable, compared: ComparedTable
) -> list[ComparedTable]:
    """Compare the current versions with the table in the database, if versions are kept."""
    copy = followed.copy()
    if copy is None or not history.exists():
        return []
    try:
        current = compared.lake and content(history.current(table.schema(copy.as_text)))
    except Unfit:
        current = None
    return [ComparedTable(history.name, compared.database, current)]


def _compared_as_text(dsn: str, table: SourceTable) -> ComparedTable:
    """Count rows with a value that the lake's columns cannot hold: it has not come there yet."""
    schema = table.schema(table.columns)
    with reading_rows(lake_access(dsn), table) as read:
        return ComparedTable(
            table.name, content(table.convert(batch, schema) for batch in read.batches), None
        )


def content(batches: Iterable[pa.RecordBatch]) -> Content:
    """Return how many rows there are, and their checksum, which does not depend on their order."""
    rows, total = 0, 0
    for batch in batches:
        columns: list[list[Any]] = [column.to_pylist() for column in batch.columns]
        for row in zip(*columns, strict=True):
            digest = blake2b(repr(row).encode("utf-8", "surrogatepass"), digest_size=_BYTES).digest()
            total += int.from_bytes(digest, "big")
            rows += 1
    return Content(rows, total % _MODULUS)
