"""A table of a DuckLake that follows a table of the database: Parquet files, and files of deletions by position.

A column keeps its number while its name stays and its type stays or widens; files name their columns by it. So a column
that is new, renamed or gone changes no file, and a snapshot of before reads what was then.

Invariants: a file is written before the snapshot that names it, and never again; the number of a batch is in the commit
of its rows.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# PyArrow has no annotations of its own.

from __future__ import annotations

import re
import secrets
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from rowbus.spark.captured import converted
from rowbus.spark.lake.ducklake import FileChange, LakeColumn, LakeFile
from rowbus.spark.lake.files import FOLDER, DataFile, Files, Layout, OpenFile, opened, read_groups
from rowbus.spark.lake.leftovers import written_files
from rowbus.spark.lake.merge import RowKeys
from rowbus.spark.lake.policy import SMALL, to_merge
from rowbus.spark.lake.storage import file_system
from rowbus.spark.lake.tables.evolution import widens

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from rowbus.spark.lake.ducklake import DuckLake, LakeTable
    from rowbus.spark.lake.files import Rows
    from rowbus.spark.lake.table import AppTransaction
    from rowbus.spark.lake.tables.evolution import Reshaping

_ID: Final = b"PARQUET:field_id"
_PLACES: Final[list[pa.Field[Any]]] = [
    pa.field("file_path", pa.string(), metadata={_ID: b"2147483646"}),
    pa.field("pos", pa.int64(), metadata={_ID: b"2147483645"}),
]
_DELETIONS: Final = pa.schema(_PLACES)
_TYPES: Final[dict[str, pa.DataType]] = {
    "boolean": pa.bool_(),
    "int16": pa.int16(),
    "int32": pa.int32(),
    "int64": pa.int64(),
    "float32": pa.float32(),
    "float64": pa.float64(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us"),
    "timestamptz": pa.timestamp("us", "UTC"),
    "blob": pa.binary(),
    "varchar": pa.string(),
}
_NAMES: Final = {kind: name for name, kind in _TYPES.items()}
_DECIMAL: Final = re.compile(r"decimal\((\d+),(\d+)\)")
_compute: Any = pc  # its stubs lack many functions
_arrow: Any = pa


class StoredDuckLake:
    """A table in a folder of a DuckLake, named by schema and table of its source."""

    def __init__(self, path: str, name: str, lake: DuckLake) -> None:
        """Take the folder, the name with its schema, and the catalogue. No I/O."""
        self._path = path
        self._lake = lake
        schema, _, table = name.partition(".")
        self._name = (schema, table)

    def fitted(self, schema: pa.Schema) -> pa.Schema:
        """Return the columns as they are."""
        return schema

    def newest(self, app: str) -> int | None:
        """Return the number of an application's newest batch; None before its first."""
        return self._lake.newest(*self._name, app)

    def version(self) -> int:
        """Return the number of the newest snapshot, which all tables share."""
        return self._lake.version()

    def replace(self, schema: pa.Schema, rows: Iterable[pa.RecordBatch], batch: AppTransaction) -> None:
        """Replace columns and contents, or make the table."""
        with self._lake.together():
            table = self._found()
            columns = reshaped(table, schema, {})
            added = self._written(columns, rows)
            table.create(f"{self._path.rpartition('/')[2]}/")
            table.alter(columns)
            table.change(FileChange(table.files, added), batch)

    def reshape(self, schema: pa.Schema, change: Reshaping, batch: AppTransaction) -> None:
        """Change the table's columns, and no file; raises Unfit."""
        filled = {name: text for name, text in change.evolution.filled.items() if text is not None}
        values = {
            name: _as_text(converted(name, change.types[name], _arrow.array([text]), schema.field(name).type))
            for name, text in filled.items()
        }
        with self._lake.together():
            table = self._found()
            table.alter(reshaped(table, schema, values, change.evolution.names))
            table.change(FileChange(), batch)

    def write(self, rows: Iterable[pa.RecordBatch], batch: AppTransaction, *, emptied: bool) -> None:
        """Add rows, or replace the contents by them."""
        with self._lake.together():
            table = self._found()
            added = self._written(table.columns, rows)
            table.change(FileChange(table.files if emptied else (), added), batch)

    def merge(self, changed: pa.Table, rows: Rows, keys: Sequence[str], batch: AppTransaction) -> None:
        """Write rows instead of those with the keys of changes."""
        index = RowKeys(changed, keys)
        with self._lake.together():
            table = self._found()
            ended, deletions = list[LakeFile](), list[tuple[LakeFile, DataFile]]()
            for file in table.files:
                gone = self._gone(file)
                now = _and_more(gone, self._places(file, table.columns, index, changed))
                if len(now) == file.rows:
                    ended.append(file)
                elif len(now) > len(gone):
                    deletions.append((file, self._deletion(file, now)))
            added = self._written(table.columns, rows)
            table.change(FileChange(ended, added, deletions), batch)

    def compact(self) -> int:
        """Merge small files, and those of which most rows are gone, in a snapshot of its own, if there are many."""
        with self._lake.together():
            table = self._found()
            sizes = [0 if 2 * (file.deleted or 0) > file.rows else file.size for file in table.files]
            small = [table.files[place] for place in to_merge(sizes)]
            if small:
                rows = (batch for file in small for batch in self._live(file, table.columns))
                table.change(FileChange(small, self._written(table.columns, rows)), None)
            return len(small)

    def columns(self) -> list[str]:
        """Return the names of the columns."""
        with self._lake.looking():
            return [column.name for column in self._found().columns if column.parent is None]

    def read(self) -> Iterator[pa.RecordBatch]:
        """Read all rows, few at a time."""
        with self._lake.looking():
            table = self._found()
        for file in table.files:
            yield from self._live(file, table.columns)

    def unneeded(self, older_than: timedelta, noted: int | None) -> list[str]:
        """Return old files that no snapshot needs which is kept; `noted` is one of these."""
        written = written_files(self._path, datetime.now(UTC) - older_than, {FOLDER: "parquet"})
        return sorted(set(written) - self._lake.paths(*self._name, older_than, noted))

    def _found(self) -> LakeTable:
        return self._lake.table(*self._name)

    def _written(self, columns: Sequence[LakeColumn], rows: Iterable[pa.RecordBatch]) -> list[DataFile]:
        """Write rows in files that no snapshot names yet."""
        layout = Layout(self._path, _schema(columns), (), 2 * SMALL, ())
        return Files(layout, "rows").write(rows)

    def _deletion(self, file: LakeFile, places: Any) -> DataFile:  # noqa: ANN401 - an array, whose stubs are partial
        """Write the places of a file's rows that are gone."""
        system, root = file_system(self._path)
        name = f"{FOLDER}/deletions-{secrets.token_hex(8)}.parquet"
        written = OpenFile(system, root, name, {}, _DELETIONS)
        path = _arrow.repeat(f"{self._path}/{file.path}", len(places))
        written.add(_arrow.RecordBatch.from_arrays([path, places], schema=_DELETIONS))
        return written.close()

    def _gone(self, file: LakeFile) -> Any:  # noqa: ANN401 - as above
        """Return the places of a file's rows that are gone, in order."""
        if file.deletes is None:
            return _arrow.array([], _arrow.int64())
        system, root = file_system(self._path)
        parquet: Any = pq  # its stubs are partial
        found = parquet.read_table(f"{root}/{file.deletes}", filesystem=system)
        return found.column("pos").combine_chunks()

    def _places(
        self, file: LakeFile, columns: Sequence[LakeColumn], index: RowKeys, changed: pa.Table
    ) -> Any:  # noqa: ANN401 - as above
        """Return the places of a file's rows that have the key of a change."""
        found = [
            _compute.add(_compute.indices_nonzero(index.places(rows).is_valid()).cast(_arrow.int64()), begin)
            for begin, rows in self._rows(file, columns, changed)
        ]
        return _arrow.concat_arrays(found) if found else _arrow.array([], _arrow.int64())

    def _live(self, file: LakeFile, columns: Sequence[LakeColumn]) -> Iterator[pa.RecordBatch]:
        """Read the rows of a file that are there."""
        gone = self._gone(file)
        for begin, rows in self._rows(file, columns):
            if not len(gone):
                yield rows
                continue
            places = _arrow.array(range(begin, begin + rows.num_rows))
            yield rows.filter(_compute.invert(_compute.is_in(places, gone)))

    def _rows(
        self, file: LakeFile, columns: Sequence[LakeColumn], around: pa.Table | None = None
    ) -> Iterator[tuple[int, Any]]:
        """Read a file in the columns of now, or keys `around` others; each part comes with its place in the file."""
        names = None if around is None else around.schema.names
        wanted = [it for it in columns if it.parent is None and (names is None or it.name in names)]
        schema = _schema(columns)
        types = [schema.field(column.name) for column in wanted]
        system, root = file_system(self._path)
        with system.open_input_file(f"{root}/{file.path}") as content:
            parquet = opened(content)
            there = parquet.schema_arrow
            held = {int((field.metadata or {}).get(_ID, -1)): field.name for field in there}
            read = [held[column.id] for column in wanted if column.id in held]
            bounds = {held[it.id]: _bounds(around, it.name) for it in wanted if it.id in held}
            for begin, group in _groups(parquet.metadata, bounds):
                place = begin
                for rows in read_groups(parquet, read or there.names[:1], [group]):
                    arrays = [
                        rows.column(held[column.id]).cast(field.type)
                        if column.id in held
                        else _repeated(column, field.type, rows.num_rows)
                        for column, field in zip(wanted, types, strict=True)
                    ]
                    yield place, _arrow.RecordBatch.from_arrays(arrays, schema=pa.schema(types))
                    place += rows.num_rows


