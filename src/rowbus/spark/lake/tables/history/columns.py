"""The columns of a table of versions: those of the table, as wide as all versions need, and where a version comes from.

A column that the table has no more stays for the versions that have it. A column whose type changed gets the new type
if that holds every value, else it becomes text.

Invariant: no value of a version is rounded, cut or made NULL when its column changes.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# PyArrow has no annotations of its own.

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from rowbus.errors import ConfigurationError
from rowbus.spark.captured import Unfit, column_texts, converted
from rowbus.spark.lake.tables.history.timeline import Mark, Version
from rowbus.spark.lake.tables.net_changes import TIMES

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

    from rowbus.spark.captured import SourceTable
    from rowbus.spark.lake.tables.net_changes import Row

VALID_FROM: Final = "valid_from"
VALID_TO: Final = "valid_to"
EVENT: Final = "event_id"
END: Final = (VALID_TO, "end_operation", "end_transaction_id", "ended_by")
_ORIGIN: dict[str, pa.DataType] = {
    VALID_FROM: TIMES,
    VALID_TO: TIMES,
    "operation": pa.string(),
    "transaction_id": pa.int64(),
    EVENT: pa.int64(),
    "changed_by": pa.string(),
    "end_operation": pa.string(),
    "end_transaction_id": pa.int64(),
    "ended_by": pa.string(),
}
ORIGIN: Final = pa.schema(_ORIGIN)
"""The columns of a version beside the table's."""

DOES: Final = "rowbus does"
"""The column of a merge's rows that says what happens to a version; not in the table."""

BEGINS: Final = "begins"
ENDS: Final = "ends"
GOES: Final = "goes"

_arrow: Any = pa  # its stubs know no arrays of any type
_compute: Any = pc  # … and lack many functions


def refuse_taken_names(source: SourceTable) -> None:
    """Raise ConfigurationError when a column has the name of one that versions have."""
    taken = [name for name in source.columns if name in ORIGIN.names]
    if taken:
        raise ConfigurationError(
            f"{source.name} has a column {taken[0]}, as the table of its versions does; rename the column, or leave "
            "the table out with --tables.",
            table=source.name,
        )


def kinds(schema: pa.Schema) -> dict[str, pa.DataType]:
    """Return the types of columns, by their names."""
    return dict(zip(schema.names, schema.types, strict=True))


def of_table(schema: pa.Schema) -> pa.Schema:
    """Return the columns that a table of versions has from its table."""
    return pa.schema([(name, kind) for name, kind in kinds(schema).items() if name not in ORIGIN.names])


def constant(value: object, kind: pa.DataType, rows: int) -> pa.Array[Any]:
    """Return a column with the same value in each row."""
    column: pa.Array[Any] = _arrow.repeat(_arrow.scalar(value, kind), rows)
    return column


def fitted(given: Any, schema: pa.Schema, source: SourceTable) -> list[pa.Array[Any]]:  # noqa: ANN401 - a batch or a table
    """Return rows in the columns of a schema, with NULL where they lack one; raises Unfit."""
    types = dict(zip(source.columns, source.types, strict=True))
    return [
        _fitted(name, types.get(name, ""), given.column(name), kind)
        if name in given.schema.names
        else constant(None, kind, given.num_rows)
        for name, kind in kinds(schema).items()
    ]


def _fitted(name: str, type_name: str, values: Any, kind: pa.DataType) -> Any:  # noqa: ANN401 - an array or several
    if values.type.equals(kind):
        return values
    given = values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values
    if pa.types.is_string(kind):
        return pa.array([None if it is None else _text(it) for it in given.to_pylist()], pa.string())
    if pa.types.is_string(given.type):
        return converted(name, type_name, given, kind)
    return _recast(name, given, kind)


def _recast(name: str, values: Any, kind: pa.DataType) -> Any:  # noqa: ANN401 - as above
    """Cast values; raises Unfit unless casting them back gives the same."""
    try:
        cast = _compute.cast(values, kind)
        same = _compute.equal(_compute.cast(cast, values.type), values)
    except (pa.ArrowException, ValueError) as error:
        raise Unfit(name) from error
    if _compute.all(same).as_py() is False:
        raise Unfit(name)
    return cast


def _text(value: Any) -> str:  # noqa: ANN401 - a value of any type
    """Return a value as PostgreSQL writes it, with times in UTC."""
    if isinstance(value, bytes):
        return "\\x" + value.hex()
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list):
        return "{" + ",".join(map(_element, value)) + "}"
    return str(value).replace("+00:00", "+00")


def _element(value: Any) -> str:  # noqa: ANN401 - as above
    if value is None:
        return "NULL"
    if not isinstance(value, str):
        return str(value)[0].lower() if isinstance(value, bool) else str(value)
    return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'


def rows_of(rows: Sequence[Row], schema: pa.Schema, source: SourceTable) -> pa.Table:
    """Return the rows of triggers in the columns of a schema; raises Unfit."""
    types = dict(zip(source.columns, source.types, strict=True))
    arrays = [
        converted(name, types.get(name, ""), column_texts(rows, name), kind)
        for name, kind in kinds(schema).items()
    ]
    return pa.Table.from_arrays(arrays, schema=schema)


def keys_of(rows: Any, key: Sequence[str]) -> list[Hashable]:  # noqa: ANN401 - a table of rows
    """Return the key of each row, in a form that can be compared."""
    columns: list[list[Any]] = [rows.column(name).to_pylist() for name in key]
    return [tuple(map(repr, values)) for values in zip(*columns, strict=True)]


def held_versions(rows: Any) -> list[Version]:  # noqa: ANN401 - as above
    """Return the versions that a table's rows are."""
    columns: list[list[Any]] = [rows.column(name).to_pylist() for name in ORIGIN.names]
    found: list[Version] = []
    for place, (begin, end, *told) in enumerate(zip(*columns, strict=True)):
        operation, transaction, event, user, end_operation, end_transaction, ended_by = told
        ended = None if end is None else Mark(end, end_operation, end_transaction, ended_by)
        found.append(Version(place, Mark(begin, operation, transaction, user), event, ended, held=True))
    return found


def versions_table(columns: Any, versions: Sequence[Version]) -> pa.Table:  # noqa: ANN401 - a table of rows
    """Return versions as rows of a merge."""
    rows = columns.take(pa.array([version.row for version in versions], pa.int64()))
    begins = [version.begin for version in versions]
    ends = [version.end for version in versions]
    found: list[list[Any]] = [
        [begin.time for begin in begins],
        [end and end.time for end in ends],
        [begin.operation for begin in begins],
        [begin.transaction for begin in begins],
        [version.event for version in versions],
        [begin.user for begin in begins],
        [end and end.operation for end in ends],
        [end and end.transaction for end in ends],
        [end and end.user for end in ends],
    ]
    for name, kind, values in zip(ORIGIN.names, ORIGIN.types, found, strict=True):
        rows = rows.append_column(name, pa.array(values, kind))
    table: pa.Table = rows.append_column(DOES, pa.array(map(_does, versions), pa.string()))
    return table


def _does(version: Version) -> str:
    if version.gone:
        return GOES
    return ENDS if version.held else BEGINS
