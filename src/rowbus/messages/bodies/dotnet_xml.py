"""XML as NServiceBus's XmlSerializer writes and reads it (not the XmlSerializer of the framework).

The root is named as the class, in a namespace made of its .NET namespace; each field is an element; what is None is
left out. Type names, namespaces and attributes but `nil` are not looked at when reading.

Invariant: a body is data; a document type declaration is refused, so no entity is ever expanded.
Reading takes time linear in the text's length; `value_text` writes, in the forms of .NET's XmlConvert, what .NET reads
to the same value; a half of a surrogate pair, or a control, is refused.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Callable
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum, Flag
from typing import Any, Final
from uuid import UUID
from xml.etree.ElementTree import Element, TreeBuilder
from xml.parsers import expat
from xml.sax.saxutils import escape, quoteattr

import msgspec
from msgspec import inspect

from rowbus.messages.bodies.fit import Fit, enum_value, made_by_pydantic
from rowbus.messages.bodies.json_bodies import NAMES
from rowbus.messages.bodies.readability import refuse_unreadable
from rowbus.messages.bodies.serializer import Read
from rowbus.messages.bodies.shape import (
    Convention,
    Field,
    Names,
    checked_convention,
    class_of,
    fields_of,
    is_items,
    is_mapping,
    is_model,
    kind_of,
    parts_of,
    root_of,
    type_of,
)

MOST_NESTED: Final = 200
_NAMESPACE: Final = "}"


def parse(body: bytes) -> Element:
    """Return the message's element, names without their namespaces; raises ValueError for what is no such XML.

    That is the root, or what is in a root `Messages`, in which NServiceBus reads several messages.
    """
    builder = TreeBuilder()
    depth = 0

    def start(name: str, attributes: dict[str, str]) -> None:
        nonlocal depth
        depth += 1
        if depth > MOST_NESTED:
            raise ValueError(f"its elements are nested more than {MOST_NESTED} deep")
        builder.start(_local(name), {_local(key): value for key, value in attributes.items()})

    def end(name: str) -> None:
        nonlocal depth
        depth -= 1
        builder.end(_local(name))

    def refuse(*_: object) -> None:
        raise ValueError("it has a document type declaration, which is never read")

    parser = expat.ParserCreate(namespace_separator=_NAMESPACE)
    parser.buffer_text = True
    parser.StartElementHandler = start
    parser.EndElementHandler = end
    parser.CharacterDataHandler = builder.data
    parser.StartDoctypeDeclHandler = refuse
    try:
        parser.Parse(body, True)  # noqa: FBT003 - expat's: this is all
    except expat.ExpatError as error:
        raise ValueError(f"it is no XML: {error}") from None
    return _message(builder.close())


def _message(root: Element) -> Element:
    if root.tag.lower() != "messages":
        return root
    if len(root) != 1:
        raise ValueError(f"it has {len(root)} messages, and can be one only")
    return root[0]


def _local(name: str) -> str:
    return name.rpartition(_NAMESPACE)[2]


_IMPOSSIBLE: Final = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")
_ZEROS: Final = re.compile(r"(\.[0-9]*?)0+(?=[^0-9]|$)")
_NAMED: Final = {"nan": "NaN", "inf": "INF", "-inf": "-INF"}


def value_text(value: object) -> str:
    """Return a value as text; raises ValueError for what is no single value, or no text of XML."""
    for kinds, form in _FORMS:
        if isinstance(value, kinds):
            return form(value)
    raise ValueError(f"a {type(value).__name__} has no form in XML")


def _characters(text: str) -> str:
    found = _IMPOSSIBLE.search(text)
    if found:
        raise ValueError(f"XML cannot hold the character U+{ord(found[0]):04X}")
    return text


def _enum(value: Enum) -> str:
    if isinstance(value, Flag):
        members = [member.name for member in type(value) if member.value and member in value]
        return ", ".join(filter(None, members)) or str(value.value)
    return value.name if value.name in type(value).__members__ else str(value.value)


def _span(span: timedelta) -> str:
    """Return ISO 8601 as .NET writes it: `P1DT2H3M4S`, `PT0S`, `-PT1M30S`, `PT1.5S`."""
    size = abs(span)
    minutes, seconds = divmod(size.seconds, 60)
    hours, minutes = divmod(minutes, 60)
    fraction = f".{size.microseconds:06d}".rstrip("0").rstrip(".")
    day = f"{size.days}D" if size.days else ""
    clock = "".join(f"{number}{unit}" for number, unit in ((hours, "H"), (minutes, "M")) if number)
    if seconds or fraction or not (day or clock):
        clock += f"{seconds}{fraction}S"
    return f"{'-' if span < timedelta() else ''}P{day}{'T' if clock else ''}{clock}"


def _moment(moment: date | time) -> str:
    text = _ZEROS.sub(lambda found: "" if found[1] == "." else found[1], moment.isoformat())
    if isinstance(moment, datetime) and moment.tzinfo is not None and moment.utcoffset() == timedelta():
        return text.removesuffix("+00:00") + "Z"
    return text


def _real(number: float) -> str:
    text = repr(number)
    return _NAMED.get(text, text.removesuffix(".0").replace("e", "E"))


def _decimal(number: Decimal) -> str:
    if not number.is_finite():
        raise ValueError(f"{number} is no number that a decimal of .NET can hold")
    return format(number, "f")


def _boolean(value: object) -> str:
    return "true" if value else "false"


def _base64(value: bytes) -> str:
    return base64.b64encode(value).decode()


_FORMS: Final[
    tuple[tuple[Any, Callable[[Any], str]], ...]
] = (  # an enum may be a str or an int, a bool is an int
    (Enum, _enum),
    (str, _characters),
    (bool, _boolean),
    ((int, UUID), str),
    (float, _real),
    (Decimal, _decimal),
    (timedelta, _span),
    ((date, time), _moment),
    ((bytes, bytearray), _base64),
)


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
_KEPT: Final = {"\r": "&#13;"}  # which a parser would read as a line feed
_NOT_OF_NAMES: Final = re.compile(r"[^\w.-]")
_NUMBER: Final = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)")
_INTEGER: Final = re.compile("[+-]?[0-9]{1,40}")
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
        content = _content(message if root_of(kind) is None else vars(message)["root"], self.names_of(kind))
        return f'<?xml version="1.0"?><{root}{_SCHEMAS}{bases} xmlns={own}>{content}</{root}>'.encode()

    def reader(self, kind: type, /) -> Read:
        """Return what reads bodies as a dataclass, struct, pydantic model or dict (of text)."""
        names = self.names_of(kind)
        refuse_unreadable(kind, names, xml=True)
        fit = _Elements(names)
        if is_model(kind):
            model: Any = kind
            return lambda body: model.model_validate(fit.value(parse(body), inspect.CustomType(kind)))
        target: Any = dict[str, Any] if kind is dict else kind
        to = type_of(target)
        return lambda body: msgspec.convert(
            fit.value(parse(body), to), target, strict=False, str_keys=True, dec_hook=made_by_pydantic
        )

    def names_of(self, kind: type) -> Names:
        """Return how a class's fields are named: as it declares, else as the serializer does."""
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
        return "".join(_element(_item_name(item), item, names) for item in value)
    kind: type = kind_of(value)
    fields = None if isinstance(value, Enum) else fields_of(kind)
    if fields is None:
        return escape(value_text(value), _KEPT)
    return "".join(_field(field, getattr(value, field.attribute, None), names) for field in fields)


