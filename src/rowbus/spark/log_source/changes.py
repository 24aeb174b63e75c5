"""The changes of a captured table, for the option `changes`: its lookup, its columns, and the decoding of its events.

Every reason why its changes cannot be read is one sentence. The frame's columns are fixed when it is loaded. What
decoding needs of the catalogue travels in the metadata of the first column, which Spark hands on whenever it reads: no
task, and no later query, asks the catalogue again.

Decoding turns record batches of events into changes: operation, old row and new row in the types of the table. Arrow
parses the rows of a batch at once: those that triggers write in JSON, where numbers and booleans are bare and all other
values are text. What it refuses is halved until few rows are left, and these are read one by one, as are URL-encoded
rows. Either way the text of a value becomes the value by `captured.py`.

Invariants: only the catalogue is read, once, when a frame is loaded, and nothing is locked; a change's rows come from
its own event only; a value that the type of its column cannot hold is never rounded or cut: it is null, and the event
counts as one that does not fit; a column that the row does not have is null, and one that the table does not have is
ignored.
"""

from __future__ import annotations

import json

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# PyArrow has no annotations of its own.
from collections.abc import Iterator
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

import pyarrow as pa
import pyarrow.compute as pc

from rowbus.database.location import resolve_dsn
from rowbus.database.postgresql.database import Database
from rowbus.errors import ConfigurationError
from rowbus.log.consumers.table import log_not_found
from rowbus.log.event import DELETE, INSERT, TRUNCATE, UPDATE, decode_row, kind_of
from rowbus.spark.captured import Unfit, converted, describe_source_tables, locate_table
from rowbus.spark.json_rows.decoder import ONE_BY_ONE, judged, parsed
from rowbus.spark.json_rows.layout import PERMISSIVE
from rowbus.spark.log_source.snapshot_range import list_logs, may_read

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from pyspark.sql.types import StructType

    from rowbus.database.postgresql.connection import Session
    from rowbus.spark.captured import SourceTable, Whereabouts
    from rowbus.spark.log_source.offset import TickPosition
    from rowbus.spark.log_source.options import LogSettings

    Column = Any  # the stubs know arrays by their type only
    Texts = dict[str, str | None]


FROM_EVENT: Final = {
    "transaction_time": "ev_time",
    "transaction": "ev_txid",
    "ev_id": "ev_id",
    "tick_id": "tick_id",
}
"""Columns that are an event's, and which; between them and the first three."""

NEEDED: Final = ("ev_id", "ev_time", "ev_txid", "ev_type", "ev_data", "ev_extra2", "tick_id")
"""The log's columns to read from the database."""

OPERATION: Final = "op"
BEFORE: Final = "before"
AFTER: Final = "after"

_TABLE: Final = "rowbus.changes"

_OVERRIDING: Final = ("ev_type=", "ev_data=", "ev_extra1=", "ev_extra2=")
_MAGIC: Final = "_pgq_ev_"  # columns of these names are an event's fields

_compute: Any = pc  # its functions are made at run time

OPERATIONS: Final = {INSERT: "insert", UPDATE: "update", DELETE: "delete", TRUNCATE: "truncate"}
"""The meaning of the column `op`, by the letter."""


SHOWN: Final = "r"
"""The operation of a row that a stream begins with."""


class ChangeLayout(NamedTuple):
    """The columns to give to Spark; travels to the tasks."""

    struct: StructType
    table: str
    types: tuple[str, ...]
    """The names of the database's types, in the order of the columns of `before` and `after`."""

    bare: tuple[bool, ...]
    """The columns that triggers write as numbers and booleans of JSON."""

    mode: str

    @property
    def needed(self) -> tuple[str, ...]:
        """The log's columns to read from the database."""
        return NEEDED

    @property
    def corrupt(self) -> str | None:
        """The column for rows that cannot be decoded, if there is one."""
        name: str = self.struct.names[-1]
        return None if name in FROM_EVENT else name


