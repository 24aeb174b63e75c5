"""JSON Schemas of message classes, in the form in which the JSON serializer writes and reads them.

Dataclasses, structs, pydantic models, TypedDicts and NamedTuples alike: names by their conventions, decimals as
numbers, spans as .NET's text, bytes in Base64. Constraints are msgspec's and pydantic's own.

Invariant: a body that Rowbus writes fits the schema of its class; the same class has the same schema in each process.
"""

from __future__ import annotations

from enum import Enum, Flag
from typing import TYPE_CHECKING, Any, Final, get_origin

import msgspec
from msgspec import inspect

from rowbus.contracts.contract import ANYTHING, component_key, free_name, reference_to
from rowbus.messages.bodies.plain import plain
from rowbus.messages.bodies.shape import (
    Field,
    Names,
    OpenEnum,
    class_of,
    fields_of,
    is_model,
    is_struct,
    parts_of,
    root_of,
    type_of,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from rowbus.contracts.contract import Schema

_LEAVES: Final[dict[type, dict[str, Any]]] = {
    inspect.NoneType: {"type": "null"},
    inspect.BoolType: {"type": "boolean"},
    inspect.IntType: {"type": "integer"},
    inspect.FloatType: {"type": "number", "format": "double"},
    inspect.DecimalType: {"type": "number", "format": "decimal"},
    inspect.StrType: {"type": "string"},
    inspect.BytesType: {"type": "string", "contentEncoding": "base64"},
    inspect.ByteArrayType: {"type": "string", "contentEncoding": "base64"},
    inspect.DateTimeType: {"type": "string", "format": "date-time"},
    inspect.DateType: {"type": "string", "format": "date"},
    inspect.TimeType: {"type": "string", "format": "time"},
    inspect.TimeDeltaType: {"type": "string", "format": "time-span"},
    inspect.UUIDType: {"type": "string", "format": "uuid"},
}
_LISTS: Final = (inspect.ListType, inspect.VarTupleType, inspect.CollectionType)
_SETS: Final = (inspect.SetType, inspect.FrozenSetType)
BOUNDS: Final = {
    "ge": "minimum",
    "le": "maximum",
    "gt": "exclusiveMinimum",
    "lt": "exclusiveMaximum",
    "multiple_of": "multipleOf",
    "min_length": "minLength",
    "max_length": "maxLength",
    "pattern": "pattern",
}
LENGTHS: Final = {"min_length": "minItems", "max_length": "maxItems"}
_SIZES: Final = {"min_length": "minProperties", "max_length": "maxProperties"}
_OF_PYDANTIC: Final = (*BOUNDS.values(), *LENGTHS.values())
_EMPTY: Final[tuple[Any, ...]] = (list, dict, set, frozenset, tuple)
OMITS: Final = "x-omits-defaults"
"""In the schema of a class whose writers leave out fields that have their defaults."""
TAG: Final = "x-tag"
"""In the schema of a field that a struct writes by itself, by which it is told from others in a union."""
TIME_SPAN: Final = "time-span"
"""The format of spans, which .NET writes as `1.02:03:04.5`."""


class Schemas:
    """The schemas of classes, each by its name; a class within several is there once."""

    def __init__(self) -> None:
        """Begin with none."""
        self.found: dict[str, Schema] = {}
        self._keys: dict[tuple[Any, Names], str] = {}

    def of_message(self, name: str, kind: Any, names: Names) -> Schema:  # noqa: ANN401 - any annotation of a handler
        """Return what refers to a message's schema, under its name on the wire; anything, for dicts and bytes."""
        if not (is_struct(kind) or is_model(kind) or hasattr(kind, "__dataclass_fields__")):
            return ANYTHING
        known = self._keys.setdefault((kind, names), self._free(name))
        if known not in self.found:
            self._note(known, kind, names)
        return reference_to(known)

    def of(self, found: inspect.Type, names: Names) -> Schema:
        """Return the schema of a type."""
        kind = class_of(found) or _keyed(found)
        if kind is not None:
            return self._reference(kind, names)
        if isinstance(found, inspect.EnumType):
            return self._reference(found.cls, names)
        leaf = _LEAVES.get(type(found))
        if leaf is not None:
            return leaf | _bounds(found, BOUNDS)
        make = _COMPOSED.get(type(found))
        return ANYTHING if make is None else make(self, found, names)

    def _reference(self, kind: Any, names: Names) -> Schema:  # noqa: ANN401 - a class
        key = self._keys.get((kind, names))
        if key is None:
            key = self._keys[kind, names] = self._free(_short_name(kind))
            self._note(key, kind, names)
        return reference_to(key)

    def _free(self, name: str) -> str:
        """Return a key that no other class has."""
        return free_name(component_key(name), self._keys.values())

    def _note(self, key: str, kind: Any, names: Names) -> None:  # noqa: ANN401 - a class
        self.found[key] = ANYTHING  # a class may hold itself
        self.found[key] = _enum(kind) if _is_enum(kind) else self._class(kind, names)

    def _class(self, kind: Any, names: Names) -> Schema:  # noqa: ANN401 - a class
        root = root_of(kind)
        if root is not None:
            return self.of(root, names)
        found = type_of(kind)
        fields = fields_of(kind) or ()
        if isinstance(found, inspect.NamedTupleType) or getattr(found, "array_like", False):
            return _fixed([*_tag(found).values(), *(self.of(field.type, names) for field in fields)])
        limits = _limits_of_model(kind)
        properties = {
            names.of(field): {
                **self.of(field.type, names),
                **limits.get(field.attribute, {}),
                **_default(field, names),
            }
            for field in fields
        }
        schema: dict[str, Any] = {"type": "object", "properties": {**_tag(found), **properties}}
        required = [names.of(field) for field in fields if field.is_required]
        if required:
            schema["required"] = required
        if getattr(getattr(kind, "__struct_config__", None), "omit_defaults", False):
            schema[OMITS] = True
        if _forbids_others(kind, found):
            schema["additionalProperties"] = False
        return schema

    def listed(self, found: Any, names: Names) -> Schema:  # noqa: ANN401 - a type with items
        """Return the schema of a list, or of a set."""
        unique = {"uniqueItems": True} if isinstance(found, _SETS) else {}
        items = self.of(found.item_type, names)
        return {"type": "array", "items": items, **unique, **_bounds(found, LENGTHS)}

    def tuple(self, found: inspect.Type, names: Names) -> Schema:
        """Return the schema of a tuple of so many items."""
        return _fixed([self.of(part, names) for part in parts_of(found)])

    def mapping(self, found: inspect.DictType, names: Names) -> Schema:
        """Return the schema of a dictionary, whose keys are text in JSON."""
        key = self.of(found.key_type, names)
        form = {} if key in ({"type": "string"}, ANYTHING) else {"propertyNames": _as_text(key)}
        values = self.of(found.value_type, names)
        return {"type": "object", "additionalProperties": values, **form, **_bounds(found, _SIZES)}

    def union(self, found: inspect.UnionType, names: Names) -> Schema:
        """Return the schema of a union, of which one member may be null."""
        members = [self.of(one, names) for one in found.types]
        return members[0] if len(members) == 1 else {"anyOf": sorted(members, key=_is_null)}

    def literal(self, found: inspect.LiteralType, names: Names) -> Schema:  # noqa: ARG002 - as the others
        """Return the schema of a choice of values."""
        return {"enum": sorted(found.values, key=lambda value: (str(type(value)), value))}

    def custom(self, found: inspect.CustomType, names: Names) -> Schema:  # noqa: ARG002 - as the others
        """Return what pydantic says of a type that it alone knows."""
        try:
            from pydantic import TypeAdapter  # noqa: PLC0415 - without pydantic nobody has such a type

            made: dict[str, Any] = TypeAdapter(found.cls).json_schema(mode="serialization")
        except Exception:  # noqa: BLE001 - whatever a class of a stranger's raises there
            return ANYTHING
        return ANYTHING if "$defs" in made else made


_COMPOSED: Final[dict[type, Callable[[Schemas, Any, Names], Schema]]] = {
    **dict.fromkeys((*_LISTS, *_SETS), Schemas.listed),
    inspect.TupleType: Schemas.tuple,
    inspect.DictType: Schemas.mapping,
    inspect.UnionType: Schemas.union,
    inspect.LiteralType: Schemas.literal,
    inspect.CustomType: Schemas.custom,
}


def _keyed(found: inspect.Type) -> Any:  # noqa: ANN401 - a class
    return found.cls if isinstance(found, (inspect.TypedDictType, inspect.NamedTupleType)) else None


def _short_name(kind: Any) -> str:  # noqa: ANN401 - a class, or a generic one with its arguments
    origin = get_origin(kind)
    text = str(kind).rpartition(".")[2] if origin else kind.__name__
    return f"{origin.__name__}_{text.partition('[')[2]}" if origin else text


def _is_null(schema: Schema) -> bool:
    return schema == {"type": "null"}


def _fixed(items: list[Schema]) -> Schema:
    return {"type": "array", "items": items, "minItems": len(items), "maxItems": len(items)}


def _as_text(key: Schema) -> Schema:
    """Return the schema of a key, which is text, whatever it stands for."""
    if key.get("type") not in {"integer", "number"}:
        return key
    return {"format": key.get("format", key["type"])}


def _bounds(found: inspect.Type, names: Mapping[str, str]) -> dict[str, Any]:
    return {
        keyword: bound
        for attribute, keyword in names.items()
        if (bound := getattr(found, attribute, None)) is not None
    }


def _tag(found: inspect.Type) -> dict[str, Any]:
    tag = getattr(found, "tag", None)
    return {} if tag is None else {getattr(found, "tag_field", None) or "type": {"enum": [tag], TAG: True}}


def _forbids_others(kind: Any, found: inspect.Type) -> bool:  # noqa: ANN401 - a class
    if is_model(kind):
        return bool(kind.model_config.get("extra") == "forbid")
    return bool(getattr(found, "forbid_unknown_fields", False))


def _is_enum(kind: object) -> bool:
    return isinstance(kind, type) and issubclass(kind, Enum)


def _enum(kind: type[Enum]) -> Schema:
    """Return the schema of an enum by its values, with its names; of flags, and of an open one, any number."""
    members = {name: member.value for name, member in kind.__members__.items()}
    named = {"x-enum-varnames": list(members)}
    if issubclass(kind, (Flag, OpenEnum)):
        form = "flags" if issubclass(kind, Flag) else "open-enum"
        return {"type": "integer", "format": form, "x-enum-values": list(members.values()), **named}
    return {"enum": list(members.values()), **named}


def _default(field: Field, names: Names) -> dict[str, Any]:
    """Return the default of a field as a body has it; none of one that is made anew, which may differ each time."""
    if field.is_required or (callable(field.default) and field.default not in _EMPTY):
        return {}
    value: object = field.default() if callable(field.default) else field.default
    try:
        return {"default": msgspec.json.decode(_encode(plain(value, names)))}
    except (TypeError, ValueError, NotImplementedError):
        return {}


_encode: Final = msgspec.json.Encoder(decimal_format="number").encode


def _limits_of_model(kind: Any) -> dict[str, dict[str, Any]]:  # noqa: ANN401 - pydantic is not imported
    """Return what pydantic says about the values of a model's fields: bounds, lengths, patterns."""
    if not is_model(kind):
        return {}
    try:
        known: dict[str, dict[str, Any]] = kind.model_json_schema(by_alias=False).get("properties", {})
    except Exception:  # noqa: BLE001 - pydantic has no schema of some classes that it reads
        return {}
    return {name: {word: said[word] for word in _OF_PYDANTIC if word in said} for name, said in known.items()}
