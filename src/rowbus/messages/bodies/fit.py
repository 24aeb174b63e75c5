"""What a body holds, fitted to the class that reads it: the forms of .NET in which msgspec and pydantic differ.

Spans as .NET writes them, times with seven digits, enums by name, whole decimals for integers, Newtonsoft's lists with
type names, and names by convention. What does not fit is left as it is, for the class to refuse.

Invariant: numbers with a fraction come as Decimal and stay exact until a field asks for a float.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Callable
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum, Flag
from typing import Any, Final, cast
from uuid import UUID

import msgspec
from msgspec import inspect

from rowbus.errors import InvalidTimestampError
from rowbus.messages.bodies.shape import Names, class_of, fields_of, is_list, is_object
from rowbus.messages.timestamps import parse_time_span

_SEVENTH_DIGIT: Final = re.compile(r"(:[0-9]{2}\.[0-9]{6})[0-9]+")
_SEVENTH_OF_SPAN: Final = re.compile(r"(\.[0-9]{6})[0-9]+(?=S)")
_MOST_DIGITS: Final = 40  # of an integer that .NET has: Int128 has 39
_NAMED_FLOATS: Final = {"NaN", "Infinity", "-Infinity"}
_TEXTUAL: Final = (
    inspect.StrType,
    inspect.EnumType,
    inspect.DateTimeType,
    inspect.DateType,
    inspect.TimeType,
    inspect.TimeDeltaType,
    inspect.UUIDType,
    inspect.BytesType,
)
_LEAVES: Final[dict[type, Any]] = {
    inspect.DateTimeType: datetime,
    inspect.DateType: date,
    inspect.TimeType: time,
    inspect.TimeDeltaType: timedelta,
    inspect.UUIDType: UUID,
}
_LISTS: Final = (
    inspect.ListType,
    inspect.SetType,
    inspect.FrozenSetType,
    inspect.VarTupleType,
    inspect.TupleType,
    inspect.CollectionType,
)
_NUMERIC: Final = (inspect.DecimalType, inspect.FloatType, inspect.IntType, inspect.EnumType)


class Fit:
    """Fits values to types; `objects` makes times and the like objects already, for readers that take no text."""

    def __init__(self, names: Names, *, objects: bool = False) -> None:
        """Fit with fields named so."""
        self._names = names
        self._objects = objects

    def __call__(self, value: Any, to: inspect.Type) -> Any:  # noqa: ANN401 - any value of a body
        """Return a value as the type takes it."""
        if value is None:
            return None
        kind = class_of(to)
        if kind is not None:
            return self._fields(value, kind)
        rule = _RULES.get(type(to))
        return _unexact(value) if rule is None else rule(self, value, to)

    def _fields(self, value: Any, kind: type) -> Any:  # noqa: ANN401
        if not is_object(value):
            return value
        compared, written = self._names.compared, self._names.written
        known = {
            compared(field.name if field.is_named else written(field.attribute)): field
            for field in fields_of(kind) or ()
        }
        fitted: dict[str, Any] = {}
        for name, item in value.items():
            field = known.get(compared(name))
            if field is not None:
                fitted[field.name] = self(item, field.type)
            elif name not in fitted:
                fitted[name] = _unexact(item)
        return fitted

    def items(self, value: Any, to: Any) -> Any:  # noqa: ANN401
        """Fit a list; Newtonsoft writes one with type names as an object that holds it."""
        value = _plain_list(value)
        return [self(item, to.item_type) for item in value] if is_list(value) else value

    def tuple(self, value: Any, to: inspect.TupleType) -> Any:  # noqa: ANN401
        """Fit a tuple, item by item."""
        value = _plain_list(value)
        if not is_list(value) or len(value) != len(to.item_types):
            return value
        return [self(item, kind) for item, kind in zip(value, to.item_types, strict=True)]

    def mapping(self, value: Any, to: inspect.DictType) -> Any:  # noqa: ANN401
        """Fit a dictionary, keys and values."""
        if not is_object(value):
            return value
        return {
            self._key(key, to.key_type): self(item, to.value_type)
            for key, item in value.items()
            if key != "$type"
        }

    def _key(self, key: Any, to: inspect.Type) -> Any:  # noqa: ANN401
        if isinstance(to, inspect.EnumType):
            named = enum_value(key, to.cls)
            return int(key) if named is key and re.fullmatch("-?[0-9]+", str(key)) else named
        return key

    def union(self, value: Any, to: inspect.UnionType) -> Any:  # noqa: ANN401
        """Fit by the member that a value of this kind can be meant for."""
        member = _member(value, to.types)
        return _unexact(value) if member is None else self(value, member)

    def leaf(self, value: Any, to: inspect.Type) -> Any:  # noqa: ANN401
        """Make an object of a leaf, if objects are asked for and it is one."""
        if not self._objects:
            return value
        try:
            return msgspec.convert(value, _LEAVES[type(to)])
        except (KeyError, msgspec.ValidationError):
            return value

    def time(self, value: Any, to: inspect.Type) -> Any:  # noqa: ANN401
        """Cut what Python's microseconds cannot hold; rounding it could leave the day, or the calendar."""
        return self.leaf(_SEVENTH_DIGIT.sub(r"\1", value) if isinstance(value, str) else value, to)

    def span(self, value: Any, to: inspect.Type) -> Any:  # noqa: ANN401
        """Read .NET's form of a span, and leave ISO 8601."""
        if not isinstance(value, str):
            return value
        try:
            return parse_time_span(value)
        except InvalidTimestampError:
            return self.leaf(_SEVENTH_OF_SPAN.sub(r"\1", value), to)

    def bytes(self, value: Any, to: inspect.Type) -> Any:  # noqa: ANN401, ARG002
        """Read base64 for pydantic, which takes text for its characters."""
        if not self._objects or not isinstance(value, str):
            return value
        return base64.b64decode(value, validate=True)

    def enum(self, value: Any, to: inspect.EnumType) -> Any:  # noqa: ANN401
        """Read a name of an enum, or several of a flag."""
        return enum_value(_whole(value), to.cls)

    def whole(self, value: Any, to: inspect.Type) -> Any:  # noqa: ANN401, ARG002
        """Read a whole decimal as the integer that it is."""
        return _whole(value)

    def real(self, value: Any, to: inspect.Type) -> Any:  # noqa: ANN401, ARG002
        """Make a float of a number, and of Newtonsoft's names of what is no number."""
        if isinstance(value, Decimal) or (isinstance(value, str) and value in _NAMED_FLOATS):
            return float(value)
        return value

    def exact(self, value: Any, to: inspect.Type) -> Any:  # noqa: ANN401, ARG002
        """Keep every digit."""
        return value