def change_columns(table: SourceTable, mode: str, corrupt: str) -> StructType:
    """Return the columns of a table's changes, all nullable, with one for what cannot be decoded by mode=PERMISSIVE."""
    from pyspark.sql import types as spark  # noqa: PLC0415 - only where Spark is

    row = _row(table)
    known = {"table": table.name, "types": table.types, "bare": table.bare}
    fields = [
        spark.StructField(OPERATION, spark.StringType(), metadata={_TABLE: json.dumps(known)}),
        spark.StructField(BEFORE, row),
        spark.StructField(AFTER, row),
        spark.StructField("transaction_time", spark.TimestampType()),
        *(spark.StructField(name, spark.LongType()) for name in list(FROM_EVENT)[1:]),
    ]
    if mode == PERMISSIVE:
        _check_free(corrupt, [field.name for field in fields])
        fields.append(spark.StructField(corrupt, spark.StringType()))
    return spark.StructType(fields)


def change_layout(struct: StructType, table: str, mode: str) -> ChangeLayout:
    """Return what a task needs, by the columns that the source has given; raises ConfigurationError for others."""
    known: dict[str, Any] = json.loads((struct[0].metadata or {}).get(_TABLE, "{}")) if len(struct) else {}
    if known.get("table") != table:
        raise ConfigurationError(
            f"Option 'changes' takes the columns of {table} from the catalogue: leave the schema out.",
            option="changes",
        )
    return ChangeLayout(struct, table, tuple(known["types"]), tuple(known["bare"]), mode)


def _row(table: SourceTable) -> StructType:
    from pyspark.sql import types as spark  # noqa: PLC0415 - only where Spark is
    from pyspark.sql.pandas.types import from_arrow_type  # noqa: PLC0415 - as above

    columns: Any = table.schema(())
    return spark.StructType(
        [
            spark.StructField(column.name, from_arrow_type(column.type, prefer_timestamp_ntz=True))
            for column in columns
        ]
    )


def _check_free(corrupt: str, names: Collection[str]) -> None:
    if corrupt in names:
        raise ConfigurationError(
            f"Option 'columnNameOfCorruptRecord' says {corrupt!r}, which is a column of the changes.",
            option="columnNameOfCorruptRecord",
        )


def find_captured(table: str, settings: LogSettings) -> SourceTable:
    """Return a table captured into the log. Raises ConfigurationError, LogNotFoundError, StorageError."""
    [log] = settings.logs
    with Database(resolve_dsn(settings.dsn), application_name="rowbus spark schema").session() as session:
        _check_log(session, log, reads_here=settings.options["readDsn"] is None)
        captured = session.run(describe_source_tables(log))
        found = [each for each in captured if each.name == table]
        if not found:
            raise _not_captured(session, table, log, captured)
    _check(found, table, log)
    if settings.options["snapshot"] == "initial" and not found[0].is_keyed:
        text = f"Option 'snapshot' needs a key: {table} has none, so nothing says which of its equal rows changed."
        raise ConfigurationError(text, option="snapshot")
    return found[0]


def _check_log(session: Session, log: str, *, reads_here: bool) -> None:
    states = session.run(list_logs([log]))
    if not states:
        raise log_not_found(log)
    allowed, role = session.run(may_read(states[0].current_table))
    if reads_here and not allowed:
        raise ConfigurationError(
            f'Role "{role}" may not read log "{log}"; `rowbus schema grants --log --receive` prints what it needs.'
        )


def _not_captured(
    session: Session, table: str, log: str, captured: Sequence[SourceTable]
) -> ConfigurationError:
    found = session.run(locate_table(table))
    there = ", ".join(sorted({each.name for each in captured})) or "no table"
    return ConfigurationError(
        f"Option 'changes': {_reason(found, table, log)}; captured into it is {there}.", option="changes"
    )


def _reason(found: Whereabouts, table: str, log: str) -> str:
    how = f"`rowbus log capture {table} --log {log} --arg backup`"
    if log in found.logs:
        return (
            f'{table} is captured into log "{log}" as a partitioned table, whose changes name its partitions'
        )
    if found.logs:
        others = " and ".join(f'"{other}"' for other in found.logs)
        return f'{table} is captured into {others}, not into log "{log}": read that, or capture it by {how}'
    if found.is_there:
        return f'{table} is not captured into log "{log}"; capture it by {how}'
    return f'there is no table {table} to capture into log "{log}"'


