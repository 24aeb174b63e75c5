"""The field of a state that holds the value by which its saga is found: values are converted to the field's type.

Invariant: every spelling of one value is one saga, and what is found has the type with which the state is read.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import datetime
from enum import Enum
from typing import Any, Final, cast
from uuid import UUID

import msgspec
from msgspec import inspect

from rowbus.errors import ConfigurationError, InvalidTimestampError, RowbusError, SagaCorrelationError
from rowbus.messages.bodies.shape import ANYTHING, fields_of
from rowbus.messages.timestamps import parse_timestamp
from rowbus.sagas.decisions import correlation_text

_NUMBER: Final = re.compile(r"\s*[+-]?[0-9]{1,200}\s*")
_NO_VALUE: Final = object()


class Key:
    """One field of one state class."""

    def __init__(self, saga: str, kind: type, name: str) -> None:
        """Convert to the type of this field; raises ConfigurationError for one by which no saga can be found."""
        types = {field.attribute: field.type for field in fields_of(kind) or ()}
        self.name = name
        self._kind = kind
        self._type = types.get(name, ANYTHING)
        if not _finds(self._type):
            raise ConfigurationError(
                f"{saga} is found by {self}, {_called(self._type)}: it must be text, an int, a UUID, a datetime, or an "
                "enum of these."
            )

    def __str__(self) -> str:
        """Name the field as people find it."""
        return f"{self._kind.__name__}.{self.name}"

    def convert(self, value: object, source: str) -> object:
        """Return a value as the field has it; raises SagaCorrelationError, which names its `source`."""
        try:
            return _convert(value, self._type)
        except ValueError as error:
            correlation_text(value)  # what finds no saga of any type has a reason of its own
            raise SagaCorrelationError(
                f"{source} is {value!r}, of type {type(value).__name__}, and the saga is found by {self}, "
                f"{_called(self._type)}: it cannot be converted.",
                value=value,
            ) from error

    def value_in(self, state: object) -> object:
        """Return the value that a state has."""
        return getattr(state, self.name, None)

    def is_held(self, state: object, correlation: str) -> bool:
        """Say whether a state has the value by which its row is found, or what its class makes of that."""
        value = self.value_in(state)
        return correlation in (value, _text_of(value)) or value == self._begun_with(correlation)

    def _begun_with(self, correlation: str) -> object:
        """Return the value with which a saga begins that this text finds; a mark if its class does not take it."""
        begun = self._made_with(**{self.name: correlation})
        return _NO_VALUE if begun == self._made_with() else begun

    def _made_with(self, **values: str) -> object:
        """Return the value in a state that is made with a text, or without; a mark if none can be."""
        try:
            converted = {name: _convert(text, self._type) for name, text in values.items()}
            return self.value_in(self._kind(**converted))
        except (RowbusError, ValueError, TypeError):
            return _NO_VALUE


def _text_of(value: object) -> str | None:
    try:
        return correlation_text(value)
    except SagaCorrelationError:
        return None


def _text(value: object, _to: inspect.Type) -> object:
    return value if isinstance(value, str) else correlation_text(value)


def _number(value: object, _to: inspect.Type) -> object:
    if isinstance(value, str) and _NUMBER.fullmatch(value):
        return int(value)
    return _of_type(value, int)


def _id(value: object, _to: inspect.Type) -> object:
    return UUID(value.strip()) if isinstance(value, str) else _of_type(value, UUID)


def _instant(value: object, _to: inspect.Type) -> object:
    if not isinstance(value, str):
        return _of_type(value, datetime)
    try:
        return parse_timestamp(value)
    except InvalidTimestampError:
        return msgspec.convert(value, datetime)


def _of_type(value: object, kind: type) -> object:
    if isinstance(value, kind) and not isinstance(value, bool):
        return value
    raise ValueError(kind.__name__)


def _choice(value: object, to: Any) -> object:  # noqa: ANN401 - an enum, or a Literal
    text = correlation_text(value)
    for each in to.cls if isinstance(to, inspect.EnumType) else to.values:
        if text == str(each.value if isinstance(each, Enum) else each):
            return each
    raise ValueError(text)


def _member(value: object, to: inspect.Type) -> object:
    """Return a value as a union takes it: as it is if one of the members has its type."""
    converted = [_convert(value, member) for member in _members(to) if _takes(value, member)]
    if not converted:
        raise ValueError(value)
    return value if any(each is value for each in converted) else converted[0]


def _as_it_is(value: object, _to: inspect.Type) -> object:
    return value


_CONVERSIONS: Final[dict[type, Callable[[object, inspect.Type], object]]] = {
    inspect.StrType: _text,
    inspect.IntType: _number,
    inspect.UUIDType: _id,
    inspect.DateTimeType: _instant,
    inspect.EnumType: _choice,
    inspect.LiteralType: _choice,
    inspect.UnionType: _member,
    inspect.AnyType: _as_it_is,
    inspect.CustomType: _as_it_is,
}


def _convert(value: object, to: inspect.Type) -> object:
    return _CONVERSIONS[type(to)](value, to)


def _takes(value: object, to: inspect.Type) -> bool:
    try:
        _convert(value, to)
    except ValueError:
        return False
    return True


def _members(to: inspect.Type) -> list[inspect.Type]:
    """Return those members of a union by which a saga can be found."""
    return [member for member in cast("inspect.UnionType", to).types if type(member) in _CONVERSIONS]


def _finds(to: inspect.Type) -> bool:
    return bool(_members(to)) if isinstance(to, inspect.UnionType) else type(to) in _CONVERSIONS


def _called(to: inspect.Type) -> str:
    """Name a type for people."""
    if isinstance(to, inspect.UnionType):
        return " or ".join(map(_called, to.types))
    kind = getattr(to, "cls", None)
    return kind.__name__ if isinstance(kind, type) else type(to).__name__.removesuffix("Type").lower()