_RULES: Final[dict[type, Callable[[Fit, Any, Any], Any]]] = {
    inspect.ListType: Fit.items,
    inspect.SetType: Fit.items,
    inspect.FrozenSetType: Fit.items,
    inspect.VarTupleType: Fit.items,
    inspect.CollectionType: Fit.items,
    inspect.TupleType: Fit.tuple,
    inspect.DictType: Fit.mapping,
    inspect.UnionType: Fit.union,
    inspect.DateTimeType: Fit.time,
    inspect.TimeType: Fit.time,
    inspect.DateType: Fit.leaf,
    inspect.UUIDType: Fit.leaf,
    inspect.TimeDeltaType: Fit.span,
    inspect.BytesType: Fit.bytes,
    inspect.EnumType: Fit.enum,
    inspect.IntType: Fit.whole,
    inspect.FloatType: Fit.real,
    inspect.DecimalType: Fit.exact,
}


def enum_value(value: Any, kind: type[Enum]) -> Any:  # noqa: ANN401 - as it came, or a member's value
    """Return the value of the member that a text names, or of the flags; else the value as it came."""
    if not isinstance(value, str) or value in kind._value2member_map_:
        return value
    members = [kind.__members__.get(name) for name in value.split(", ")]
    if None in members or (len(members) > 1 and not issubclass(kind, Flag)):
        return value
    if not issubclass(kind, Flag):
        return cast("Enum", members[0]).value
    joined = 0
    for member in members:
        joined |= cast("Enum", member).value
    return joined


def _member(value: Any, members: tuple[inspect.Type, ...]) -> inspect.Type | None:  # noqa: ANN401
    if is_object(value):
        return _object_member(value, members)
    if is_list(value):
        wanted: tuple[type, ...] = _LISTS
    else:
        wanted = _TEXTUAL if isinstance(value, str) else _NUMERIC
    named_float = isinstance(value, str) and value in _NAMED_FLOATS
    found = [member for member in members if isinstance(member, wanted)] or [
        member for member in members if named_float and isinstance(member, inspect.FloatType)
    ]
    return found[0] if found else None


def _object_member(value: dict[str, Any], members: tuple[inspect.Type, ...]) -> inspect.Type | None:
    if is_list(value.get("$values")):  # a list as Newtonsoft writes it with type names or ids
        return next((member for member in members if isinstance(member, _LISTS)), None)
    objects = [member for member in members if class_of(member) or isinstance(member, inspect.DictType)]
    for member in objects:
        tag = member.tag if isinstance(member, inspect.StructType) else None
        if tag is not None and value.get(str(getattr(member, "tag_field", ""))) == tag:
            return member
    return objects[0] if len(objects) == 1 else None


def _plain_list(value: Any) -> Any:  # noqa: ANN401
    """Return the list in an object that Newtonsoft wrote for one; else the value as it is."""
    return value["$values"] if is_object(value) and is_list(value.get("$values")) else value


def _whole(value: Any) -> Any:  # noqa: ANN401
    if (
        isinstance(value, Decimal)
        and value.is_finite()
        and value.adjusted() < _MOST_DIGITS
        and value == value.to_integral()
    ):
        return int(value)
    return value


def _unexact(value: Any) -> Any:  # noqa: ANN401
    """Return a value that no type asks for, its numbers as floats."""
    if isinstance(value, Decimal):
        return float(value)
    if is_list(value):
        return [_unexact(item) for item in value]
    if is_object(value):
        return {key: _unexact(item) for key, item in value.items()}
    return value
