"""The values of statements, as libpq takes them.

Lists of texts and of bytes go in the binary form, which has lengths and no quotes: headers are full of quotes, which
both sides would look at one by one. It names the type of the elements, so it is for texts that the statement casts to
`text[]` only; what is cast to another type goes as text, which the server reads as that type.

Source: https://www.postgresql.org/docs/current/arrays.html#ARRAYS-IO; the binary form is that of `array_recv`.

Invariant: the server reads what psycopg's own dumpers would have sent.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any, Final, cast

from psycopg import errors
from psycopg.adapt import PyFormat
from psycopg.pq import Format

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from psycopg.abc import Transformer

    from rowbus.database.statements import Statement

Parameters = tuple["list[bytes | None] | None", "list[Format] | None"]
"""Values and their formats, None for a statement without any."""

_TEXTS: Final = frozenset({str, type(None)})
_BYTES: Final = frozenset({bytes, type(None)})
_HEADER: Final = struct.Struct(
    "!iiIii"
)  # dimensions, whether there are nulls, type of elements, length, lower bound
_LENGTH: Final = struct.Struct("!i")
_BYTEA: Final = 17  # as pg_type has it
_TEXT: Final = 25
_NULL: Final = _LENGTH.pack(-1)
_HOLDS_NUL: Final = "PostgreSQL's text cannot hold the character NUL"


def encode(statement: Statement[object], transformer: Transformer) -> Parameters:
    """Return a statement's values in their order; raises psycopg's errors for what cannot be sent."""
    names = statement.query.names
    if not names:
        return None, None
    values: list[bytes | None] = []
    formats: list[Format] = []
    for name in names:
        value = statement.parameters[name]
        form = Format.TEXT
        if value is None:
            values.append(None)
        elif (plain := _PLAIN.get(type(value))) is not None:
            values.append(plain(value))
        elif isinstance(value, bytes):
            values.append(value)
            form = Format.BINARY
        elif (array := _array(value, is_text=name in statement.query.text_lists)) is not None:
            values.append(array[0])
            form = array[1]
        else:
            (dumped,) = transformer.dump_sequence([value], [PyFormat.TEXT])
            values.append(None if dumped is None else bytes(dumped))
        formats.append(form)
    return values, formats


def _array(value: object, *, is_text: bool) -> tuple[bytes, Format] | None:
    """Return a list of texts or of bytes, with nulls or without, in the form that is quick to write; None: another.

    `is_text` says that the statement takes a list of texts as such.
    """
    if not isinstance(value, list):
        return None
    values = cast("Sequence[Any]", value)
    types = set(map(type, values))
    if types <= _TEXTS:
        if is_text:
            return _elements(_TEXT, _encoded(values)), Format.BINARY
        return _texts(values), Format.TEXT
    if types <= _BYTES:
        return _elements(_BYTEA, values), Format.BINARY
    return None


def _texts(values: Sequence[str | None]) -> bytes:
    """Quote every element; the server reads it as the type that the statement names."""
    return _text(f"{{{','.join(map(_quoted, values))}}}")


def _quoted(value: str | None) -> str:
    if value is None:
        return "NULL"
    return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _elements(kind: int, values: Sequence[bytes | None]) -> bytes:
    """Write an array of one dimension: a header, then each element after its length."""
    parts = [_HEADER.pack(1, None in values, kind, len(values), 1)]
    for value in values:
        parts += (_NULL,) if value is None else (_LENGTH.pack(len(value)), value)
    return b"".join(parts)


def _encoded(values: Sequence[str | None]) -> Sequence[bytes | None]:
    """Return texts as libpq takes them; looks for a NUL in all of them at once."""
    encoded = [None if value is None else value.encode() for value in values]
    if b"\0" in b"".join(filter(None, encoded)):
        raise errors.DataError(_HOLDS_NUL)
    return encoded


def _text(value: str) -> bytes:
    """Return text as libpq takes it, which would silently end at a NUL."""
    encoded = value.encode()
    if b"\0" in encoded:
        raise errors.DataError(_HOLDS_NUL)
    return encoded


_PLAIN: dict[type, Callable[[Any], bytes]] = {
    int: b"%d".__mod__,
    str: _text,
    bool: {True: b"t", False: b"f"}.__getitem__,
}
