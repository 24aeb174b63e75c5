"""The shape of a message class: its fields, what they are called in a body, and their types.

Invariant: found out from the class alone, and remembered; nothing of a message is looked at here.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import lru_cache
from typing import Any, NamedTuple, TypeGuard

import msgspec
from msgspec import inspect

from rowbus.running.bounded import MOST

ANYTHING = inspect.AnyType()


class Field(NamedTuple):
    """One field: the attribute, the name the class gives it in a body, and its type."""

    attribute: str
    name: str
    type: inspect.Type

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
            Field(name, field.validation_alias or field.alias or name, type_of(field.annotation))
            for name, field in models.model_fields.items()
        )
    found = type_of(kind)
    if isinstance(found, (inspect.DataclassType, inspect.StructType)):
        return tuple(Field(field.name, field.encode_name, field.type) for field in found.fields)
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
