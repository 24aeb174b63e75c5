"""XML as NServiceBus's XmlSerializer writes and reads it (not the XmlSerializer of the framework).

The root is named as the class, in a namespace made of its .NET namespace; each field is an element; what is None is
left out. Type names, namespaces and attributes but `nil` are not looked at when reading.

Invariant: a body is data; a document type declaration is refused, so no entity is ever expanded.
"""

from __future__ import annotations

import re
from decimal import Decimal
from enum import Enum
from typing import Any, Final
from uuid import UUID
from xml.etree.ElementTree import Element
from xml.sax.saxutils import escape, quoteattr

import msgspec
from msgspec import inspect

from rowbus.messages.bodies.fit import Fit
from rowbus.messages.bodies.json_bodies import NAMES, refuse_unreadable
from rowbus.messages.bodies.serializer import Read
from rowbus.messages.bodies.shape import (
    Convention,
    Names,
    checked_convention,
    class_of,
    fields_of,
    is_items,
    is_mapping,
    is_model,
    kind_of,
    type_of,
)
from rowbus.messages.bodies.xml_text import parse, value_text

XML: Final = "text/xml"
_SCHEMAS: Final = (
    ' xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance" xmlns:xsd="http://www.w3.org/2001/XMLSchema"'
)
_ITEMS: Final = (
    inspect.ListType,
    inspect.SetType,
    inspect.FrozenSetType,
    inspect.VarTupleType,
    inspect.CollectionType,
)
_DOTNET_NAMES: Final[dict[type, str]] = {
    bool: "Boolean",
    str: "String",
    float: "Double",
    Decimal: "Decimal",
    UUID: "Guid",
}
_NOT_OF_NAMES: Final = re.compile(r"[^\w.-]")
_NUMBER: Final = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)")
_INT32: Final = range(-(2**31), 2**31)


class Xml:
    """XML bodies, as NServiceBus's XmlSerializer reads and writes them: a serializer.

    `namespace` is the one .NET is configured with. `rename` names fields by a convention, as in `Json`.
    """

    content_types = (XML, "application/xml")

    def __init__(self, *, namespace: str = "http://tempuri.net", rename: Convention | None = None) -> None:
        """Take the namespace and the names' convention. Raises ConfigurationError for another convention."""
        checked_convention(rename)
        self._namespace = namespace.rstrip("/")
        self._names = Names(rename)

    def write(self, message: object, types: tuple[str, ...], /) -> bytes:
        """Return an object as XML; raises ValueError for what XML cannot hold."""
        kind: type = type(message)
        name, parents = types[0].partition(",")[0].strip(), types[1:]
        space, _, _ = name.partition("`")[0].rpartition(".")
        bases = "".join(
            f" xmlns:baseType{number or ''}={quoteattr(parent)}" for number, parent in enumerate(parents)
        )
        root = _root_name(name)
        own = quoteattr(f"{self._namespace}/{space}")
        content = _content(message, self._names_of(kind))
        return f'<?xml version="1.0"?><{root}{_SCHEMAS}{bases} xmlns={own}>{content}</{root}>'.encode()

    def reader(self, kind: type, /) -> Read:
        """Return what reads bodies as a dataclass, struct, pydantic model or dict (of text)."""
        refuse_unreadable(kind)
        fit = _Elements(self._names_of(kind))
        if is_model(kind):
            model: Any = kind
            return lambda body: model.model_validate(fit.value(parse(body), inspect.CustomType(kind)))
        target: Any = dict[str, Any] if kind is dict else kind
        to = type_of(target)
        return lambda body: msgspec.convert(fit.value(parse(body), to), target, strict=False, str_keys=True)

    def _names_of(self, kind: type) -> Names:
        declared: Convention | None = getattr(kind, "__dict__", {}).get(NAMES)
        return self._names if declared is None else Names(declared)


# ------------------------------------------------------------------------------------------------------------- writing


def _root_name(name: str) -> str:
    """Return a type's element: its name, `EnvelopeOfLine` for a generic one of one argument."""
    plain, _, arguments = name.partition("`")
    short = re.split(r"[.+]", plain)[-1]
    inner = re.search(r"\[\[([^,\]]+)", arguments)
    return _NOT_OF_NAMES.sub("_", f"{short}Of{_root_name(inner[1])}" if inner else short)


