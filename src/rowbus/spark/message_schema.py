"""The Spark schema of a message class: the columns of a body that holds one.

Invariant: no I/O; every column is nullable, as a body may lack it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from msgspec import inspect

from rowbus.errors import ConfigurationError
from rowbus.messages.bodies.json_bodies import NAMES
from rowbus.messages.bodies.shape import Names

if TYPE_CHECKING:
    from pyspark.sql.types import DataType, StructType

_SIMPLE: Final[dict[type[Any], str]] = {
    inspect.StrType: "StringType",
    inspect.UUIDType: "StringType",
    inspect.EnumType: "StringType",
    inspect.IntType: "LongType",
    inspect.FloatType: "DoubleType",
    inspect.BoolType: "BooleanType",
    inspect.DateTimeType: "TimestampType",
    inspect.DateType: "DateType",
    inspect.BytesType: "BinaryType",
}
_LISTS: Final = (inspect.ListType, inspect.SetType, inspect.FrozenSetType, inspect.VarTupleType)
_CLASSES: Final = (inspect.DataclassType, inspect.StructType, inspect.TypedDictType)


def schema_of(message: type) -> StructType:
    """Return the columns of a message class, for `spark.read.schema(…)`: a dataclass, Struct or TypedDict.

    Columns have the names of the fields in a body, by the class's `rename`. `Decimal` becomes decimal(38,18), and a
    literal or UUID text. Raises ConfigurationError for a class without fields, or a field without a type in Spark.
    """
    found = inspect.type_info(message)
    if not isinstance(found, _CLASSES):
        raise ConfigurationError(f"{message!r} is no class whose fields are known; write the schema as text.")
    return _struct(found, Names())


def _struct(found: Any, names: Names) -> StructType:  # noqa: ANN401 - one of several classes
    from pyspark.sql import types as spark  # noqa: PLC0415 - only where Spark is

    kind: Any = getattr(found, "cls", None)
    declared = getattr(kind, "__dict__", {}).get(NAMES)
    names = names if declared is None else Names(declared)
    return spark.StructType(
        [
            spark.StructField(
                names.written(field.name) if field.encode_name == field.name else field.encode_name,
                _type(field.type, names, field.name),
            )
            for field in found.fields
        ]
    )


def _type(found: Any, names: Names, field: str) -> DataType:  # noqa: ANN401 - as above
    from pyspark.sql import types as spark  # noqa: PLC0415 - only where Spark is

    if isinstance(found, inspect.UnionType):
        kinds = [each for each in found.types if not isinstance(each, inspect.NoneType)]
        found = kinds[0] if len(kinds) == 1 else found
    if isinstance(found, inspect.DecimalType):
        return spark.DecimalType(38, 18)
    if isinstance(found, inspect.LiteralType) and all(isinstance(value, str) for value in found.values):
        return spark.StringType()
    if isinstance(found, _LISTS):
        return spark.ArrayType(_type(found.item_type, names, field))
    if isinstance(found, inspect.DictType):
        return spark.MapType(spark.StringType(), _type(found.value_type, names, field))
    if isinstance(found, _CLASSES):
        return _struct(found, names)
    if type(found) not in _SIMPLE:
        raise ConfigurationError(f"Field {field!r} has no type in Spark: write the schema as text.")
    simple: DataType = getattr(spark, _SIMPLE[type(found)])()
    return simple
