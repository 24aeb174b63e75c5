"""The shape of a message class: its fields, what they are called in a body, and their types.

Invariants: found out from the class alone, and remembered; nothing of a message is looked at here; a name that a class
gives its field itself (a struct's `rename`, a model's alias) wins over a convention; an open enum refuses what is no
integer.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterable, Iterator, Mapping
from enum import IntEnum
from functools import lru_cache
from inspect import get_annotations
from types import UnionType
from typing import (
    Annotated,
    Any,
    Final,
    Literal,
    NamedTuple,
    TypeGuard,
    Union,
    cast,
    get_args,
    get_origin,
    get_type_hints,
)

import msgspec
from msgspec import inspect

from rowbus.errors import ConfigurationError
from rowbus.running.bounded import MOST

ANYTHING = inspect.AnyType()


class Field(NamedTuple):
    """One field: its attribute, the names its class takes it by, the one its class writes, and its type."""

    attribute: str
    names: tuple[str, ...]
    own: str | None
    type: inspect.Type
    is_required: bool = True
    default: Any = None

    @property
    def name(self) -> str:
        """The name by which the class is given it."""
        return self.names[0]


@lru_cache(maxsize=MOST)
def fields_of(kind: Any) -> tuple[Field, ...] | None:  # noqa: ANN401 - a class, or a generic one with its arguments
    """Return the fields of a dataclass, struct, pydantic model, TypedDict or NamedTuple; None for any other class."""
    if is_model(kind):
        return tuple(_field_of_model(kind, name, field) for name, field in kind.model_fields.items())
    found = type_of(kind)
    if not isinstance(found, _RECORDS):
        return None
    if not found.fields:
        return tuple(_fields_by_hints(kind))
    is_keyed = isinstance(found, (inspect.TypedDictType, inspect.NamedTupleType))
    return tuple(_field(field, is_keyed=is_keyed) for field in found.fields)


def _field(field: inspect.Field, *, is_keyed: bool) -> Field:
    own = field.encode_name if is_keyed or field.encode_name != field.name else None
    default = None if field.default is msgspec.NODEFAULT else field.default
    if field.default_factory is not msgspec.NODEFAULT:
        default = field.default_factory
    return Field(field.name, (field.encode_name,), own, field.type, field.required, default)


def _fields_by_hints(kind: Any) -> Iterator[Field]:  # noqa: ANN401 - a class, or a generic one with its arguments
    """Yield the fields of a class that msgspec cannot read as a whole: pydantic may, or one of them is at fault."""
    origin = get_origin(kind) or kind
    given = dict(zip(getattr(origin, "__parameters__", ()), get_args(kind), strict=False))
    defaults = _defaults(origin)
    own = not dataclasses.is_dataclass(origin) and not is_struct(origin)
    for name, hint in _hints(origin).items():
        parameters = getattr(hint, "__parameters__", ())
        filled = (
            hint[tuple(given.get(one, Any) for one in parameters)] if parameters else given.get(hint, hint)
        )
        if name in defaults:
            default = defaults[name]
            yield Field(name, (name,), name if own else None, type_of(filled), default is REQUIRED, default)


def _hints(kind: Any) -> dict[str, Any]:  # noqa: ANN401 - a class
    """Return the annotations of a class; anything, where they name what only a type checker sees."""
    try:
        return get_type_hints(kind)
    except (NameError, AttributeError, TypeError):
        bases = [get_annotations(base) for base in reversed(kind.__mro__)]
        return {name: Any for annotations in bases for name in annotations}


def _defaults(kind: Any) -> dict[str, Any]:  # noqa: ANN401 - a class
    """Return the defaults of a class's fields by their names."""
    made: dict[str, Any]
    if dataclasses.is_dataclass(kind):
        fields = [field for field in dataclasses.fields(kind) if field.init]
        made = {field.name: (field.default, field.default_factory) for field in fields}
    else:
        left_out = {*getattr(kind, "__optional_keys__", ()), *getattr(kind, "_field_defaults", ())}
        made = {
            name: (None if name in left_out else dataclasses.MISSING,) * 2 for name in kind.__annotations__
        }
    return {
        name: next((one for one in both if one is not dataclasses.MISSING), REQUIRED)
        for name, both in made.items()
    }


REQUIRED: Final = object()


def _field_of_model(kind: Any, name: str, field: Any) -> Field:  # noqa: ANN401 - pydantic is not imported
    config = kind.model_config
    aliases = tuple(alias for alias in _aliases(field.validation_alias) if isinstance(alias, str))
    by_name = config.get("populate_by_name") or config.get("validate_by_name")
    if field.validation_alias is None or config.get("validate_by_alias") is False:
        names: tuple[str, ...] = (name,)
    else:
        names = (name, *aliases) if by_name else aliases or (str(field.validation_alias),)
    own = _dumped_as(kind, name)
    if own is None and name not in names and aliases:
        own = aliases[0]
    default = field.default_factory or (None if field.is_required() else field.default)
    return Field(name, names, own, type_of(field.annotation), field.is_required(), default)


def _dumped_as(kind: Any, name: str) -> str | None:  # noqa: ANN401 - pydantic is not imported
    """Return the alias by which pydantic itself writes a field, None: by its name."""
    by_alias = kind.model_config.get("serialize_by_alias")
    return kind.model_fields[name].serialization_alias if by_alias else None


def _aliases(alias: Any) -> Iterable[object]:  # noqa: ANN401 - a text, AliasChoices or AliasPath
    return getattr(alias, "choices", None) or (alias,)