def _content(value: Any, names: Names) -> str:  # noqa: ANN401
    """Return what stands in a value's element."""
    if is_mapping(value):
        return "".join(_pair(key, item, names) for key, item in value.items())
    if is_items(value):
        return "".join(_element(_item_name(item), _content(item, names)) for item in value)
    kind: type = kind_of(value)
    fields = None if isinstance(value, Enum) else fields_of(kind)
    if fields is None:
        return escape(value_text(value))
    written: list[str] = []
    for field in fields:
        item = getattr(value, field.attribute, None)
        name = field.name if field.is_named else names.written(field.attribute)
        if item is not None and item is not msgspec.UNSET:
            written.append(_element(name, _content(item, names)))
        elif _is_optional_value(field.type):
            written.append(f'<{name} xsi:nil="true"></{name}>')
    return "".join(written)


def _element(name: str, content: str) -> str:
    return f"<{name}>{content}</{name}>"


def _pair(key: object, value: object, names: Names) -> str:
    name = f"NServiceBus.KeyValuePairOf{_item_name(key)}And{_item_name(value)}"
    return _element(name, _element("Key", _content(key, names)) + _element("Value", _content(value, names)))


def _item_name(value: Any) -> str:  # noqa: ANN401
    if isinstance(value, int) and not isinstance(value, (bool, Enum)):
        return "Int32" if value in _INT32 else "Int64"
    kind: type = kind_of(value)
    return _DOTNET_NAMES.get(kind) or kind.__name__


def _number_text(text: str) -> str:
    """Return a number as text; raises ValueError for what Python reads as one, and XML's schema does not."""
    found = text.strip()
    if _NUMBER.fullmatch(found) is None:
        raise ValueError(f"{found!r} is no number")
    return found


def _is_optional_value(found: inspect.Type) -> bool:
    """Say whether a type is what C# writes with `?` after a value type, which is nil rather than left out."""
    if not isinstance(found, inspect.UnionType):
        return False
    return all(
        not isinstance(member, (inspect.StrType, inspect.BytesType, *_ITEMS, inspect.DictType))
        and class_of(member) is None
        for member in found.types
    )


# ------------------------------------------------------------------------------------------------------------- reading


class _Elements:
    """Elements as the values that a class takes."""

    def __init__(self, names: Names) -> None:
        self._names = names
        self._fit = Fit(names, objects=True)

    def value(self, element: Element, to: inspect.Type) -> Any:  # noqa: ANN401, PLR0911 - one answer for each kind
        if element.get("nil") == "true":
            return None
        if isinstance(to, inspect.UnionType):
            members = [member for member in to.types if not isinstance(member, inspect.NoneType)]
            return self.value(element, members[0] if len(members) == 1 else inspect.AnyType())
        kind = class_of(to)
        if kind is not None:
            return self._fields(element, kind)
        if isinstance(to, _ITEMS):
            return [self.value(item, to.item_type) for item in element]
        if isinstance(to, inspect.DictType):
            return self._mapping(element, to)
        if isinstance(to, inspect.AnyType) and len(element):
            return self._anything(element)
        if len(element):
            raise ValueError(f"{element.tag} holds elements, not a value")
        return self._leaf(element.text or "", to)

    def _fields(self, element: Element, kind: type) -> dict[str, Any]:
        known = {
            field.name if field.is_named else self._names.written(field.attribute): field
            for field in fields_of(kind) or ()
        }
        return {
            known[item.tag].name: self.value(item, known[item.tag].type)
            for item in element
            if item.tag in known
        }

    def _mapping(self, element: Element, to: inspect.DictType) -> dict[Any, Any]:
        pairs = [(item.find("Key"), item.find("Value")) for item in element]
        if not all(key is not None for key, _ in pairs):  # a message read as a dict: its fields
            return {item.tag: self.value(item, to.value_type) for item in element}
        return {
            self._key(key, to.key_type): None if item is None else self.value(item, to.value_type)
            for key, item in pairs
            if key is not None
        }

    def _key(self, key: Element, to: inspect.Type) -> Any:  # noqa: ANN401
        found = self.value(key, to)
        return found if isinstance(to, inspect.EnumType) else key.text or ""

    def _anything(self, element: Element) -> dict[str, Any]:
        return {item.tag: self.value(item, inspect.AnyType()) for item in element}

    def _leaf(self, text: str, to: inspect.Type) -> Any:  # noqa: ANN401
        if isinstance(to, inspect.FloatType):
            return float(text)
        if isinstance(to, inspect.BoolType):
            return text.strip() in {"true", "1"} if text.strip() in {"true", "false", "0", "1"} else text
        if isinstance(to, inspect.IntType | inspect.DecimalType):
            return _number_text(text)
        found = self._fit(text, to)
        return (
            int(found) if isinstance(to, inspect.EnumType) and re.fullmatch("-?[0-9]+", str(found)) else found
        )
