"""XML text: elements and nothing else that XML may hold, and single values in the forms of .NET's XmlConvert.

Invariants: reading takes time linear in the text's length; a document type declaration is refused where it begins;
`value_text` writes what .NET reads to the same value; a half of a surrogate pair, or a control, is refused.
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
