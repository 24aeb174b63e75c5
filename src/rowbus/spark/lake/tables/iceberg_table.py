"""An Iceberg table that follows a table of the database.

Its catalogue is SQLite in the lake's folder, or the one that the lake has settled on.

A column keeps its identity while its name stays and its type stays or widens as Iceberg can (int to long, float to
double, more digits of a decimal); else it is another column. So a snapshot of before reads what was then.

Invariant: a batch's number is in the commit of its rows, as a property of the table.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# PyArrow has no annotations of its own.

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
from pyiceberg.exceptions import CommitFailedException, NoSuchTableError

from rowbus.spark.lake.iceberg import catalog_of, changing, newest_batch
from rowbus.spark.lake.iceberg_files import PROPERTIES, Change, named_files
from rowbus.spark.lake.leftovers import written_files
from rowbus.spark.lake.table import plain_type
from rowbus.spark.lake.tables.evolution import widens

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import timedelta

    from pyiceberg.catalog import Catalog
    from pyiceberg.table import Table, Transaction

    from rowbus.spark.lake.files import Rows
    from rowbus.spark.lake.table import AppTransaction
    from rowbus.spark.lake.tables.evolution import Reshaping

_WIDENED: Final[dict[pa.DataType, pa.DataType]] = {
    pa.int16(): pa.int32(),
    pa.list_(pa.int16()): pa.list_(pa.int32()),
}
_KINDS: Final = {"data": "parquet", "metadata": "avro"}
_PROMOTED: Final = {("int32", "int64"), ("float", "double")}


class StoredIceberg:
    """An Iceberg table in a folder of a lake, named in the catalogue by schema and table of its source."""

    def __init__(self, path: str, name: str, catalog: str | None = None) -> None:
        """Take the folder, the name with its schema, and what names the catalogue. No I/O."""
        self._path = path
        self._place = (path.rpartition("/")[0], catalog)
        schema, _, table = name.partition(".")
        self._name = (schema, table)

    def fitted(self, schema: pa.Schema) -> pa.Schema:
        """Return columns with types that Iceberg has: its smallest whole number has 32 bits."""
        columns = zip(schema.names, schema.types, strict=True)
        return pa.schema([(name, _WIDENED.get(kind, kind)) for name, kind in columns])

    def newest(self, app: str) -> int | None:
        """Return the number of an application's newest batch; None before its first."""
        with self._open() as table:
            return newest_batch(table, app) if table else None

    def version(self) -> int:
        """Return the id of the newest snapshot."""
        with self._there() as table:
            snapshot = table.current_snapshot()
            return snapshot.snapshot_id if snapshot else 0

    def replace(self, schema: pa.Schema, rows: Iterable[pa.RecordBatch], batch: AppTransaction) -> None:
        """Replace columns and contents, or make the table."""
        with closing(catalog_of(*self._place)) as catalog:
            table = self._load(catalog) or self._create(catalog, schema)
            with changing(table, batch) as change:
                _reshape(change.transaction, schema)
                change.replace(rows)

    def reshape(self, schema: pa.Schema, change: Reshaping, batch: AppTransaction) -> None:
        """Change the table's columns; only values of new ones have its rows written anew."""
        with self._there() as table, changing(table, batch) as it:
            _rename(it.transaction, change.evolution.names)
            _reshape(it.transaction, schema)
            if any(text is not None for text in change.evolution.filled.values()):
                given = change._replace(evolution=change.evolution._replace(names={}))
                it.replace(given.rows(rows, schema) for rows in it.read())

    def write(self, rows: Iterable[pa.RecordBatch], batch: AppTransaction, *, emptied: bool) -> None:
        """Add rows, or replace the contents by them."""
        with self._there() as table, changing(table, batch) as change:
            (change.replace if emptied else change.add)(rows)
            change.forget_old()

    def merge(self, changed: pa.Table, rows: Rows, keys: Sequence[str], batch: AppTransaction) -> None:
        """Write rows instead of those with the keys of changes."""
        with self._there() as table, changing(table, batch) as change:
            change.merge(changed, rows, keys)
            change.forget_old()

    def compact(self) -> int:
        """Merge small files, if there are many."""
        with self._open() as table:
            if table is None:
                return 0
            try:
                with changing(table, None) as change:
                    return change.compact()
            except CommitFailedException:
                return 0

    def columns(self) -> list[str]:
        """Return the names of the columns, in their order."""
        with self._there() as table:
            return [field.name for field in table.schema().fields]

    def read(self) -> Iterator[pa.RecordBatch]:
        """Read all rows, a file at a time."""
        with self._there() as table:
            yield from Change(table, table.transaction(), {}).read()

    def unneeded(self, older_than: timedelta, noted: int | None) -> list[str]:
        """Return old files that none of the snapshots needs; `noted` is one of these."""
        del noted
        written = written_files(self._path, datetime.now(UTC) - older_than, _KINDS)
        with self._open() as table:  # read after the files were listed: those committed meanwhile are younger
            needed = named_files(table) if table else set[str]()
        return sorted(name for name in written if f"{self._path}/{name}" not in needed)

    def _load(self, catalog: Catalog) -> Table | None:
        try:
            return catalog.load_table(self._name)
        except NoSuchTableError:
            return None

    def _create(self, catalog: Catalog, schema: pa.Schema) -> Table:
        catalog.create_namespace_if_not_exists(self._name[0])
        return catalog.create_table(self._name, schema, self._path, properties=PROPERTIES)

    @contextmanager
    def _open(self) -> Generator[Table | None]:
        """Find the table, which may not be there; a lake's folder is made."""
        with closing(catalog_of(*self._place)) as catalog:
            yield self._load(catalog)

    @contextmanager
    def _there(self) -> Generator[Table]:
        with closing(catalog_of(*self._place)) as catalog:
            yield catalog.load_table(self._name)


def _rename(transaction: Transaction, names: Mapping[str, str | None]) -> None:
    """Give columns other names; those without one go."""
    with transaction.update_schema(allow_incompatible_changes=True) as update:
        for old, name in names.items():
            if name is None:
                update.delete_column((old,))
            else:
                update.rename_column((old,), name)


def _reshape(transaction: Transaction, schema: pa.Schema) -> None:
    """Give a table other columns; those whose type cannot become the new one make room for others of their name."""
    held: Any = transaction.table_metadata.schema().as_arrow()
    wanted: dict[str, pa.DataType] = dict(zip(schema.names, schema.types, strict=True))
    if list(held.names) == list(wanted) and all(_same(field.type, wanted[field.name]) for field in held):
        return
    with transaction.update_schema(allow_incompatible_changes=True) as update:
        for field in held:
            if field.name not in wanted or not _becomes(field.type, wanted[field.name]):
                update.delete_column((field.name,))
    with transaction.update_schema() as update:
        update.union_by_name(schema)
    with transaction.update_schema() as update:
        update.move_first((schema.names[0],))
        for before, name in pairwise(schema.names):
            update.move_after((name,), (before,))


def _same(held: pa.DataType, wanted: pa.DataType) -> bool:
    return plain_type(held) == plain_type(wanted)


def _becomes(held: Any, wanted: Any) -> bool:  # noqa: ANN401 - types, each with attributes of its own
    """Say whether Iceberg lets a column of one type become one of another."""
    return widens(held, wanted) or _same(held, wanted) or (str(held), str(wanted)) in _PROMOTED
