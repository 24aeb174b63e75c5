"""The split of a user's schema: columns that a source has itself, and those that come from the JSON body.

A column with the name of one of the source's is the source's, unless the option `fromBody` names it; every other one
is a member of the body's JSON object. Invariant: no I/O, and no Arrow: Spark asks for schemas in every session.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

from rowbus.errors import ConfigurationError
from rowbus.spark.options import Option, choice, names, text

if TYPE_CHECKING:
    from pyspark.sql.types import DataType, StructType

PERMISSIVE: Final = "PERMISSIVE"
DROP: Final = "DROPMALFORMED"
FAIL: Final = "FAILFAST"

MODES: Final = (PERMISSIVE, DROP, FAIL)

JSON_OPTIONS: Final = (
    Option(
        "fromBody",
        names,
        (),
        "columns of the schema that come from the body although the source has them, too",
    ),
    Option(
        "columnNameOfCorruptRecord",
        text,
        "_corrupt_record",
        "the column for bodies that do not fit the schema",
    ),
)
"""Options of both sources for typed rows."""


def mode_option(name: str) -> Option:
    """Declare the option that is Spark's `mode`, under the name it has in a source."""
    meaning = (
        "typed rows: what to do with a body that does not fit the schema: null columns, with the body in "
        "`_corrupt_record` if the schema has it; leave the row out; or fail"
    )
    return Option(name, choice(*MODES), PERMISSIVE, meaning)


class RowLayout(Protocol):
    """The making of the rows that Spark is given of a source's batches; travels to the tasks."""

    @property
    def needed(self) -> tuple[str, ...]:
        """The source's columns to read from the database."""
        ...


class Layout(NamedTuple):
    """The columns to give to Spark, and where each comes from."""

    struct: StructType
    body: str
    """The source's column that holds the JSON."""

    from_source: tuple[str, ...]
    from_body: tuple[str, ...]
    corrupt: str | None
    """The column for bodies that do not fit, if the schema has it."""

    mode: str

    @property
    def has_typed(self) -> bool:
        """Whether the body must be decoded."""
        return bool(self.from_body) or self.corrupt is not None

    @property
    def needed(self) -> tuple[str, ...]:
        """The source's columns to read from the database."""
        read_anyway = self.body in self.from_source or not self.has_typed
        return self.from_source if read_anyway else (*self.from_source, self.body)


def struct_of(columns: Mapping[str, str]) -> StructType:
    """Return columns of simple types, all nullable, as Spark's type."""
    from pyspark.sql import types as spark  # noqa: PLC0415 - only where Spark is

    kinds: dict[str, DataType] = {
        "string": spark.StringType(),
        "bigint": spark.LongType(),
        "int": spark.IntegerType(),
        "timestamp": spark.TimestampType(),
        "binary": spark.BinaryType(),
        "map<string,string>": spark.MapType(spark.StringType(), spark.StringType()),
    }
    return spark.StructType([spark.StructField(name, kinds[kind]) for name, kind in columns.items()])


def lay_out(
    struct: StructType, own: Mapping[str, str], given: Mapping[str, Any], *, of: str, body: str, mode: str
) -> Layout:
    """Divide a schema between the source, whose columns and types are `own`, and the body.

    `given` are the source's parsed options. Raises ConfigurationError for a schema that the source cannot give.
    """
    _refuse_other_columns(struct, given["columns"], tuple(own))
    from_body_too = _names_in(struct, given["fromBody"])
    corrupt: str = given["columnNameOfCorruptRecord"]
    from_source = tuple(each for each in struct.names if each in own and each not in from_body_too)
    for name in from_source:
        _check_own(name, struct[name].dataType.simpleString(), own[name], of)
    members = [each for each in struct.names if each not in from_source and each != corrupt]
    for name in members:
        _check_member(name, struct[name].dataType)
    _check_nullable(struct)
    if corrupt in struct.names:
        _check_own(corrupt, struct[corrupt].dataType.simpleString(), "string", of)
    return Layout(
        struct, body, from_source, tuple(members), corrupt if corrupt in struct.names else None, mode
    )


def _refuse_other_columns(struct: StructType, asked: tuple[str, ...], default: tuple[str, ...]) -> None:
    """Refuse an option that says otherwise than the schema."""
    if asked not in {default, tuple(struct.names)}:
        raise ConfigurationError(
            "Option 'columns' and a schema are given, and name other columns. Leave 'columns' out: what the schema "
            "names is read.",
            option="columns",
        )


def _names_in(struct: StructType, wanted: tuple[str, ...]) -> tuple[str, ...]:
    missing = [name for name in wanted if name not in struct.names]
    if missing:
        raise ConfigurationError(
            f"Option 'fromBody' names {missing[0]!r}, which the schema does not have.", option="fromBody"
        )
    return wanted


def _check_own(name: str, kind: str, own: str, of: str) -> None:
    if kind != own:
        raise ConfigurationError(
            f"Column {name!r} of {of} is of type {own}, not {kind}; a member of that name in the body needs "
            f"fromBody={name}."
        )


def _check_member(name: str, kind: DataType) -> None:
    from pyspark.sql import types as spark  # noqa: PLC0415 - only where Spark is

    supported = (
        spark.StringType,
        spark.BooleanType,
        spark.IntegralType,
        spark.FractionalType,
        spark.BinaryType,
    )
    times = (spark.TimestampType, spark.TimestampNTZType, spark.DateType)
    for leaf in _leaves(kind):
        if not isinstance(leaf, supported + times):
            raise ConfigurationError(f"Column {name!r} of type {leaf.simpleString()} cannot come from JSON.")


def _leaves(kind: DataType) -> Iterator[DataType]:
    """Yield the types of single values within a type."""
    from pyspark.sql import types as spark  # noqa: PLC0415 - only where Spark is

    if isinstance(kind, spark.StructType):
        for field in kind:
            yield from _leaves(field.dataType)
    elif isinstance(kind, spark.ArrayType):
        yield from _leaves(kind.elementType)
    elif isinstance(kind, spark.MapType):
        if not isinstance(kind.keyType, spark.StringType):
            yield kind
        yield from _leaves(kind.valueType)
    else:
        yield kind


def _check_nullable(struct: StructType) -> None:
    wrong = next((field.name for field in struct if not field.nullable), None)
    if wrong is not None:
        raise ConfigurationError(f"Column {wrong!r} must be nullable: a body may lack it.")