def _check(found: Sequence[SourceTable], table: str, log: str) -> None:
    if len(found) > 1:
        raise ConfigurationError(
            f"Option 'changes': {table} is captured into log \"{log}\" by {len(found)} triggers, so each change is "
            "there more than once; drop all but one of them.",
            option="changes",
        )
    how = _unreadable(found[0])
    if how is not None:
        raise ConfigurationError(
            f"Option 'changes': {table} is captured {how}, so its events do not show its rows; capture it with "
            "--format json and another --trigger into another log.",
            option="changes",
        )


def _unreadable(table: SourceTable) -> str | None:
    """Say what keeps events from showing the table's rows; None if nothing does."""
    magic = (f"with the column {each}" for each in table.columns if each.startswith(_MAGIC))
    return table.obstacle(_OVERRIDING) or next(magic, None)


class DecodedRows(NamedTuple):
    """Rows as an array of structures, null where there is none, and which of them do not fit."""

    rows: Column
    wrong: Column


class RowDecoder:
    """Decodes rows of one table."""

    def __init__(self, kind: Any, types: Sequence[str], bare: Sequence[bool]) -> None:  # noqa: ANN401 - a struct
        """Take the row's Arrow type, the names of the database's types, and which of them are bare in JSON."""
        self._fields: list[Any] = list(kind)
        self._types = types
        self._wire = pa.struct(
            [
                (field.name, field.type if is_bare else pa.string())
                for field, is_bare in zip(self._fields, bare, strict=True)
            ]
        )

    def decode(self, bodies: Column, is_json: Column) -> DecodedRows:
        """Decode rows, of which there are none where a body is null."""
        if bodies.null_count == len(bodies):
            return DecodedRows(pa.nulls(len(bodies), pa.struct(self._fields)), _none_of(bodies))
        if _compute.all(is_json).as_py():
            return self._halved(bodies, is_json)
        return self._one_by_one(bodies, is_json)

    def only(self, names: Sequence[str]) -> RowDecoder:
        """Return the decoder of some columns."""
        known = zip(self._fields, self._types, self._wire, strict=True)
        kept = [(field, type_, wire) for field, type_, wire in known if field.name in names]
        fields, types, wires = zip(*kept, strict=True)
        bare = [not pa.types.is_string(wire.type) for wire in wires]
        return RowDecoder(fields, types, bare)

    def typed(self, named: dict[str, Column], count: int) -> DecodedRows:
        """Give rows their types, by the columns that they have."""
        columns = [named.get(field.name, pa.nulls(count, field.type)) for field in self._fields]
        none = pa.repeat(pa.scalar(value=False), count)
        return self._typed(columns, none, none)

    def _halved(self, bodies: Column, is_json: Column) -> DecodedRows:
        values = parsed(bodies, self._wire)
        if values is not None:
            return self._typed(values.flatten(), _compute.is_null(values), _none_of(bodies))
        if len(bodies) <= ONE_BY_ONE:
            return self._one_by_one(bodies, is_json)
        middle = len(bodies) // 2
        return _joined(
            [
                self._halved(bodies.slice(0, middle), is_json.slice(0, middle)),
                self._halved(bodies.slice(middle), is_json.slice(middle)),
            ]
        )

    def _one_by_one(self, bodies: Column, is_json: Column) -> DecodedRows:
        rows = [
            _read(body, is_json=said)
            for body, said in zip(bodies.to_pylist(), is_json.to_pylist(), strict=True)
        ]
        columns = [
            pa.array([row and row.get(field.name) for row in rows], pa.string()) for field in self._fields
        ]
        missing = pa.array([row is None for row in rows], pa.bool_())
        return self._typed(columns, missing, _compute.and_(missing, _compute.is_valid(bodies)))

    def _typed(self, columns: Sequence[Column], missing: Column, wrong: Column) -> DecodedRows:
        arrays: list[Column] = []
        for column, field, type_name in zip(columns, self._fields, self._types, strict=True):
            values, unfit = _fitting(column, field, type_name)
            arrays.append(values)
            wrong = wrong if unfit is None else _compute.or_(wrong, unfit)
        return DecodedRows(pa.StructArray.from_arrays(arrays, fields=self._fields, mask=missing), wrong)


