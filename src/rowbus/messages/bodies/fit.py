"""The fitting of a body to the class that reads it: the forms of .NET in which msgspec and pydantic differ.

Spans as .NET writes them, times with seven digits, enums by name, whole decimals for integers, Newtonsoft's lists with
type names, and names by convention. What does not fit is left as it is, for the class to refuse.

Invariant: numbers with a fraction come as Decimal and stay exact until a field asks for a float.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Iterable, Iterator
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum, Flag
from functools import lru_cache, partial
from typing import Any, Final, cast, get_origin
from uuid import UUID

import msgspec
from msgspec import inspect

from rowbus.errors import InvalidTimestampError
from rowbus.messages.bodies.shape import (
    Field,
    Names,
    class_of,
    fields_of,
    has_models,
    is_list,
    is_model,
    is_object,
    is_struct,
    parts_of,
    root_of,
    type_of,
)
from rowbus.messages.timestamps import parse_time_span
from rowbus.running.bounded import MOST

SEVENTH_DIGIT: Final = re.compile(r"(:[0-9]{2}\.[0-9]{6})[0-9]+")
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
    inspect.DecimalType,
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
    inspect.NamedTupleType,
)
_OBJECTS: Final = (inspect.DictType, inspect.TypedDictType)
_NUMERIC: Final = (
    inspect.IntType,
    inspect.EnumType,
    inspect.DecimalType,
    inspect.FloatType,
)
_MADE: Final[dict[type, Callable[[Any], Any]]] = {
    inspect.SetType: set,
    inspect.FrozenSetType: frozenset,
    inspect.TupleType: tuple,
    inspect.VarTupleType: tuple,
}
_KEYS: Final[dict[type, Callable[[Any], Any]]] = {
    inspect.IntType: int,
    inspect.FloatType: float,
    inspect.DecimalType: Decimal,
}


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
            return self.fields(value, kind)
        rule = _RULES.get(type(to))
        return _unexact(value) if rule is None else rule(self, value, to)

    def fields(self, value: Any, kind: type) -> Any:  # noqa: ANN401
        """Fit what a class holds, by the names of its fields."""
        root = root_of(kind)
        if root is not None:
            return self(value, root)
        if is_list(value) and is_struct(get_origin(kind) or kind):
            return self._array(value, kind)
        if not is_object(value):
            return value
        known = _known(kind, self._names)
        fitted: dict[str, Any] = {}
        for name, item in value.items():
            field = known.get(self._names.compared(name))
            if field is not None:
                fitted[field.name] = self(item, field.type)
            elif name not in fitted:
                fitted[name] = _unexact(item)
        return fitted

    def _array(self, value: list[Any], kind: type) -> list[Any]:
        """Fit a struct that is written as a list, of which a tag is the first."""
        types = [field.type for field in fields_of(kind) or ()]
        tags = [inspect.StrType()] if cast("Any", kind).__struct_config__.tag is not None else []
        return [self(item, to) for item, to in zip(value, (*tags, *types), strict=False)]

    def items(self, value: Any, to: Any) -> Any:  # noqa: ANN401
        """Fit a list; Newtonsoft writes one with type names as an object that holds it."""
        value = _plain_list(value)
        if not is_list(value):
            return value
        return self.listed((self(item, to.item_type) for item in value), to)

    def sequence(self, value: Any, to: Any) -> Any:  # noqa: ANN401
        """Fit a tuple, item by item."""
        value = _plain_list(value)
        types = parts_of(to)
        if not is_list(value) or len(value) != len(types):
            return value
        return self.listed((self(item, kind) for item, kind in zip(value, types, strict=True)), to)

    def listed(self, items: Iterable[Any], to: inspect.Type) -> Any:  # noqa: ANN401
        """Return items as a list, or as what a strict reader takes."""
        return (_MADE.get(type(to), list) if self._objects else list)(items)

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
            whole = int(key) if named is key and re.fullmatch("-?[0-9]+", str(key)) else named
            return self._member(whole, to)
        if isinstance(to, inspect.TimeDeltaType) and not self._objects:
            return msgspec.to_builtins(self.span(key, to))
        if self._objects and type(to) in _KEYS:
            return _KEYS[type(to)](key)
        return self(key, to)

    def typed_dict(self, value: Any, to: inspect.TypedDictType) -> Any:  # noqa: ANN401
        """Fit a dictionary whose keys are known."""
        return self.fields(value, to.cls)

    def union(self, value: Any, to: inspect.UnionType) -> Any:  # noqa: ANN401
        """Fit by the member that a value of this kind can be meant for."""
        types = tuple(_members(to))
        member = self._object_member(value, types) if is_object(value) else _member(value, types)
        return _unexact(value) if member is None else self(value, member)

    def _object_member(self, value: dict[str, Any], members: tuple[inspect.Type, ...]) -> inspect.Type | None:
        if is_list(value.get("$values")):  # a list as Newtonsoft writes it with type names or ids
            return next((member for member in members if isinstance(member, _LISTS)), None)
        objects = [member for member in members if class_of(member) or isinstance(member, _OBJECTS)]
        possible = objects if len(objects) == 1 else [one for one in objects if self._can_be(value, one)]
        return max(possible, key=partial(self._count_known, value), default=None)

    def _count_known(self, value: dict[str, Any], to: inspect.Type) -> int:
        """Count the names of an object that a class knows: pydantic, too, prefers the class that knows most."""
        kind = class_of(to)
        known = {} if kind is None else _known(kind, self._names)
        return sum(self._names.compared(name) in known for name in value)

    def _can_be(self, value: dict[str, Any], to: inspect.Type) -> bool:
        """Say whether an object has a struct's tag, and a class's required fields and literals."""
        if isinstance(to, inspect.StructType) and to.tag is not None:
            return bool(value.get(str(to.tag_field)) == to.tag)
        named = {self._names.compared(name): item for name, item in value.items()}
        for field in fields_of(class_of(to)) or ():
            found = [named[name] for name in _names_within(field, self._names) if name in named]
            if not found and field.is_required:
                return False
            if found and isinstance(field.type, inspect.LiteralType) and found[0] not in field.type.values:
                return False
        return True

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
        return self.leaf(SEVENTH_DIGIT.sub(r"\1", value) if isinstance(value, str) else value, to)

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
        return self._member(enum_value(_whole(value), to.cls), to)

    def _member(self, value: Any, to: inspect.EnumType) -> Any:  # noqa: ANN401
        """Return the member for readers that take no value, if there is one."""
        try:
            return to.cls(value) if self._objects else value
        except ValueError:
            return value

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
        if not self._objects or isinstance(value, bool) or not isinstance(value, (str, int)):
            return value
        try:
            return Decimal(value)
        except ArithmeticError:
            return value


_RULES: Final[dict[type, Callable[[Fit, Any, Any], Any]]] = {
    inspect.ListType: Fit.items,
    inspect.SetType: Fit.items,
    inspect.FrozenSetType: Fit.items,
    inspect.VarTupleType: Fit.items,
    inspect.CollectionType: Fit.items,
    inspect.TupleType: Fit.sequence,
    inspect.NamedTupleType: Fit.sequence,
    inspect.TypedDictType: Fit.typed_dict,
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


def maker(kind: Any, names: Names) -> Callable[[Any], object]:  # noqa: ANN401 - a class with fields
    """Return what makes objects of a class of decoded values, those of pydantic models within too."""
    fit, to = Fit(names, objects=has_models(kind)), type_of(kind)
    if is_model(kind):
        return lambda value: kind.model_validate(fit(value, to))
    return lambda value: msgspec.convert(fit(value, to), kind, str_keys=True, dec_hook=made_by_pydantic)


def made_by_pydantic(kind: Any, value: object) -> object:  # noqa: ANN401 - pydantic is not imported
    """Return a model that msgspec meets within a class."""
    return kind.model_validate(value)


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


def _members(to: inspect.Type) -> Iterator[inspect.Type]:
    """Yield the types that a value of a union may have, those within unions and root models too."""
    kind = class_of(to)
    root = None if kind is None else root_of(kind)
    if root is not None:
        yield from _members(root)
    elif isinstance(to, inspect.UnionType):
        for one in to.types:
            yield from _members(one)
    else:
        yield to


def _member(value: Any, members: tuple[inspect.Type, ...]) -> inspect.Type | None:  # noqa: ANN401
    if is_list(value):
        wanted: tuple[type, ...] = _LISTS
    elif isinstance(value, str):
        wanted = (*_TEXTUAL, *((inspect.FloatType,) if value in _NAMED_FLOATS else ()))
    elif isinstance(value, bool):
        wanted = (inspect.BoolType, *_NUMERIC)
    else:
        wanted = _NUMERIC if isinstance(value, int) else (inspect.DecimalType, inspect.FloatType, *_NUMERIC)
    possible = [one for one in members if not isinstance(one, inspect.EnumType) or _can_be_of(value, one.cls)]
    return next((member for kind in wanted for member in possible if isinstance(member, kind)), None)


def _can_be_of(value: Any, kind: type[Enum]) -> bool:  # noqa: ANN401
    """Say whether an enum may take a value: of texts those of its members, of numbers any."""
    if isinstance(value, str):
        return value in kind._value2member_map_ or enum_value(value, kind) is not value
    return any(not isinstance(member.value, str) for member in kind)


@lru_cache(maxsize=MOST)
def _known(kind: type, names: Names) -> dict[str, Field]:
    """Return a class's fields by what they may be called in a body."""
    known: dict[str, Field] = {}
    for field in fields_of(kind) or ():
        for name in _names_within(field, names):
            known.setdefault(name, field)
    return known


def _names_within(field: Field, names: Names) -> Iterator[str]:
    """Return a field's names in a body: the one that is written first."""
    for name in (names.of(field), *field.names) if field.own or len(field.names) > 1 else (names.of(field),):
        yield names.compared(name)


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
