"""A captured table, as the catalogue describes it now: its columns, its key, its capture; and what its events change.

The types of a lake's columns follow those of the database, and so do the values that triggers wrote as text. A type
that Delta has keeps its meaning: whole numbers, floats (NaN and the infinities among them), booleans, decimals up to 38
digits, dates, times, bytes, lists of one dimension. Every other is PostgreSQL's text: nothing is lost in it.

Invariants: the columns are those that events show: without those that its trigger ignores, and in the table's order. A
value that its column's type cannot hold (`infinity` in a date, NaN in a decimal) is never rounded, cut or made NULL:
`Unfit` is raised, and the column becomes text.
"""

from __future__ import annotations

import re
from collections.abc import Generator, Iterable
from contextlib import closing, contextmanager
from datetime import UTC, datetime

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# PyArrow has no annotations of its own.
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

import pyarrow as pa
import pyarrow.compute as pc

from rowbus.database.postgresql.arrow import arrow_session
from rowbus.database.statements import Query, Statement, control, each, load
from rowbus.log.event import ALTER, TRUNCATE, UPDATE, changes_in, kind_of

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from rowbus.database.postgresql.arrow import Access, ArrowSession
    from rowbus.database.statements import Rows
    from rowbus.log.event import EventKind


_compute: Any = pc  # its stubs lack many functions

MOST_DIGITS: Final = 38
_HEADER: Final = 4  # what a type's modifier has more than the type says