def _fitting(column: Column, field: Any, type_name: str) -> tuple[Column, Column | None]:  # noqa: ANN401 - Arrow's
    """Return values in the type of their column, null where they do not fit, and where that is."""
    try:
        return converted(field.name, type_name, column, field.type), None
    except Unfit:
        if len(column) == 1:
            return pa.nulls(1, field.type), pa.array([True])
    middle = len(column) // 2
    halves = [_fitting(half, field, type_name) for half in (column.slice(0, middle), column.slice(middle))]
    wrong = [
        pa.repeat(pa.scalar(value=False), len(values)) if unfit is None else unfit for values, unfit in halves
    ]
    return pa.concat_arrays([values for values, _ in halves]), pa.concat_arrays(wrong)


def _read(body: str | None, *, is_json: bool) -> Texts | None:
    """Return a row's values as text; None where there is no row."""
    if body is None:
        return None
    if not is_json:
        return decode_row(body)
    try:
        found: Any = json.loads(body, parse_int=str, parse_float=str, parse_constant=str)
        return dict(_texts(found)) if isinstance(found, dict) else None
    except (ValueError, RecursionError):
        return None


def _texts(row: dict[str, Any]) -> Iterator[tuple[str, str | None]]:
    for name, value in row.items():
        text = value if value is None or isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        if text is not None:
            text.encode()  # half a surrogate pair is no text
        yield name, text


def _none_of(bodies: Column) -> Column:
    return pa.repeat(pa.scalar(value=False), len(bodies))


def _joined(halves: Sequence[DecodedRows]) -> DecodedRows:
    rows, wrong = zip(*halves, strict=True)
    return DecodedRows(cast("Any", pa).concat_arrays(rows), cast("Any", pa).concat_arrays(wrong))


class _Kind(NamedTuple):
    """The meaning of an event's type: the operation, None where no row can be read, and how rows are written."""

    operation: str | None
    is_json: bool


def changes_decoded(batches: Iterator[pa.RecordBatch], layout: ChangeLayout) -> Iterator[pa.RecordBatch]:
    """Give the changes in batches of events of the table; events that no trigger wrote are left out."""
    decoder = decoder_of(layout)
    for batch in batches:
        yield decoder.decode(batch)


def decoder_of(layout: ChangeLayout) -> ChangeDecoder:
    """Return what decodes the batches of one task."""
    from pyspark.sql.pandas.types import to_arrow_schema  # noqa: PLC0415 - Spark's, and slow to import

    return ChangeDecoder(layout, to_arrow_schema(layout.struct, timezone="UTC"))


