"""The protocol of a table in the lake that follows another: Delta's or Iceberg's.

Invariant: each change of a table is one commit, and records its batch's number.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Literal, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import timedelta

    import pyarrow as pa

    from rowbus.spark.lake.table import AppTransaction

TableFormat = Literal["delta", "iceberg"]


class StoredTable(Protocol):
    """A table of a lake; there is none before the first `replace`."""

    def fitted(self, schema: pa.Schema) -> pa.Schema:
        """Return columns with types that the format has; none is narrower."""
        ...

    def newest(self, app: str) -> int | None:
        """Return the number of an application's newest batch; None before its first."""
        ...

    def version(self) -> int:
        """Return the number by which readers find the table as it is now."""
        ...

    def replace(self, schema: pa.Schema, rows: Iterable[pa.RecordBatch], batch: AppTransaction) -> None:
        """Replace columns and contents, or make the table."""
        ...

    def write(self, rows: pa.Table, batch: AppTransaction, *, emptied: bool) -> None:
        """Add rows, or replace the contents by them."""
        ...

    def merge(self, changes: pa.Table, keys: Sequence[str], batch: AppTransaction) -> None:
        """Write or delete rows, one for each key, as the column `DELETED` says."""
        ...

    def compact(self) -> int:
        """Merge small files in a commit of its own, if there are many; return how many are replaced.

        The rows stay the same. 0 as well when there is no table, and when another commit came first.
        """
        ...

    def columns(self) -> list[str]:
        """Return the names of the columns, in their order."""
        ...

    def read(self) -> Iterator[pa.RecordBatch]:
        """Read all rows."""
        ...

    def unneeded(self, older_than: timedelta, noted: int | None) -> list[str]:
        """Return files that no version needs any more, by their paths in the folder; those of `noted` are needed."""
        ...


def stored_table(path: str, name: str, kind: TableFormat) -> StoredTable:
    """Return a table of a lake: `path` is its folder, within that of the lake. No I/O."""
    if kind == "delta":
        from rowbus.spark.lake.tables.delta_table import StoredDelta  # noqa: PLC0415 - only the library asked for

        return StoredDelta(path)
    from rowbus.spark.lake.tables.iceberg_table import StoredIceberg  # noqa: PLC0415 - as above

    return StoredIceberg(path, name)