def _and_more(gone: Any, places: Any) -> Any:  # noqa: ANN401 - arrays, whose stubs are partial
    both = _compute.unique(_arrow.concat_arrays([gone, places]))
    return both.take(_compute.sort_indices(both))


def _bounds(around: pa.Table | None, name: str) -> tuple[Any, Any] | None:
    """Return the least and the greatest of some keys, if files say such of their rows; else None."""
    if around is None:
        return None
    values: Any = around.column(name)
    if values.null_count or not len(values):
        return None
    if not (pa.types.is_integer(values.type) or pa.types.is_string(values.type)):
        return None
    found = _compute.min_max(values).as_py()
    return found["min"], found["max"]


def _groups(about: Any, bounds: Mapping[str, tuple[Any, Any] | None]) -> Iterator[tuple[int, int]]:  # noqa: ANN401 - as above
    """Give the row groups that may have values within bounds, each after the place of its first row."""
    begin = 0
    for number in range(about.num_row_groups):
        group = about.row_group(number)
        columns = map(group.column, range(group.num_columns))
        if not any(_is_apart(it.statistics, bounds.get(it.path_in_schema)) for it in columns):
            yield begin, number
        begin += group.num_rows


def _is_apart(known: Any, within: tuple[Any, Any] | None) -> bool:  # noqa: ANN401 - as above
    if within is None or known is None or not known.has_min_max:
        return False
    return bool(known.max < within[0] or known.min > within[1])


