"""Classes whose bodies could not be read back as they were written: refused before the first message.

Invariant: what is not refused here is read as it was written; a refusal names the field and what to do.
"""

from __future__ import annotations

import dataclasses
from itertools import combinations
from typing import Any, Final, Literal, get_origin

from msgspec import inspect

from rowbus.errors import ConfigurationError
from rowbus.messages.bodies.shape import (
    ANYTHING,
    Field,
    Names,
    class_of,
    fields_of,
    is_model,
    is_struct,
    parts_of,
    root_of,
    type_of,
)

Library = Literal["msgspec", "pydantic", "strict"]
"""The maker of an object: msgspec, or pydantic, by a strict model or another."""

_KEYS: Final = (
    inspect.AnyType,
    inspect.StrType,
    inspect.IntType,
    inspect.FloatType,
    inspect.DecimalType,
    inspect.UUIDType,
    inspect.DateTimeType,
    inspect.DateType,
    inspect.TimeType,
    inspect.TimeDeltaType,
    inspect.EnumType,
    inspect.LiteralType,
)
_FORMS: Final[dict[type, frozenset[str]]] = {
    inspect.BoolType: frozenset({"bool"}),
    inspect.IntType: frozenset({"int"}),
    inspect.FloatType: frozenset({"float"}),
    inspect.DecimalType: frozenset({"int", "float", "text"}),
    inspect.NoneType: frozenset(),
    inspect.DictType: frozenset({"object"}),
    inspect.TypedDictType: frozenset({"object"}),
}
_TEXT: Final = (
    inspect.StrType,
    inspect.BytesType,
    inspect.DateTimeType,
    inspect.DateType,
    inspect.TimeType,
    inspect.TimeDeltaType,
    inspect.UUIDType,
)


def refuse_unreadable(kind: Any, names: Names, *, xml: bool = False) -> None:  # noqa: ANN401 - any annotation
    """Raise ConfigurationError for a type that no body can be read as, or not as it was written."""
    if kind is object or dict in {kind, get_origin(kind)}:
        return
    if not (dataclasses.is_dataclass(kind) or is_struct(kind) or is_model(kind)):
        raise ConfigurationError(
            f"A handler's message must be a dataclass, a msgspec.Struct, a pydantic model, dict or bytes, not {kind!r}."
        )
    _Check(kind, names, xml=xml).look(type_of(kind), "", "msgspec")
    try:
        inspect.type_info(kind)
    except TypeError as error:
        raise ConfigurationError(f"{getattr(kind, '__name__', kind)} cannot be read: {error}") from None


