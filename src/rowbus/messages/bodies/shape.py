"""The shape of a message class: its fields, what they are called in a body, and their types.

Invariants: found out from the class alone, and remembered; nothing of a message is looked at here; a name that a class
gives its field itself (a struct's `rename`, a model's alias) wins over a convention; an open enum refuses what is no
integer.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from enum import IntEnum
from functools import lru_cache
from typing import Any, Literal, NamedTuple, TypeGuard

import msgspec
from msgspec import inspect

from rowbus.errors import ConfigurationError
from rowbus.running.bounded import MOST

ANYTHING = inspect.AnyType()


class Field(NamedTuple):
    """One field: the attribute, the name the class gives it in a body, its type, and its default if it has one."""

    attribute: str
    name: str
    type: inspect.Type
    default: object

    @property
    def is_named(self) -> bool:
        """Whether the class says itself what the field is called."""
        return self.name != self.attribute


@lru_cache(maxsize=MOST)
def fields_of(kind: type) -> tuple[Field, ...] | None:
    """Return the fields of a dataclass, struct or pydantic model; None for any other class."""
    if is_model(kind):
        models: Any = kind
        return tuple(
            Field(
                name, field.validation_alias or field.alias or name, type_of(field.annotation), field.default
            )
            for name, field in models.model_fields.items()
        )
    found = type_of(kind)
    if isinstance(found, (inspect.DataclassType, inspect.StructType)):
        return tuple(
            Field(field.name, field.encode_name, field.type, field.default) for field in found.fields
        )
    return None


def type_of(annotation: Any) -> inspect.Type:  # noqa: ANN401 - any annotation of a field
    """Return what msgspec makes of an annotation; anything, where it makes nothing of it."""
    try:
        return inspect.type_info(annotation)
    except (TypeError, NameError):
        return ANYTHING


def class_of(found: inspect.Type) -> type | None:
    """Return the class with fields that a type stands for, None if it is another type."""
    if isinstance(found, (inspect.DataclassType, inspect.StructType)):
        return found.cls
    if isinstance(found, inspect.CustomType) and is_model(found.cls):
        return found.cls
    return None


def is_model(kind: object) -> bool:
    """Say whether a type is a pydantic model; pydantic itself is not imported."""
    return isinstance(kind, type) and hasattr(kind, "model_fields") and hasattr(kind, "model_validate_json")


def kind_of(value: object) -> Any:  # noqa: ANN401 - for checkers: of a value of any type
    """Return a value's class."""
    return type(value)


def is_object(value: object) -> TypeGuard[dict[Any, Any]]:
    """Say whether a value of a body is an object, names and values."""
    return isinstance(value, dict)


def is_list(value: object) -> TypeGuard[list[Any]]:
    """Say whether a value of a body is a list."""
    return isinstance(value, list)


def is_mapping(value: object) -> TypeGuard[Mapping[Any, Any]]:
    """Say whether a value is written as an object by its keys."""
    return isinstance(value, Mapping)


def is_items(value: object) -> TypeGuard[Collection[Any]]:
    """Say whether a value is written as a list."""
    return isinstance(value, (list, tuple, set, frozenset))


def is_struct(kind: object) -> bool:
    """Say whether a type is a msgspec struct."""
    return isinstance(kind, type) and issubclass(kind, msgspec.Struct)


@lru_cache(maxsize=MOST)
def types_within(kind: type) -> frozenset[type]:
    """Return which of msgspec's types a body of this class may hold, however deep."""
    found: set[type] = set()
    classes: set[type] = set()
    waiting: list[inspect.Type] = [type_of(kind)]
    while waiting:
        next_type = waiting.pop()
        found.add(type(next_type))
        known = class_of(next_type)
        if known is None:
            waiting.extend(_parts(next_type))
        elif known not in classes:
            classes.add(known)
            waiting.extend(field.type for field in fields_of(known) or ())
    return frozenset(found)


def _parts(found: inspect.Type) -> tuple[inspect.Type, ...]:
    if isinstance(found, inspect.UnionType):
        return found.types
    if isinstance(found, inspect.TupleType):
        return found.item_types
    if isinstance(found, inspect.DictType):
        return (found.key_type, found.value_type)
    item: inspect.Type | None = getattr(found, "item_type", None)
    return () if item is None else (item,)


Convention = Literal["pascal", "camel"]
"""`order_id` as `OrderId`, as .NET's properties are called, or as `orderId`."""


class Names(NamedTuple):
    """How fields are named: by a convention (None: as in Python), and whether case counts when reading.

    `names_floats` if NaN and the infinities have names, too, Newtonsoft's; else they are refused.
    """

    rename: Convention | None = None
    ignore_case: bool = False
    names_floats: bool = False

    def written(self, name: str) -> str:
        """Return what a field is called in a body."""
        if self.rename is None:
            return name
        first, *rest = (part for part in name.split("_") if part) if name.strip("_") else (name,)
        begin = first[:1].upper() + first[1:] if self.rename == "pascal" else first
        return begin + "".join(part[:1].upper() + part[1:] for part in rest)

    def compared(self, name: str) -> str:
        """Return the form in which two names are compared when reading."""
        return name.casefold() if self.ignore_case else name


AS_THEY_ARE = Names()


def checked_convention(rename: str | None) -> None:
    """Raise ConfigurationError for what is no convention."""
    if rename not in {None, "pascal", "camel"}:
        raise ConfigurationError(f'rename={rename!r} is no convention; give "pascal", "camel" or None.')


class OpenEnum(IntEnum):
    """An `IntEnum` for a field of .NET's whose numbers may be newer than the class.

    A number without a member is kept as a member of that number, without being added to the class.
    """

    @classmethod
    def _missing_(cls, value: object) -> OpenEnum | None:
        if type(value) is not int:
            return None
        member = int.__new__(cls, value)
        member._name_ = str(value)
        member._value_ = value
        return member
