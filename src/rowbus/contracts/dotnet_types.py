"""Types of .NET as JSON Schemas: signatures of properties as ECMA-335 keeps them, in the JSON that .NET writes of them.

Invariant: pure; a type of which nothing is known takes anything. A reference that no attribute calls not null may be
null, as it may in .NET.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import chain
from typing import TYPE_CHECKING, Any, Final

from rowbus.contracts.contract import ANYTHING
from rowbus.contracts.schemas import TIME_SPAN

if TYPE_CHECKING:
    from rowbus.contracts.contract import Schema

    Named = Callable[[int, int], tuple[str, Schema]]
    """Gives the name and the schema of a type, by its table (as a coded index has it) and its row."""

_STRING: Final[Schema] = {"type": "string"}
_INTEGER: Final[Schema] = {"type": "integer"}
_DOUBLE: Final[Schema] = {"type": "number", "format": "double"}
_BYTES: Final[Schema] = {"type": "string", "contentEncoding": "base64"}
_BYTE: Final = 0x05
_PRIMITIVES: Final[dict[int, Schema]] = {
    0x02: {"type": "boolean"},
    0x03: _STRING,
    **dict.fromkeys(range(0x04, 0x0C), _INTEGER),
    0x0C: _DOUBLE,
    0x0D: _DOUBLE,
    0x0E: _STRING,
    0x1C: ANYTHING,
}
KNOWN: Final[dict[str, Schema]] = {
    "System.Decimal": {"type": "number", "format": "decimal"},
    "System.Guid": {"type": "string", "format": "uuid"},
    "System.DateTime": {"type": "string", "format": "date-time"},
    "System.DateTimeOffset": {"type": "string", "format": "date-time"},
    "System.DateOnly": {"type": "string", "format": "date"},
    "System.TimeOnly": {"type": "string", "format": "time"},
    "System.TimeSpan": {"type": "string", "format": TIME_SPAN},
    "System.Uri": _STRING,
}
"""Schemas of .NET's own types, by name."""
_OF_GENERICS: Final = "System.Collections.Generic."
_LISTS: Final = frozenset(
    f"{prefix}{name}`1"
    for prefix in (_OF_GENERICS, "System.Collections.Immutable.", "System.Collections.ObjectModel.")
    for name in (
        *(
            "List",
            "IList",
            "IEnumerable",
            "ICollection",
            "Collection",
            "LinkedList",
            "Queue",
            "ImmutableArray",
        ),
        *("IReadOnlyList", "IReadOnlyCollection", "ReadOnlyCollection", "ImmutableList", "IImmutableList"),
    )
)
_SETS: Final = frozenset(
    f"{_OF_GENERICS}{name}`1" for name in ("HashSet", "ISet", "IReadOnlySet", "SortedSet")
)
_MAPS: Final = frozenset(
    f"{_OF_GENERICS}{name}`2"
    for name in ("Dictionary", "IDictionary", "IReadOnlyDictionary", "SortedDictionary")
)
_NULLABLE: Final = "System.Nullable`1"
NOT_NULL: Final = 1
"""The value of `NullableAttribute` for a reference that is never null; 2 is for one that may be, 0 for none said."""
_VALUE_TYPE, _CLASS, _ARRAY, _INSTANCE, _LIST = 0x11, 0x12, 0x14, 0x15, 0x1D
_PARAMETERS: Final = frozenset({0x13, 0x1E})  # of a generic type, or of a method
_MODIFIERS: Final = frozenset({0x1F, 0x20})  # init-only setters, for one


class Signature:
    """A type as a signature has it, read from its beginning to its end.

    `flags` are those of NullableAttribute: one for each reference in it, outermost first, or one for all.
    """

    def __init__(self, signature: bytes, flags: bytes, named: Named) -> None:
        """Begin at the beginning."""
        self._bytes: Iterator[int] = iter(signature)
        self._flags: Iterator[int] = iter(flags) if len(flags) > 1 else iter(lambda: flags[0], None)
        self._named = named

    def schema(self) -> Schema:
        """Return the schema of the next type, which may be null if it is a reference that may."""
        element = next(self._bytes)
        while element in _MODIFIERS:
            self._number()
            element = next(self._bytes)
        if element == _VALUE_TYPE:
            return self._reference()[1]
        if element == _INSTANCE:
            return self._instance()
        if element in _PRIMITIVES and element not in {0x0E, 0x1C}:
            return _PRIMITIVES[element]
        may_be_null = next(self._flags, 0) != NOT_NULL
        found = self._of_reference(element)
        return or_null(found) if may_be_null else found

    def _of_reference(self, element: int) -> Schema:
        if element == _CLASS:
            return self._reference()[1]
        if element == _LIST:
            return self._list()
        if element in _PARAMETERS:
            self._number()
        return _PRIMITIVES.get(element, ANYTHING)

    def _list(self) -> Schema:
        """Return the schema of an array; bytes are written as text."""
        first = next(self._bytes)
        if first == _BYTE:
            return _BYTES
        self._bytes = chain([first], self._bytes)
        return _listed(self.schema())

    def _instance(self) -> Schema:
        """Return the schema of a generic type with its arguments."""
        is_value = next(self._bytes) == _VALUE_TYPE
        name = self._reference()[0]
        may_be_null = name != _NULLABLE and next(self._flags, 0) != NOT_NULL and not is_value
        arguments = [self.schema() for _ in range(self._number())]
        if name == _NULLABLE:
            return or_null(arguments[0])
        found = _generic(name, arguments)
        return or_null(found) if may_be_null else found

    def _reference(self) -> tuple[str, Schema]:
        coded = self._number()
        return self._named(coded & 3, coded >> 2)

    def _number(self) -> int:
        """Return the next compressed number (ECMA-335, II.23.2)."""
        first = next(self._bytes)
        more = 0 if first < 0x80 else 1 if first < 0xC0 else 3  # noqa: PLR2004 - the bits that tell its length
        value = first & (0x7F, 0x3F, 0, 0x1F)[more]
        for _ in range(more):
            value = value << 8 | next(self._bytes)
        return value


def or_null(schema: Schema) -> Schema:
    """Return the schema of what may be null, too."""
    return {"anyOf": [schema, {"type": "null"}]} if schema else schema


def may_be_null(schema: Schema) -> bool:
    """Say whether a schema takes null."""
    return not schema or {"type": "null"} in schema.get("anyOf", ())


def _generic(name: str, arguments: list[Schema]) -> Schema:
    if name in _LISTS:
        return _listed(arguments[0])
    if name in _SETS:
        return {**_listed(arguments[0]), "uniqueItems": True}
    if name in _MAPS:
        form = arguments[0].get("format", "")
        keys: dict[str, Any] = {"propertyNames": {"format": form}} if form else {}
        return {"type": "object", "additionalProperties": arguments[1], **keys}
    return ANYTHING


def _listed(items: Schema) -> Schema:
    return {"type": "array", "items": items}


def enum_of(members: dict[str, Any], *, is_flags: bool) -> Schema:
    """Return the schema of an enum, by its numbers; of flags, any number."""
    names, values = list(members), list(members.values())
    if is_flags:
        return {"type": "integer", "format": "flags", "x-enum-values": values, "x-enum-varnames": names}
    return {"enum": values, "x-enum-varnames": names}