def type_of(annotation: Any) -> inspect.Type:  # noqa: ANN401 - any annotation of a field
    """Return what msgspec makes of an annotation, or of its parts; anything, where it makes nothing of it."""
    try:
        return inspect.type_info(annotation)
    except (TypeError, NameError):
        return _composed(annotation)


def _composed(annotation: Any) -> inspect.Type:  # noqa: ANN401, PLR0911 - one answer for each kind
    origin: Any = get_origin(annotation)
    parts: tuple[Any, ...] = get_args(annotation)
    if origin is Annotated:
        return type_of(parts[0])
    if origin in {Union, UnionType}:
        return inspect.UnionType(tuple(type_of(part) for part in parts))
    record = _record(annotation, origin or annotation)
    if record is not None:
        return record
    if not isinstance(origin, type) or not parts:
        return ANYTHING
    if issubclass(origin, tuple) and parts[-1] is not ...:
        return inspect.TupleType(tuple(type_of(part) for part in parts))
    if issubclass(origin, Mapping):
        return inspect.DictType(type_of(parts[0]), type_of(parts[1]))
    listed = _COLLECTIONS.get(cast("type", origin), inspect.ListType)
    return listed(type_of(parts[0])) if issubclass(origin, Collection) else ANYTHING


def _record(annotation: Any, kind: Any) -> inspect.Type | None:  # noqa: ANN401
    if dataclasses.is_dataclass(kind):
        return inspect.DataclassType(annotation, ())
    if is_struct(kind):
        return inspect.StructType(annotation, ())
    if hasattr(kind, "__total__") and hasattr(kind, "__required_keys__"):
        return inspect.TypedDictType(annotation, ())
    return inspect.NamedTupleType(annotation, ()) if hasattr(kind, "_field_defaults") else None


_RECORDS: Final = (
    inspect.DataclassType,
    inspect.StructType,
    inspect.TypedDictType,
    inspect.NamedTupleType,
)
_COLLECTIONS: Final[dict[type, Any]] = {
    tuple: inspect.VarTupleType,
    set: inspect.SetType,
    frozenset: inspect.FrozenSetType,
}


def class_of(found: inspect.Type) -> type | None:
    """Return the class with fields that a type stands for, None if it is another type."""
    if isinstance(found, (inspect.DataclassType, inspect.StructType)):
        return found.cls
    if isinstance(found, inspect.CustomType) and is_model(found.cls):
        return found.cls
    return None


def root_of(kind: Any) -> inspect.Type | None:  # noqa: ANN401 - a class
    """Return the type of the value that a pydantic RootModel is, None for another class."""
    fields = fields_of(kind) if getattr(kind, "__pydantic_root_model__", False) else None
    return fields[0].type if fields else None


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
    return frozenset(type(found) for found in _all_within(kind))


@lru_cache(maxsize=MOST)
def keys_within(kind: type) -> frozenset[type]:
    """Return which of msgspec's types the keys of dictionaries have in a body of this class."""
    return frozenset(
        type(found.key_type) for found in _all_within(kind) if isinstance(found, inspect.DictType)
    )


def writes_its_names(kind: type) -> bool:
    """Say whether pydantic writes the fields of all models in a class by the names that they have in a body."""
    models = [class_of(found) for found in _all_within(kind) if isinstance(found, inspect.CustomType)]
    return all(
        field.own == _dumped_as(model, field.attribute)
        for model in models
        if model is not None
        for field in fields_of(model) or ()
    )


@lru_cache(maxsize=MOST)
def may_choose_an_enum(kind: type) -> bool:
    """Say whether a class holds a union of an enum and another type; None does not count."""
    unions = (found.types for found in _all_within(kind) if isinstance(found, inspect.UnionType))
    members = ({type(one) for one in types} - {inspect.NoneType} for types in unions)
    return any(inspect.EnumType in kinds and len(kinds) > 1 for kinds in members)


def _all_within(kind: type) -> Iterator[inspect.Type]:
    classes: set[type] = set()
    waiting: list[inspect.Type] = [type_of(kind)]
    while waiting:
        next_type = waiting.pop()
        known = class_of(next_type)
        if known in classes:
            continue
        yield next_type
        if known is None:
            waiting.extend(parts_of(next_type))
        else:
            classes.add(known)
            waiting.extend(field.type for field in fields_of(known) or ())


def has_models(kind: type) -> bool:
    """Say whether a class is a pydantic model, or holds one."""
    return is_model(kind) or inspect.CustomType in types_within(kind)


def parts_of(found: inspect.Type) -> tuple[inspect.Type, ...]:
    """Return the types that a type is made of."""
    if isinstance(found, inspect.UnionType):
        return found.types
    if isinstance(found, inspect.TupleType):
        return found.item_types
    if isinstance(found, inspect.DictType):
        return (found.key_type, found.value_type)
    if isinstance(found, (inspect.TypedDictType, inspect.NamedTupleType)):
        return tuple(field.type for field in fields_of(found.cls) or ())
    item: inspect.Type | None = getattr(found, "item_type", None)
    return () if item is None else (item,)


Convention = Literal["pascal", "camel"]
"""`order_id` as `OrderId`, as .NET's properties are called, or as `orderId`."""


class Names(NamedTuple):
    """The naming of fields: by a convention (None: as in Python), and whether case counts when reading.

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

    def of(self, field: Field) -> str:
        """Return a field's name in a body: the class's own, or one by the convention."""
        return self.written(field.attribute) if field.own is None else field.own

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
