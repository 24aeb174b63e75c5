"""A JSON value as a value of a Spark type, one row at a time: what Arrow's reader does not take.

The rules are those of Spark's JSON source: text columns take any value as its JSON, decimals are rounded half up, and
a column whose value does not fit is null. Invariant: pure functions.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, date, datetime
from decimal import ROUND_HALF_UP, Context, Decimal
from typing import Any, Final, NamedTuple, cast

from pyspark.sql import types as spark

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
