"""Record batches of a source, with the columns that a user's schema takes from the JSON body.

Arrow parses the bodies of a batch at once. Where it refuses (a body that is no JSON, a number for a text, a decimal to
be rounded), the batch is halved until few rows are left, and these are read one by one, by the rules of Spark's JSON
source: text columns take any value as its JSON, decimals are rounded half up, and a column whose value does not fit is
null.

Invariant: a row's columns come from its own body only. Each body is put into an object of its own; as no two objects
can be read as one, there are as many objects as rows exactly if each body is one value.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, date, datetime
from decimal import ROUND_HALF_UP, Context, Decimal
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import json as arrow_json
from pyspark.sql import types as spark

from rowbus.errors import MessageDeserializationError
from rowbus.spark.json_rows.layout import DROP, FAIL, Layout

if TYPE_CHECKING:
    from pyspark.sql.types import StructField

    Column = Any  # the stubs know arrays by their type only


_RANGES: Final[dict[type[spark.DataType], int]] = {
    spark.ByteType: 7,
    spark.ShortType: 15,
    spark.IntegerType: 31,
    spark.LongType: 63,
}
_NOT_NUMBERS: Final = {"NaN", "Infinity", "+Infinity", "-Infinity", "INF", "+INF", "-INF"}
_WIDE: Final = Context(prec=76)


class Row(NamedTuple):
    """The values of one body, and whether it fits the schema."""

    values: dict[str, Any]
    fits: bool


def read_row(body: str | None, fields: Sequence[spark.StructField]) -> Row:
    """Read a body; a column whose value does not fit is null, as are all of a body that is no JSON object."""
    nothing: dict[str, Any] = dict.fromkeys(field.name for field in fields)
    if body is None:
        return Row(nothing, fits=True)
    try:
        found: Any = json.loads(body.removeprefix("\ufeff"), parse_float=Decimal)
    except (ValueError, RecursionError):
        return Row(nothing, fits=False)
    if found is None:
        return Row(nothing, fits=True)
    if not isinstance(found, dict):
        return Row(nothing, fits=False)
    members = cast("dict[str, Any]", found)
    fits = True
    for field in fields:
        try:
            nothing[field.name] = convert(members.get(field.name), field.dataType)
        except (ValueError, TypeError, ArithmeticError):
            fits = False
    return Row(nothing, fits)


def convert(value: Any, kind: spark.DataType) -> Any:  # noqa: ANN401 - JSON
    """Return a JSON value as Arrow takes it for a type; raises ValueError, TypeError or ArithmeticError."""
    if value is None:
        return None
    for each, conversion in _CONVERSIONS.items():
        if isinstance(kind, each):
            return conversion(value, kind)
    raise TypeError(kind)


def _text(value: Any, _kind: spark.DataType) -> str:  # noqa: ANN401 - JSON
    if isinstance(value, Decimal):
        return str(value)
    found = value if isinstance(value, str) else json.dumps(value, default=float, ensure_ascii=False)
    found.encode()  # half a surrogate pair is no text
    return found


def _boolean(value: Any, _kind: spark.DataType) -> bool:  # noqa: ANN401 - JSON
    if not isinstance(value, bool):
        raise TypeError
    return value


def _whole(value: Any, kind: spark.DataType) -> int:  # noqa: ANN401 - JSON
    bits = _RANGES[type(kind)]
    if not isinstance(value, int) or isinstance(value, bool) or not -(2**bits) <= value < 2**bits:
        raise ValueError
    return value


def _real(value: Any, _kind: spark.DataType) -> float:  # noqa: ANN401 - JSON
    if isinstance(value, bool) or (isinstance(value, str) and value not in _NOT_NUMBERS):
        raise TypeError
    return float(value.replace("INF", "Infinity") if isinstance(value, str) else value)


def _decimal(value: Any, kind: Any) -> Decimal:  # noqa: ANN401 - JSON, and a type with facts of its own
    if not isinstance(value, int | str | Decimal) or isinstance(value, bool):
        raise TypeError
    number = Decimal(value).quantize(Decimal(1).scaleb(-kind.scale), ROUND_HALF_UP, _WIDE)
    if not number.is_finite() or len(number.as_tuple().digits) > kind.precision:
        raise ValueError
    return number


def _time(value: Any, _kind: spark.DataType) -> datetime:  # noqa: ANN401 - JSON
    if isinstance(value, int) and not isinstance(value, bool):
        return datetime.fromtimestamp(value, UTC)
    found = datetime.fromisoformat(cast("str", value))
    return found.astimezone(UTC) if found.tzinfo else found.replace(tzinfo=UTC)


def _local_time(value: Any, _kind: spark.DataType) -> datetime:  # noqa: ANN401 - JSON
    found = datetime.fromisoformat(value)
    if found.tzinfo:
        raise ValueError
    return found


def _date(value: Any, _kind: spark.DataType) -> date:  # noqa: ANN401 - JSON
    return date.fromisoformat(value)


def _binary(value: Any, _kind: spark.DataType) -> bytes:  # noqa: ANN401 - JSON
    return base64.b64decode(value, validate=True)


def _list(value: Any, kind: Any) -> list[Any]:  # noqa: ANN401 - as above
    if not isinstance(cast("object", value), list):
        raise TypeError
    return [convert(each, kind.elementType) for each in value]


def _map(value: Any, kind: Any) -> list[tuple[str, Any]]:  # noqa: ANN401 - as above
    if not isinstance(value, Mapping):
        raise TypeError
    return [
        (_text(key, kind), convert(each, kind.valueType))
        for key, each in cast("dict[str, Any]", value).items()
    ]


def _struct(value: Any, kind: Any) -> dict[str, Any]:  # noqa: ANN401 - as above
    if not isinstance(value, Mapping):
        raise TypeError
    members = cast("dict[str, Any]", value)
    return {field.name: convert(members.get(field.name), field.dataType) for field in kind}


_CONVERSIONS: Final[dict[type[spark.DataType], Callable[[Any, Any], Any]]] = {
    spark.StringType: _text,
    spark.BooleanType: _boolean,
    spark.DecimalType: _decimal,
    spark.IntegralType: _whole,
    spark.FractionalType: _real,
    spark.TimestampType: _time,
    spark.TimestampNTZType: _local_time,
    spark.DateType: _date,
    spark.BinaryType: _binary,
    spark.ArrayType: _list,
    spark.MapType: _map,
    spark.StructType: _struct,
}
"""By the first class that a type is of: a decimal is fractional, too."""


ONE_BY_ONE: Final = 1024  # rows: halving them further takes longer than reading them in Python
_VALUE: Final = "v"
_compute: Any = pc  # its functions are made at run time
_BOM: Final = "\ufeff"


class DecodedBodies(NamedTuple):
    """The columns of some bodies, as one array of structures, and which bodies do not fit."""

    columns: Column
    wrong: Column


def decoded(batches: Iterator[pa.RecordBatch], layout: Layout) -> Iterator[pa.RecordBatch]:
    """Give each batch the columns of a layout; the batches have the columns that it needs."""
    schema = arrow_schema(layout)
    decoder = Decoder(layout, schema)
    for batch in batches:
        yield decoder.decode(batch)


def arrow_schema(layout: Layout) -> pa.Schema:
    """Return the schema that Spark expects of batches."""
    from pyspark.sql.pandas.types import to_arrow_schema  # noqa: PLC0415 - Spark's, and slow to import

    return to_arrow_schema(layout.struct, timezone="UTC")


class Decoder:
    """Decodes the batches of one task."""

    def __init__(self, layout: Layout, schema: pa.Schema) -> None:
        """Take the layout and its Arrow types."""
        self._layout = layout
        self._schema = schema
        self._fields: list[StructField] = [layout.struct[name] for name in layout.from_body]
        kinds: dict[str, Any] = dict(zip(schema.names, schema.types, strict=True))
        self._kind: Any = pa.struct([(name, kinds[name]) for name in layout.from_body])
        self._wire = _wire(self._kind)

    def decode(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return a batch of the schema. Raises MessageDeserializationError by mode=FAILFAST."""
        given: Any = batch  # its stubs are partial
        columns: dict[str, Column] = {name: given.column(name) for name in self._layout.from_source}
        if not self._layout.has_typed:
            return self._batch(columns)
        bodies = as_text(given.column(self._layout.body))
        found = self._bodies(bodies)
        columns |= zip(self._layout.from_body, found.columns.flatten(), strict=True)
        if self._layout.corrupt is not None:
            columns[self._layout.corrupt] = _compute.if_else(
                found.wrong, bodies, pa.scalar(None, pa.string())
            )
        return judged(self._batch(columns), found.wrong, self._layout.mode, self._layout.corrupt)

    def _batch(self, columns: dict[str, Column]) -> pa.RecordBatch:
        arrays = [
            columns[name].cast(kind)
            for name, kind in zip(self._schema.names, self._schema.types, strict=True)
        ]
        made: pa.RecordBatch = cast("Any", pa.RecordBatch).from_arrays(arrays, schema=self._schema)
        return made

    # --- bodies

    def _bodies(self, bodies: Column) -> DecodedBodies:
        at_once = self._at_once(bodies) if self._wire is not None and len(bodies) else None
        if at_once is not None:
            return DecodedBodies(at_once, pa.repeat(pa.scalar(value=False), len(bodies)))
        if len(bodies) <= ONE_BY_ONE or self._wire is None:
            return self._one_by_one(bodies)
        middle = len(bodies) // 2
        halves = [self._bodies(bodies.slice(0, middle)), self._bodies(bodies.slice(middle))]
        return DecodedBodies(
            pa.concat_arrays([half.columns for half in halves]),
            pa.concat_arrays([half.wrong for half in halves]),
        )

    def _at_once(self, bodies: Column) -> Column | None:
        """Parse all bodies by Arrow; None unless each of them fits."""
        values = parsed(bodies, self._wire)
        if values is None:
            return None
        try:
            columns = [
                column.cast(field.type) for column, field in zip(values.flatten(), self._kind, strict=True)
            ]
        except pa.ArrowInvalid:
            return None
        return cast("Any", pa.StructArray).from_arrays(columns, fields=list(self._kind))

    def _one_by_one(self, bodies: Column) -> DecodedBodies:
        rows = [read_row(body, self._fields) for body in bodies.to_pylist()]
        columns: Column = cast("Any", pa).array([row.values for row in rows], self._kind)
        return DecodedBodies(columns, pa.array([not row.fits for row in rows], pa.bool_()))