class _Check:
    """A walk through the types that a class holds, each with the library that reads it."""

    def __init__(self, kind: Any, names: Names, *, xml: bool) -> None:  # noqa: ANN401
        self._kind = kind
        self._names = names
        self._xml = xml
        self._seen: set[tuple[type, Library]] = set()

    def look(self, to: inspect.Type, path: str, library: Library) -> None:
        """Raise ConfigurationError for what is unreadable in a type, which is found by a path of fields."""
        reason = self._reason(to, library)
        if reason is not None:
            raise ConfigurationError(f"{self._kind.__name__}.{path} {reason}.")
        kind = class_of(to) or (to.cls if isinstance(to, inspect.TypedDictType) else None)
        if kind is None:
            for part in parts_of(to):
                self.look(part, path, library)
        elif (kind, library) not in self._seen:
            self._seen.add((kind, library))
            self._look_within(kind, path, _library_of(kind, library))

    def _look_within(self, kind: type, path: str, library: Library) -> None:
        for field in fields_of(kind) or ():
            within = f"{path}.{field.attribute}" if path else field.attribute
            if is_model(kind) and (field.own or field.attribute) not in field.names:
                raise ConfigurationError(
                    f"{self._kind.__name__}.{within} is written as {field.own or field.attribute!r} and read as "
                    f"{' or '.join(field.names) or 'none'}: give it one alias, or the model populate_by_name."
                )
            self.look(field.type, within, library)

    def _reason(self, to: inspect.Type, library: Library) -> str | None:  # noqa: PLR0911 - one answer for each
        if to is ANYTHING and library == "msgspec":
            return "has a type that msgspec cannot read: give it another, or make the class a pydantic model"
        if isinstance(to, inspect.CustomType) and not is_model(to.cls):
            return self._reason_of_custom(to.cls, library)
        if isinstance(to, inspect.StructType) and library != "msgspec":
            return "is a msgspec.Struct in a pydantic model, which cannot read it: make it a model, or a dataclass"
        if isinstance(to, inspect.DataclassType) and library == "strict":
            return "is a dataclass in a strict pydantic model, which takes no other than a model: make it a model"
        if isinstance(to, inspect.DictType) and not isinstance(to.key_type, _KEYS):
            return "has keys that have no text in a body: give it keys of str"
        if isinstance(to, inspect.UnionType):
            return self._reason_of_union(to, library)
        return self._reason_in_xml(to) if self._xml else None

    def _reason_of_custom(self, kind: type, library: Library) -> str | None:
        if hasattr(kind, "get_secret_value"):
            return "is a secret, which pydantic writes as asterisks: give it the type str or bytes"
        if library == "msgspec":
            return f"is a {kind.__name__}, which msgspec cannot read: make the class a pydantic model"
        return f"is a {kind.__name__}, which has no form in XML: give it the type str" if self._xml else None

    def _reason_in_xml(self, to: inspect.Type) -> str | None:
        if isinstance(to, inspect.TypedDictType):
            return "is a TypedDict, which XML cannot tell from a dictionary: make it a dataclass"
        if isinstance(to, inspect.StructType) and to.array_like:
            return "is a struct written as a list, which XML does not have"
        return None

    def _reason_of_union(self, union: inspect.UnionType, library: Library) -> str | None:
        members = [one for one in union.types if not isinstance(one, inspect.NoneType)]
        if self._xml and len(members) > 1:
            return "is a union, and XML does not say of which type a value is: give it one type, or send JSON"
        if len(members) < len(union.types) and any(_can_be_null(one) for one in members):
            return "may be None, and holds a RootModel that may be None as well: leave one of them out"
        if all(self._differ(one, other, library) for one, other in combinations(members, 2)):
            return None
        return (
            "is a union of types that look alike in a body: give it one type, structs with tags, or models that differ "
            "in a Literal field, or each in a field without a default"
        )

    def _differ(self, one: inspect.Type, other: inspect.Type, library: Library) -> bool:
        """Say whether a body's value tells a library which of two types it is of."""
        if library == "msgspec" and inspect.CustomType in {type(one), type(other)}:
            return False
        if _forms(one).isdisjoint(_forms(other)):
            return True
        if isinstance(one, inspect.LiteralType) and isinstance(other, inspect.LiteralType):
            return set(one.values).isdisjoint(other.values)
        if library == "msgspec":
            tags = [to.tag if isinstance(to, inspect.StructType) else None for to in (one, other)]
            return None not in tags and tags[0] != tags[1]
        return self._are_told_apart(one, other)

    def _are_told_apart(self, one: inspect.Type, other: inspect.Type) -> bool:
        """Say whether two classes have different literals in a field, or lack each a field that the other requires."""
        here, there = (self._written(class_of(to)) for to in (one, other))
        for name in here.keys() & there.keys():
            types = here[name].type, there[name].type
            if all(isinstance(to, inspect.LiteralType) for to in types) and self._differ(*types, "pydantic"):
                return True
        required = [{name for name, field in fields.items() if field.is_required} for fields in (here, there)]
        return bool(required[0] - there.keys()) and bool(required[1] - here.keys())

    def _written(self, kind: type | None) -> dict[str, Field]:
        if kind is None or root_of(kind) is not None:
            return {}
        return {self._names.compared(self._names.of(field)): field for field in fields_of(kind) or ()}


def _library_of(kind: Any, outer: Library) -> Library:  # noqa: ANN401 - a class within another
    if is_model(kind):
        return "strict" if kind.model_config.get("strict") else "pydantic"
    return "msgspec" if outer == "msgspec" else "pydantic"


def _can_be_null(to: inspect.Type) -> bool:
    kind = class_of(to)
    root = None if kind is None else root_of(kind)
    types = () if root is None else (root, *parts_of(root))
    return any(isinstance(one, inspect.NoneType) or _can_be_null(one) for one in types)


def _forms(to: inspect.Type) -> frozenset[str]:
    """Return the forms that a type's values have in JSON and MessagePack."""
    kind = class_of(to)
    if kind is not None:
        root = root_of(kind)
        return frozenset({"object"}) if root is None else _forms(root)
    if isinstance(to, _TEXT):
        return frozenset({"text"})
    if isinstance(to, inspect.UnionType):
        return frozenset[str]().union(*(_forms(one) for one in to.types))
    values = to.values if isinstance(to, inspect.LiteralType) else ()
    if isinstance(to, inspect.EnumType):
        values = tuple(member.value for member in to.cls)
    if values:
        return frozenset("text" if isinstance(value, str) else type(value).__name__ for value in values)
    if isinstance(to, (inspect.AnyType, inspect.CustomType)):
        return frozenset({"bool", "int", "float", "text", "object", "list"})
    return _FORMS.get(type(to), frozenset({"list"}))