_PLAIN: Final[dict[str, pa.DataType]] = {
    "bool": pa.bool_(),
    "int2": pa.int16(),
    "int4": pa.int32(),
    "int8": pa.int64(),
    "float4": pa.float32(),
    "float8": pa.float64(),
    "bytea": pa.binary(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us"),
    "timestamptz": pa.timestamp("us", "UTC"),
}
_IN_LISTS: Final = frozenset({"bool", "int2", "int4", "int8", "float4", "float8"})
_TIMES: Final = frozenset({"timestamp", "timestamptz"})
_WITH_TIMES: Final = _TIMES | {
    *("tstzrange", "tstzmultirange", "tsrange"),
    *("_timestamptz", "_timestamp", "_tstzrange", "_tstzmultirange"),
}
_MOMENT: Final = re.compile(r"(?<!\d)\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(?:\.\d+)?(?:[+-]\d\d(?::\d\d){0,2})?")
_FAR: Final = re.compile(r"(\d{4,}-\d\d-\d\d)T(\d\d:\d\d:\d\d(?:\.\d+)?)(\+00)?(?::00)?")
_ELEMENT: Final = re.compile(r'(?:"((?:[^"\\]|\\.)*)"|([^,{}"]*))([,}])', re.DOTALL)

_FOLDER = "spark/sql/postgresql"


class Unfit(ValueError):  # noqa: N818 - what is said of a value, and caught by those who make the column text
    """A column has a value that its type in the lake cannot hold."""

    def __init__(self, column: str) -> None:
        """Name the column."""
        super().__init__(column)
        self.column = column


def lake_type(name: str, modifier: int) -> pa.DataType:
    """Return the type of a lake's column, by the name and modifier of the database's type."""
    if name.startswith("_"):
        return pa.list_(_element(name[1:], modifier))
    if name == "numeric":
        return _decimal(modifier) or pa.string()
    return _PLAIN.get(name, pa.string())


def _element(name: str, modifier: int) -> pa.DataType:
    if name == "numeric":
        return _decimal(modifier) or pa.string()
    return _PLAIN[name] if name in _IN_LISTS else pa.string()


def _decimal(modifier: int) -> pa.DataType | None:
    """Return the decimal of a numeric(p, s); None where it has no limit, or one that lakes do not have."""
    if modifier < _HEADER:
        return None
    digits, scale = (modifier - _HEADER) >> 16, (modifier - _HEADER) & 0x7FF
    return pa.decimal128(digits, scale) if digits <= MOST_DIGITS and scale <= digits else None


def converted(column: str, type_name: str, values: pa.Array[Any], kind: pa.DataType) -> pa.Array[Any]:
    """Return values, most of them as text, in the type of a lake's column; raises Unfit."""
    given: Any = values
    if given.type.equals(kind) and type_name not in _WITH_TIMES:
        return values
    try:
        if pa.types.is_string(kind):
            return _texts(given, type_name)
        if pa.types.is_list(kind):
            return pa.array([_list(text, kind) for text in _in_one_form(given, type_name).to_pylist()], kind)
        return _converted(given, kind)
    except (pa.ArrowException, ValueError, OverflowError) as error:
        raise Unfit(column) from error


def _converted(given: Any, kind: pa.DataType) -> pa.Array[Any]:  # noqa: ANN401 - an array, whose stubs are partial
    if pa.types.is_binary(kind):
        return pa.array([None if text is None else _bytes(text) for text in given.to_pylist()], kind)
    if pa.types.is_boolean(kind) and pa.types.is_string(given.type):
        known = _compute.is_in(given, pa.array(["t", "f", "true", "false", None]))
        if _compute.all(known).as_py() is False:
            raise ValueError
        return pa.array([None if text is None else text[0] == "t" for text in given.to_pylist()], kind)
    converted_array: pa.Array[Any] = _compute.cast(given, kind)
    return converted_array


def _texts(given: Any, type_name: str) -> pa.Array[Any]:  # noqa: ANN401 - as above
    """Return values as text; a time in one form, however the session that wrote it shows times."""
    if type_name == "bytea" and pa.types.is_binary(given.type):
        return pa.array([None if it is None else "\\x" + it.hex() for it in given.to_pylist()], pa.string())
    return _in_one_form(given.cast(pa.string()), type_name)


def _in_one_form(texts: Any, type_name: str) -> pa.Array[Any]:  # noqa: ANN401 - as above
    """Return texts with their times in one form."""
    if type_name in _WITH_TIMES:
        return pa.array([None if it is None else _in_utc(str(it)) for it in texts.to_pylist()], pa.string())
    given: pa.Array[Any] = texts
    return given


def column_texts(rows: Sequence[Mapping[str, object]], name: str) -> pa.Array[Any]:
    """Return a column of rows that triggers wrote in JSON as the texts of its values, NULL where a row lacks it."""
    return pa.array([_text(row.get(name)) for row in rows], pa.string())


def _text(value: object) -> str | None:
    return value if value is None or isinstance(value, str) else str(value).lower()


def _in_utc(text: str) -> str:
    """Return a text with its times in UTC, which would be those of the session that wrote it."""
    shown = _FAR.sub(r"\1 \2\3", text)  # before the year 1 and after 9999 it is written in UTC
    return shown if "BC" in shown else _MOMENT.sub(_moment, shown)


def _moment(match: re.Match[str]) -> str:
    found = datetime.fromisoformat(match[0])
    shown = found.astimezone(UTC).replace(tzinfo=None) if found.tzinfo else found
    text = shown.isoformat(" ")
    return (text.rstrip("0") if shown.microsecond else text) + ("+00" if found.tzinfo else "")


def _bytes(text: str) -> bytes:
    if not text.startswith("\\x"):
        raise ValueError
    return bytes.fromhex(text[2:])


def _list(text: str | None, kind: Any) -> list[Any] | None:  # noqa: ANN401 - a list's type
    """Return the elements of an array of one dimension that begins at 1; raises ValueError for others."""
    return None if text is None else _elements(_split(text), kind.value_type)


def _elements(texts: Sequence[str | None], kind: pa.DataType) -> list[Any]:
    found: Any = _converted(pa.array(texts, pa.string()), kind) if texts else pa.array([], kind)
    elements: list[Any] = found.to_pylist()
    return elements


def _split(text: str) -> list[str | None]:
    if not text.startswith("{") or text.startswith("{{"):
        raise ValueError
    if text == "{}":
        return []
    found: list[str | None] = []
    at, end = 1, ","
    while end == ",":
        match = _ELEMENT.match(text, at)
        if match is None:
            raise ValueError
        quoted, plain, end = match.groups()
        found.append(_unquoted(quoted, plain))
        at = match.end()
    return found


def _unquoted(quoted: str | None, plain: str) -> str | None:
    if quoted is not None:
        return re.sub(r"\\(.)", r"\1", quoted, flags=re.DOTALL)
    return None if plain == "NULL" else plain


DEFERRABLE: Final = (
    "has a deferrable primary key: an update may give two rows one key for a moment, and events do not tell which of "
    "them stays; make it not deferrable"
)
"""Words for a table that cannot be followed."""


class SourceTable(NamedTuple):
    """A captured table; fields in the order of `describe_source_tables.sql`."""

    name: str
    """Schema and table joined by a dot, as events name it."""

    format: str
    arguments: list[str]
    key: list[str]
    columns: list[str]
    types: list[str]
    """The names of their types, below domains."""

    modifiers: list[int]
    bare: list[bool]
    """Whether triggers write a column in JSON as a number or a boolean, and not as the text of its value."""

    virtual: list[str]
    """Columns that are computed when they are read: triggers do not see their values, and the lake has none of them."""

    shape: str
    """Differs after every ALTER TABLE, with another key, and with other partitions."""

    reading: str
    """The query that reads its rows."""

    form: str
    """A `TableForm` as JSON: by it a lake's table follows a change of shape without a copy."""

    version: str
    """Another text after each change of the table's shape; `versioning` is the query for it."""

    versioning: str
    is_keyed: bool
    """Whether its key is one: without it tells rows by all their values, of which there may be equal ones."""

    is_deferrable: bool
    """Whether two rows may have one key for a moment; see `DEFERRABLE`."""

    is_told_apart: bool = True
    """Whether no two rows have one key, as far as it is chosen by `pkey=…`: a unique index says so."""

    def obstacle(self, arguments: tuple[str, ...]) -> str | None:
        """Say what of its capture keeps events from showing its rows, given the arguments that do; None for nothing."""
        if self.format == "sql":
            return "in the format sql"
        if missing := ", ".join(sorted(set(self.key) - set(self.columns))):
            return f"by a key whose column {missing} it does not have, or does not write"
        found = (text for text in self.arguments if text.startswith(arguments))
        return next((f"with the argument {text}" for text in found), None)

    def schema(self, as_text: Collection[str]) -> pa.Schema:
        """Return the columns of the lake's table; those of `as_text` are text."""
        return pa.schema(
            [
                (name, pa.string() if name in as_text else lake_type(type_name, modifier))
                for name, type_name, modifier in zip(self.columns, self.types, self.modifiers, strict=True)
            ]
        )

    def convert(self, batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
        """Give rows the types of the lake; raises Unfit."""
        given: Any = batch
        columns = zip(self.columns, self.types, given.columns, schema.types, strict=True)
        arrays: Any = [converted(name, type_name, values, kind) for name, type_name, values, kind in columns]
        return pa.RecordBatch.from_arrays(arrays, schema=schema)


def describe_source_tables(log: str) -> Statement[list[SourceTable]]:
    """Return the tables captured into a log."""
    query = _load("describe_source_tables", f'Could not look for the tables captured into log "{log}"')
    return Statement(query, {"log": log}, each(SourceTable._make))


class Whereabouts(NamedTuple):
    """Whether there is a table of a name, and the logs that it is captured into."""

    is_there: bool
    logs: list[str]


def locate_table(name: str) -> Statement[Whereabouts]:
    """Say whether there is a table, and into which logs it is captured."""
    return Statement(_load("locate_table", f"Could not look for {name}"), {"table": name}, _whereabouts)


def _load(operation: str, failing: str) -> Query:
    return load(f"{_FOLDER}/{operation}.sql", failing=failing, prepare=False)


BEGIN_COPY: Final = _load("begin_copy", "Could not begin to copy")
"""Fixes what the copy of a table sees, and how values look, in a transaction of its own; see `CopyStart.read`."""


class CopyStart(NamedTuple):
    """The snapshot that a copy is of, and two times in microseconds since 1970: after it was taken, and before."""

    snapshot: str
    moment: int
    began: int

    @classmethod
    def read(cls, text: str) -> CopyStart:
        """Read the answer of `BEGIN_COPY`."""
        snapshot, moment, began = text.split(" ")
        return cls(snapshot, int(moment), int(began))


class TableRows(NamedTuple):
    """The rows of a table, and the snapshot that they are of."""

    snapshot: str
    moment: int
    """When the snapshot had been taken, in microseconds since 1970."""

    began: int
    """When it was yet to be taken, likewise."""

    is_as_described: bool
    """Whether the snapshot shows the table in the form of its description."""

    batches: Iterable[pa.RecordBatch]
    session: ArrowSession
    """The session that reads them; before, it can read other rows of the snapshot."""


@contextmanager
def reading_rows(access: Access, table: SourceTable, taking: Query | None = None) -> Generator[TableRows]:
    """Read the rows of a table in one snapshot, or in the one that `taking` takes, for as long as the block lasts."""
    isolate = control(
        b"set transaction isolation level repeatable read, read only", "Could not begin to copy"
    ).query
    with arrow_session(access, isolate) as session:
        if taking is not None:
            session.value(taking)
        start = CopyStart.read(session.value(BEGIN_COPY))
        version, query = (
            control(text.encode(), f"Could not copy {table.name}").query
            for text in (table.versioning, table.reading)
        )
        described = session.value(version) == table.version
        with closing(cast("Generator[pa.RecordBatch]", session.batches(query))) as batches:
            yield TableRows(*start, described, batches, session)


def _whereabouts(rows: Rows, _count: int) -> Whereabouts:
    return Whereabouts._make(rows[0])


# --------------------------------------------------------------------------------------- the changes of captured rows

COLUMNS: Final = ("ev_id", "ev_txid", "ev_type", "ev_data", "ev_extra1", "ev_extra2")
"""The columns of the log source that it reads."""

_TYPES: Final = (pa.string(), pa.int64(), pa.int32(), pa.int64(), pa.string(), pa.string())
STAGED: Final = pa.schema([pa.field(f"c{number}", type_) for number, type_ in enumerate(_TYPES, 1)])


def changes_of(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return the row changes of events, in order; by column unless an event has to be decoded by itself."""
    types: Any = batch.column("ev_type").dictionary_encode()
    kinds = [kind_of(type_) for type_ in types.dictionary.to_pylist()]
    if any(kind is not None and _needs_decoding(kind, batch) for kind in kinds):
        return _one_by_one(batch)
    operations = _compute.take(
        pa.array([kind and kind.operation for kind in kinds], pa.string()), types.indices
    )
    has_table = _compute.not_equal(
        batch.column("ev_extra1"), ""
    )  # null for null, as where it is NULL there is none
    told = _compute.and_(_compute.is_valid(operations), has_table)
    batch, operations = batch.filter(told), operations.filter(told)
    rows = _compute.if_else(_compute.equal(operations, TRUNCATE), "{}", batch.column("ev_data"))
    parts = pa.repeat(pa.scalar(0, pa.int32()), batch.num_rows)
    columns = [
        batch.column("ev_extra1"),
        batch.column("ev_id"),
        parts,
        batch.column("ev_txid"),
        operations,
        rows,
    ]
    return pa.RecordBatch.from_arrays(columns, schema=STAGED)


def _needs_decoding(kind: EventKind, batch: pa.RecordBatch) -> bool:
    """Return whether rows must be rewritten, or an update may have changed the key, or a table its name."""
    if kind.operation == TRUNCATE:
        return False
    return (
        kind.operation == ALTER
        or not kind.is_json
        or (kind.operation == UPDATE and batch.column("ev_extra2").null_count < batch.num_rows)
    )


def _one_by_one(batch: pa.RecordBatch) -> pa.RecordBatch:
    names = ("ev_type", "ev_data", "ev_extra1", "ev_extra2")
    told = zip(*(batch.column(name).to_pylist() for name in names), strict=True)
    ids = zip(batch.column("ev_id").to_pylist(), batch.column("ev_txid").to_pylist(), strict=True)
    rows = [
        (change.table, event, part, txid, change.operation, change.row)
        for (event, txid), facts in zip(ids, told, strict=True)
        for part, change in enumerate(changes_in(*facts))
    ]
    columns = list(zip(*rows, strict=True)) or [()] * len(STAGED)
    return pa.RecordBatch.from_arrays(
        [pa.array(column, field.type) for column, field in zip(columns, STAGED, strict=True)], schema=STAGED
    )
