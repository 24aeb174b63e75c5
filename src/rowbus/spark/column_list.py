"""Columns written as text, as in SQL: `order_id string, total decimal(10,2), lines array<struct<sku: string>>`.

Spark's own parser runs in Java, and where a data source says what its columns are there is none.
Invariant: a pure function; every column is nullable.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final

from rowbus.errors import ConfigurationError

if TYPE_CHECKING:
    from pyspark.sql.types import DataType, StructType

_SIMPLE: Final = {
    "string": "StringType",
    "boolean": "BooleanType",
    "tinyint": "ByteType",
    "byte": "ByteType",
    "smallint": "ShortType",
    "short": "ShortType",
    "int": "IntegerType",
    "integer": "IntegerType",
    "bigint": "LongType",
    "long": "LongType",
    "float": "FloatType",
    "real": "FloatType",
    "double": "DoubleType",
    "date": "DateType",
    "timestamp": "TimestampType",
    "timestamp_ntz": "TimestampNTZType",
    "binary": "BinaryType",
}
_COLUMN: Final = re.compile(r"(`(?P<quoted>(?:[^`]|``)+)`|(?P<name>\w+))\s*(?P<rest>.+)", re.DOTALL)
_NESTED: Final = re.compile(r"(array|map|struct)\s*<(.*)>", re.DOTALL | re.IGNORECASE)
_DECIMAL: Final = re.compile(
    r"(?:decimal|numeric|dec)(?:\s*\(\s*(\d+)\s*(?:,\s*(\d+)\s*)?\))?", re.IGNORECASE
)
_WIDEST: Final = 38


def parse_columns(text: str) -> StructType:
    """Return the columns as Spark's type; raises ConfigurationError, which names the part that it cannot read."""
    from pyspark.sql import types as spark  # noqa: PLC0415 - only where Spark is

    fields = [_column(part) for part in _parts(text)]
    return spark.StructType([spark.StructField(name, _type(kind)) for name, kind in fields])


def _column(part: str) -> tuple[str, str]:
    found = _COLUMN.fullmatch(part)
    if found is None:
        raise _unreadable(part)
    quoted = found["quoted"]
    return (quoted.replace("``", "`") if quoted else found["name"]), found["rest"].lstrip(" \t\r\n:")


def _type(text: str) -> DataType:
    from pyspark.sql import types as spark  # noqa: PLC0415 - only where Spark is

    text = text.strip()
    if (nested := _NESTED.fullmatch(text)) is not None:
        return _OF_MANY[nested[1].lower()](nested[2])
    if (decimal := _DECIMAL.fullmatch(text)) is not None:
        precision, scale = int(decimal[1] or 10), int(decimal[2] or 0)
        if not 0 < precision <= _WIDEST or scale > precision:
            raise _unreadable(text)
        return spark.DecimalType(precision, scale)
    if text.lower() not in _SIMPLE:
        raise _unreadable(text)
    simple: DataType = getattr(spark, _SIMPLE[text.lower()])()
    return simple


def _array(inner: str) -> DataType:
    from pyspark.sql import types as spark  # noqa: PLC0415 - only where Spark is

    return spark.ArrayType(_type(inner))


def _map(inner: str) -> DataType:
    from pyspark.sql import types as spark  # noqa: PLC0415 - only where Spark is

    parts = list(_parts(inner))
    if len(parts) != len(("key", "value")):
        raise _unreadable(inner)
    return spark.MapType(_type(parts[0]), _type(parts[1]))


_OF_MANY: Final[dict[str, Callable[[str], DataType]]] = {
    "array": _array,
    "map": _map,
    "struct": parse_columns,
}


def _parts(text: str) -> Iterator[str]:
    """Yield what is between the commas that are in no brackets and no quotes."""
    depth, begin, quoted = 0, 0, False
    for place, character in enumerate(text):
        quoted ^= character == "`"
        if not quoted:
            depth += (character in "<(") - (character in ">)")
            if character == "," and depth == 0:
                yield text[begin:place].strip()
                begin = place + 1
    yield text[begin:].strip()


def _unreadable(part: str) -> ConfigurationError:
    return ConfigurationError(
        f"{part!r} cannot be read as columns: they are `name type, …`, such as `total decimal(10,2)`.",
        option="schema",
    )