def parsed(bodies: Column, kind: Any) -> Column | None:  # noqa: ANN401 - a struct
    """Parse all bodies by Arrow into structures of a type; None unless each of them is one value that fits."""
    data = _lines(bodies)
    reading = arrow_json.ReadOptions(use_threads=False, block_size=data.size + 1)
    parsing = arrow_json.ParseOptions(
        explicit_schema=pa.schema({_VALUE: kind}), unexpected_field_behavior="ignore"
    )
    try:
        found: Any = cast("Any", arrow_json).read_json(pa.BufferReader(data), reading, parsing)
    except pa.ArrowInvalid:
        return None
    return found.column(0).combine_chunks() if found.num_rows == len(bodies) else None


def judged(batch: pa.RecordBatch, wrong: Column, mode: str, corrupt: str | None) -> pa.RecordBatch:
    """Do with rows that do not fit as a mode says. Raises MessageDeserializationError by mode=FAILFAST."""
    if mode == FAIL and _compute.any(wrong).as_py():
        raise MessageDeserializationError(
            "A body is not what the schema says, and the mode is FAILFAST; with PERMISSIVE and a column "
            f"{corrupt or '_corrupt_record'} the row shows it.",
            type_name="",
        )
    if mode == DROP:
        kept: pa.RecordBatch = cast("Any", batch).filter(_compute.invert(wrong))
        return kept
    return batch