def _repeated(column: LakeColumn, kind: pa.DataType, rows: int) -> Any:  # noqa: ANN401 - as above
    if column.filled is None:
        return _arrow.nulls(rows, kind)  # of a list, too, which no text becomes
    return _arrow.repeat(_arrow.scalar(column.filled, pa.string()), rows).cast(kind)


def _as_text(values: Any) -> str:  # noqa: ANN401 - as above
    return str(values.cast(pa.string())[0].as_py())


# ------------------------------------------------------------------------------------------------------ its columns


def reshaped(
    table: LakeTable,
    schema: pa.Schema,
    filled: dict[str, str],
    names: dict[str, str | None] | None = None,
) -> list[LakeColumn]:
    """Return columns with the names and types of a schema; those that were there keep their numbers."""
    renamed = {column: (names or {}).get(column.name, column.name) for column in table.columns}
    held = {name: column for column, name in renamed.items() if column.parent is None and name is not None}
    within = {column.parent: column for column in table.columns if column.parent is not None}
    found = list[LakeColumn]()
    for name, kind in zip(schema.names, schema.types, strict=True):
        type_name, element = _described(kind)
        known = held.get(name)
        if known is None or not _becomes(known, within.get(known.id), kind):
            known = LakeColumn(table.next_column(), name, type_name, 0, filled.get(name))
        found.append(known._replace(name=name, type=type_name, place=len(found) + 1))
        if element is not None:
            inner = within.get(known.id) or LakeColumn(
                table.next_column(), "element", element, 0, None, known.id
            )
            found.append(inner._replace(type=element, place=len(found) + 1))
    return found


def _becomes(column: LakeColumn, element: LakeColumn | None, wanted: Any) -> bool:  # noqa: ANN401 - types, each with attributes of its own
    held = _type(column, element)
    return held.equals(wanted) or widens(held, wanted)


def _described(kind: Any) -> tuple[str, str | None]:  # noqa: ANN401 - as above
    """Return a type as DuckLake names it, and that of the elements of a list."""
    if pa.types.is_list(kind):
        return "list", _described(kind.value_type)[0]
    if pa.types.is_decimal(kind):
        return f"decimal({kind.precision},{kind.scale})", None
    return _NAMES[kind], None


def _schema(columns: Sequence[LakeColumn]) -> pa.Schema:
    """Return the columns of a file, each with its number."""
    within = {column.parent: column for column in columns if column.parent is not None}
    return pa.schema(
        [
            pa.field(
                column.name, _type(column, within.get(column.id)), metadata={_ID: str(column.id).encode()}
            )
            for column in columns
            if column.parent is None
        ]
    )


def _type(column: LakeColumn, element: LakeColumn | None) -> Any:  # noqa: ANN401 - as above
    if column.type == "list" and element is not None:
        inner = pa.field("element", _type(element, None), metadata={_ID: str(element.id).encode()})
        return pa.list_(inner)
    if found := _DECIMAL.fullmatch(column.type):
        return pa.decimal128(int(found[1]), int(found[2]))
    return _TYPES[column.type]