def _field(field: Field, value: Any, names: Names) -> str:  # noqa: ANN401
    """Return a field's element; None is left out where it reads as None, as .NET does."""
    if value is msgspec.UNSET or (
        value is None and field.default is None and not _is_optional_value(field.type)
    ):
        return ""
    return _element(names.of(field), value, names)


def _element(name: str, value: Any, names: Names) -> str:  # noqa: ANN401
    while root_of(kind_of(value)) is not None:
        value = value.root
    if value is None:
        return f'<{name} xsi:nil="true"></{name}>'
    return f"<{name}>{_content(value, names)}</{name}>"


def _pair(key: object, value: object, names: Names) -> str:
    name = f"NServiceBus.KeyValuePairOf{_item_name(key)}And{_item_name(value)}"
    return f"<{name}>{_element('Key', key, names)}{_element('Value', value, names)}</{name}>"


def _item_name(value: Any) -> str:  # noqa: ANN401
    if isinstance(value, int) and not isinstance(value, (bool, Enum)):
        return "Int32" if value in _INT32 else "Int64"
    kind: type = kind_of(value)
    return _DOTNET_NAMES.get(kind) or _NOT_OF_NAMES.sub("_", kind.__name__)


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
            root = root_of(kind)
            return self._fields(element, kind) if root is None else self.value(element, root)
        if isinstance(to, _ITEMS):
            return self._fit.listed((self.value(item, to.item_type) for item in element), to)
        if isinstance(to, (inspect.TupleType, inspect.NamedTupleType)):
            return self._tuple(element, to)
        if isinstance(to, inspect.DictType):
            return self._mapping(element, to)
        if isinstance(to, inspect.AnyType) and len(element):
            return self._anything(element)
        if len(element):
            raise ValueError(f"{element.tag} holds elements, not a value")
        return self._leaf(element.text or "", to)

    def _fields(self, element: Element, kind: type) -> dict[str, Any]:
        fields = fields_of(kind) or ()
        known = {self._names.of(field): field for field in fields}
        absent = {field.name: None for field in fields if field.is_required and _may_be_none(field.type)}
        return absent | {
            known[item.tag].name: self.value(item, known[item.tag].type)
            for item in element
            if item.tag in known
        }

    def _tuple(self, element: Element, to: Any) -> tuple[Any, ...]:  # noqa: ANN401
        types = parts_of(to)
        return tuple(self.value(item, kind) for item, kind in zip(element, types, strict=True))

    def _mapping(self, element: Element, to: inspect.DictType) -> dict[Any, Any]:
        pairs = [(item.find("Key"), item.find("Value")) for item in element]
        if not all(key is not None for key, _ in pairs):  # a message read as a dict: its fields
            return {item.tag: self.value(item, to.value_type) for item in element}
        return {
            self.value(key, to.key_type): None if item is None else self.value(item, to.value_type)
            for key, item in pairs
            if key is not None
        }

    def _anything(self, element: Element) -> dict[str, Any]:
        return {item.tag: self.value(item, inspect.AnyType()) for item in element}

    def _leaf(self, text: str, to: inspect.Type) -> Any:  # noqa: ANN401
        read = _READERS.get(type(to))
        if read is not None:
            return read(text)
        if isinstance(to, inspect.EnumType):
            return _member(text, to.cls)
        if isinstance(to, inspect.LiteralType):
            return next((value for value in to.values if str(value) == text), text)
        return self._fit(text, to)


def _whole(text: str) -> int | str:
    found = _number_text(text)
    return int(found) if _INTEGER.fullmatch(found) else found


def _truth(text: str) -> bool | str:
    return _TRUTHS.get(text.strip(), text)


_TRUTHS: Final = {"true": True, "1": True, "false": False, "0": False}
_READERS: Final[dict[type, Callable[[str], Any]]] = {
    inspect.FloatType: float,
    inspect.IntType: _whole,
    inspect.DecimalType: lambda text: Decimal(_number_text(text)),
    inspect.BoolType: _truth,
}


def _member(text: str, kind: type[Enum]) -> Any:  # noqa: ANN401 - a member, or what is none
    """Return the member that a text names, by its name or its value; else what the text is."""
    named = kind.__members__.get(text)
    found = enum_value(text, kind) if named is None else named.value
    is_number = found not in kind._value2member_map_ and _INTEGER.fullmatch(str(found))
    value = int(found) if is_number else found
    try:
        return kind(value)
    except ValueError:
        return value


def _may_be_none(to: inspect.Type) -> bool:
    return any(isinstance(one, inspect.NoneType) for one in (to, *getattr(to, "types", ())))
