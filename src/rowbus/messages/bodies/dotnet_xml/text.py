"""Single values as the text of XML elements, in the forms of .NET's XmlConvert.

Invariant: `value_text` writes what .NET reads to the same value; a half of a surrogate pair, or a control, is refused.
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