def as_text(bodies: Column) -> Column:
    """Decode bodies as UTF-8; invalid bytes become U+FFFD."""
    try:
        return bodies.cast(pa.string())
    except pa.ArrowInvalid:
        texts = [None if body is None else body.decode("utf-8", "replace") for body in bodies.to_pylist()]
        return pa.array(texts, pa.string())


def _lines(bodies: Column) -> Any:  # noqa: ANN401 - a buffer, of which the stubs do not know the size
    """Return the bodies as lines of JSON, each in an object of its own."""
    if _compute.any(_compute.starts_with(bodies, _BOM)).as_py():
        bodies = _compute.utf8_ltrim(bodies, _BOM)
    whole = _compute.fill_null(bodies, "null")
    lines = _compute.binary_join_element_wise(f'{{"{_VALUE}":', whole, "}\n", "")
    offsets = pa.Array.from_buffers(pa.int32(), len(lines) + 1, [None, lines.buffers()[1]])
    return lines.buffers()[2].slice(0, cast("Any", offsets)[-1].as_py())


def _wire(kind: Any) -> Any:  # noqa: ANN401 - of any type
    """Return the type by which Arrow reads a type from JSON; None for one that it cannot read."""
    fields: Any = kind
    if pa.types.is_struct(kind):
        inner = [(field.name, _wire(field.type)) for field in fields]
        return None if any(each is None for _, each in inner) else pa.struct(inner)
    if pa.types.is_list(kind):
        element = _wire(kind.value_type)
        return None if element is None else pa.list_(element)
    if pa.types.is_date(kind):
        return pa.string()  # Arrow takes days since 1970 only
    return None if pa.types.is_binary(kind) or pa.types.is_map(kind) else kind
