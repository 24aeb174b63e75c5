"""T-SQL's types in PostgreSQL: of values, and of columns, whose domains in `sys` remember what they were declared as.

Invariant: a value's type here holds every value T-SQL's holds; milliseconds of `datetime` are not rounded to thirds.
"""

from __future__ import annotations

from tests.database.sqlserver.standin.tokens import Token

_VALUES = {
    "bit": "smallint",
    "tinyint": "smallint",
    "smallint": "smallint",
    "int": "integer",
    "integer": "integer",
    "bigint": "bigint",
    "float": "double precision",
    "uniqueidentifier": "uuid",
    "datetime": "timestamp(3)",
    "datetime2": "timestamp(6)",
    "date": "date",
    "varbinary": "bytea",
    "binary": "bytea",
    "sysname": "text",
    "nvarchar": "text",
    "varchar": "text",
    "nchar": "text",
    "char": "text",
}
_NAMES = "bit uniqueidentifier datetime datetime2 varbinary nvarchar varchar nchar char binary sysname"
_DOMAINS = frozenset(_NAMES.split())
NUMBERS = frozenset({"smallint", "integer", "bigint"})


def name_of(parts: list[Token]) -> str:
    """Return the name of a T-SQL type without its length."""
    return parts[0].text.strip("[]").lower()


def value_type(parts: list[Token]) -> str:
    """Return the type of a variable or a cast; raises KeyError for one that is unknown here."""
    name = name_of(parts)
    length = _length(parts)
    if length not in {"", "max"} and name in {"nvarchar", "varchar", "char", "nchar"}:
        return f"varchar({length})"
    return _VALUES[name]


def domain(parts: list[Token]) -> str | None:
    """Return the name of the domain of a column declared so, without its schema; None for a plain type."""
    name, length = name_of(parts), _length(parts)
    if name not in _DOMAINS:
        return None
    return f"{name}({length})" if length else name


def _length(parts: list[Token]) -> str:
    return "".join(part.text.lower() for part in parts[2:-1]) if len(parts) > 2 else ""