class ChangeDecoder:
    """Decodes the batches of one task."""

    def __init__(self, layout: ChangeLayout, schema: pa.Schema) -> None:
        """Take the layout and its Arrow types."""
        self._layout = layout
        self._schema = schema
        self._rows = RowDecoder(schema.field(AFTER).type, layout.types, layout.bare)

    def decode(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the changes in a batch. Raises MessageDeserializationError by mode=FAILFAST."""
        events, operations, is_json = _operations(batch)
        data, old = events.column("ev_data"), events.column("ev_extra2")
        updated = _is(operations, UPDATE)
        after = self._rows.decode(_where(_is(operations, INSERT, UPDATE), data), is_json)
        shown = _where(_is(operations, DELETE), data, _where(updated, old))
        before = self._rows.decode(shown, is_json)
        unknown = _compute.is_null(operations)
        wrong = _compute.or_(unknown, _compute.or_(after.wrong, before.wrong))
        columns = {name: events.column(source) for name, source in FROM_EVENT.items()}
        columns |= {OPERATION: operations, BEFORE: before.rows, AFTER: after.rows}
        if self._layout.corrupt is not None:
            only_old = _compute.and_(updated, _compute.invert(after.wrong))
            columns[self._layout.corrupt] = _where(wrong, _compute.if_else(only_old, old, data))
        return judged(self._batch(columns), wrong, self._layout.mode, self._layout.corrupt)

    def shown(self, named: dict[str, Column], count: int, at: TickPosition) -> pa.RecordBatch:
        """Give rows that stood so at a tick, by their columns."""
        rows = self._rows.typed(named, count)
        time = pa.scalar(datetime.fromisoformat(at.ts), pa.timestamp("us", "UTC"))
        columns: dict[str, Column] = {name: pa.nulls(count) for name in self._schema.names}
        columns |= {"transaction_time": pa.repeat(time, count), "tick_id": pa.repeat(at.tick, count)}
        columns |= {OPERATION: pa.repeat(SHOWN, count), AFTER: rows.rows}
        if self._layout.corrupt is not None:
            columns[self._layout.corrupt] = _unfit_rows(named, rows.wrong)
        return judged(self._batch(columns), rows.wrong, self._layout.mode, self._layout.corrupt)

    def has(self, columns: Sequence[str]) -> bool:
        """Return whether the frame has all of these columns."""
        return {*columns} <= {field.name for field in self._schema.field(AFTER).type}

    def keys_in(self, batch: pa.RecordBatch, key: Sequence[str]) -> Iterator[str]:
        """Give the keys of the rows that events tell of."""
        events, operations, is_json = _operations(batch)
        bodies = _where(_is(operations, INSERT, UPDATE, DELETE), events.column("ev_data"))
        return keys_of(self._rows.only(key).decode(bodies, is_json).rows, key)

    def _batch(self, columns: dict[str, Column]) -> pa.RecordBatch:
        arrays = [
            columns[name].cast(kind)
            for name, kind in zip(self._schema.names, self._schema.types, strict=True)
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema)


def keys_of(rows: Column, key: Sequence[str]) -> Iterator[str]:
    """Give the keys of rows, equal where all their values are."""
    return map(repr, zip(*(rows.field(name).to_pylist() for name in key), strict=True))


def _unfit_rows(named: dict[str, Column], wrong: Column) -> Column:
    if not _compute.any(wrong).as_py():
        return pa.nulls(len(wrong), pa.string())
    rows = zip(pa.table(named).to_pylist(), wrong.to_pylist(), strict=True)
    return pa.array(
        [json.dumps(row, default=str) if is_wrong else None for row, is_wrong in rows], pa.string()
    )


def _operations(batch: pa.RecordBatch) -> tuple[Any, Column, Column]:
    """Return the events that a trigger wrote, their operations, and which of them are JSON."""
    types: Any = batch.column("ev_type").dictionary_encode()
    kinds = [_kind(type_) for type_ in types.dictionary.to_pylist()]
    known = pa.array([kind is not None for kind in kinds], pa.bool_()).take(types.indices)
    operations = pa.array([kind and kind.operation for kind in kinds], pa.string()).take(types.indices)
    is_json = pa.array([kind is not None and kind.is_json for kind in kinds], pa.bool_()).take(types.indices)
    chosen = _compute.fill_null(known, fill_value=False)
    return batch.filter(chosen), operations.filter(chosen), is_json.filter(chosen)


def _kind(type_: str | None) -> _Kind | None:
    try:
        found = kind_of(type_)
    except ConfigurationError:  # the format sql: the end of a statement
        return _Kind(None, is_json=False)
    word = None if found is None else OPERATIONS.get(found.operation)
    return None if found is None or word is None else _Kind(word, found.is_json)


def _is(operations: Column, *letters: str) -> Column:
    words = pa.array([OPERATIONS[letter] for letter in letters], pa.string())
    return _compute.is_in(operations, words)


def _where(condition: Column, values: Column, otherwise: Column | None = None) -> Column:
    return _compute.if_else(
        condition, values, pa.scalar(None, pa.string()) if otherwise is None else otherwise
    )
