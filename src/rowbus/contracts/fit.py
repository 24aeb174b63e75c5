"""Bodies against the schemas of a contract: which field does not fit, and why.

As forgiving as the readers are: decimals as text, enums by name, fields that the schema does not know.

Invariant: pure; a body that Rowbus writes fits the schema of its class.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from datetime import date, datetime, time
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from uuid import UUID

import msgspec

from rowbus.contracts.schemas import TIME_SPAN
from rowbus.errors import InvalidTimestampError
from rowbus.messages.bodies.fit import SEVENTH_DIGIT
from rowbus.messages.bodies.shape import is_list, is_object
from rowbus.messages.timestamps import parse_time_span

if TYPE_CHECKING:
    from rowbus.contracts.contract import Contract, Schema

_BODY: Final = "the body"


class Misfit(NamedTuple):
    """A part of a body that does not fit: where, as `lines[0].price`, and why."""

    path: str
    reason: str

    def __str__(self) -> str:
        """Give it as a clause."""
        return f"`{self.path}` {self.reason}" if self.path else f"{_BODY} {self.reason}"


def misfits(contract: Contract, name: str, value: object) -> list[Misfit]:
    """Return what does not fit in a decoded body of the message of this name; nothing, for one that is not known."""
    message = contract.message(name)
    return [] if message is None else list(_Fitting(contract).of(value, message.payload, ""))


class _Fitting:
    """A comparison of values with schemas that may refer to a contract's."""

    def __init__(self, contract: Contract) -> None:
        self._contract = contract

    def of(self, value: Any, schema: Schema, path: str) -> Iterator[Misfit]:  # noqa: ANN401 - any value of a body
        """Give what does not fit."""
        schema = self._contract.resolved(schema)
        choices = schema.get("anyOf") or schema.get("oneOf")
        if choices:
            tried = [list(self.of(value, one, path)) for one in choices]
            if all(tried):
                yield min(tried, key=_depth)[0] if len(tried) <= 2 else Misfit(path, "fits no choice")  # noqa: PLR2004 - null and one
            return
        for one in schema.get("allOf", ()):
            yield from self.of(value, one, path)
        reason = reason_against(value, schema)
        if reason is not None:
            yield Misfit(path, reason)
        elif is_object(value):
            yield from self._fields(value, schema, path)
        elif is_list(value):
            yield from self._items(value, schema, path)

    def _fields(self, value: dict[str, Any], schema: Schema, path: str) -> Iterator[Misfit]:
        known = schema.get("properties", {})
        others = schema.get("additionalProperties", True)
        for name in schema.get("required", ()):
            if name not in value:
                yield Misfit(within(path, name), "is required")
        for name, item in value.items():
            if name in known:
                yield from self.of(item, known[name], within(path, name))
            elif others is False:
                yield Misfit(within(path, name), "is not known, and none but known fields are read")
            elif is_object(others):
                yield from self.of(item, others, within(path, name))

    def _items(self, value: list[Any], schema: Schema, path: str) -> Iterator[Misfit]:
        items = schema.get("items", {})
        several = items if is_list(items) else [items] * len(value)
        for number, (item, one) in enumerate(zip(value, several, strict=False)):
            yield from self.of(item, one, f"{path}[{number}]")


def _depth(found: list[Misfit]) -> tuple[int, int]:
    return (-len(found[0].path), len(found))


def within(path: str, name: str) -> str:
    """Return the path of a field."""
    return f"{path}.{name}" if path else name


def reason_against(value: Any, schema: Schema) -> str | None:  # noqa: ANN401
    """Say why a value itself does not fit; None: it does."""
    if "enum" in schema and value not in schema["enum"] and value not in schema.get("x-enum-varnames", ()):
        return f"is {shown(value)}, and none of {', '.join(map(shown, schema['enum']))}"
    if "const" in schema and value != schema["const"]:
        return f"is {shown(value)}, and not {shown(schema['const'])}"
    form = str(schema.get("format", ""))
    wanted = schema.get("type")
    kinds = wanted if is_list(wanted) else [wanted]
    if wanted is not None and not any(_IS[kind](value, form) for kind in kinds if kind in _IS):
        return f"is {shown(value)}, and has to be {_called(kinds, form)}"
    if isinstance(value, str) and not is_of_form(value, form):
        return f"is {shown(value)}, and has to be {_called(kinds, form)}"
    return next(
        (
            f"is {shown(value)}, and breaks {word} {schema[word]}"
            for word, holds in _RULES.items()
            if word in schema and not holds(value, schema[word])
        ),
        None,
    )


def shown(value: object) -> str:
    """Return a value as a sentence shows it: JSON, cut where it is long."""
    text = msgspec.json.encode(value).decode()
    return text if len(text) <= 40 else f"{text[:40]}…"  # noqa: PLR2004 - characters, in a sentence


def _called(kinds: list[Any], form: str) -> str:
    told = " or ".join(str(kind) for kind in kinds if kind is not None)
    return f"{told} ({form})" if form else told


def _is_number(value: object, form: str) -> bool:
    if isinstance(value, str):
        return form == "decimal" and _is_decimal(value)
    return isinstance(value, (int, float, Decimal)) and not isinstance(value, bool)


def _is_decimal(text: str) -> bool:
    try:
        return Decimal(text).is_finite()
    except ArithmeticError:
        return False


def _is_integer(value: object, form: str) -> bool:
    if form == "flags" and isinstance(value, str):
        return True  # names of flags
    return isinstance(value, int | float) and not isinstance(value, bool) and int(value) == value


_IS: Final[dict[str, Callable[[Any, str], bool]]] = {
    "null": lambda value, _: value is None,
    "boolean": lambda value, _: isinstance(value, bool),
    "integer": _is_integer,
    "number": _is_number,
    "string": lambda value, _: isinstance(value, str),
    "array": lambda value, _: is_list(value),
    "object": lambda value, _: is_object(value),
}
_RULES: Final[dict[str, Callable[[Any, Any], bool]]] = {
    "minimum": lambda value, bound: not _is_number(value, "") or value >= bound,
    "maximum": lambda value, bound: not _is_number(value, "") or value <= bound,
    "exclusiveMinimum": lambda value, bound: not _is_number(value, "") or value > bound,
    "exclusiveMaximum": lambda value, bound: not _is_number(value, "") or value < bound,
    "minLength": lambda value, bound: not isinstance(value, str) or len(value) >= bound,
    "maxLength": lambda value, bound: not isinstance(value, str) or len(value) <= bound,
    "pattern": lambda value, form: not isinstance(value, str) or re.search(form, value) is not None,
    "minItems": lambda value, bound: not is_list(value) or len(value) >= bound,
    "maxItems": lambda value, bound: not is_list(value) or len(value) <= bound,
}
_FORMS: Final[dict[str, type]] = {"uuid": UUID, "date-time": datetime, "date": date, "time": time}


def is_of_form(text: str, form: str) -> bool:
    """Say whether a text is what a format names, as readers read it; each is, of a format that is not known."""
    if form == TIME_SPAN:
        return _is_time_span(text)
    if form not in _FORMS:
        return True
    try:
        msgspec.convert(SEVENTH_DIGIT.sub(r"\1", text), _FORMS[form])
    except msgspec.ValidationError:
        return False
    return True


def _is_time_span(text: str) -> bool:
    """Say whether a text is a span, as .NET writes it or in ISO 8601."""
    try:
        parse_time_span(text)
    except InvalidTimestampError:
        return text.lstrip("-+").startswith("P")
    return True
