"""A saga's state as NServiceBus.Persistence.Sql writes it: in PascalCase, properties with .NET's defaults left out.

Source: docs/wire-format.md#saga-tables.

Invariants: what is left out reads as .NET's default, not as the class's: 0, false, an empty id, no time, None where the
class allows it. Text, lists and objects that are left out are as the class has them. What a method did not change keeps
its text, the seventh digit of a time included.
"""

from __future__ import annotations

import re
from datetime import date, time, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final, TypeVar
from uuid import UUID

import msgspec
from msgspec import inspect

from rowbus.errors import SagaStateError
from rowbus.errors.strangers import text_of
from rowbus.messages.bodies.json_bodies import Json
from rowbus.messages.bodies.plain import plain
from rowbus.messages.bodies.shape import Names, class_of, fields_of, is_list, is_object, type_of
from rowbus.messages.timestamps import format_time_span
from rowbus.sagas.state import StateForm

if TYPE_CHECKING:
    from collections.abc import Callable

    from rowbus.messages.bodies.shape import Field

S = TypeVar("S")

NAMES: Final = Names("pascal", ignore_case=True, names_floats=True)
_ABSENT: Final = object()
_ZEROS: Final[dict[type, object]] = {
    inspect.BoolType: False,
    inspect.IntType: 0,
    inspect.FloatType: 0,
    inspect.DecimalType: 0,
    inspect.UUIDType: str(UUID(int=0)),
    inspect.TimeDeltaType: format_time_span(timedelta()),
    inspect.DateType: date.min.isoformat(),
}
_FIRST: Final[dict[type, str]] = {
    inspect.DateTimeType: "0001-01-01T00:00:00",
    inspect.TimeType: time.min.isoformat(),
}
""".NET's defaults that may have an offset, without it."""
_NEVER: Final = "9999-12-31T23:59:59.999999"
_SEVENTH_DIGIT: Final = re.compile(r":[0-9]{2}\.[0-9]{6}[1-9]")
_decode: Final = msgspec.json.Decoder(float_hook=Decimal).decode
_encode: Final = msgspec.json.Encoder(decimal_format="number").encode


class NServiceBusForm(StateForm[S]):
    """How the state of one saga class is written for .NET, and read from it. Its rows have no version."""

    def __init__(self, kind: type[S]) -> None:
        """Write this class; raises ConfigurationError for one that cannot be read from JSON."""
        super().__init__(kind, 1, ())
        self._type = type_of(kind)
        self._read = Json(rename="pascal", ignore_case=True).reader(kind)

    def write(self, state: S) -> str:
        """Return a state's JSON; raises SagaStateError for an object that has none."""
        self._check(state)
        try:
            return _encode(self._written(state)).decode()
        except Exception as error:
            raise SagaStateError(f"The state {self.kind.__name__} has no JSON: {text_of(error)}") from error

    def write_over(self, before: str, state: S) -> str:
        """Return a state's JSON, with the text from before for what did not change; raises SagaStateError."""
        written = self.write(state)
        if not _SEVENTH_DIGIT.search(before):
            return written
        unchanged = self._written(self.read(before, self.version))
        return _encode(_kept(_decode(written), unchanged, _decode(before))).decode()

    def _written(self, state: S) -> Any:  # noqa: ANN401 - a value of JSON
        return _without_defaults(_decode(_encode(plain(state, NAMES))), self._type)

    def _upgraded(self, text: str, version: int) -> bytes:  # noqa: ARG002 - rows of .NET have none
        return _encode(_with_defaults(_decode(text), self._type))


def _without_defaults(value: Any, to: inspect.Type) -> Any:  # noqa: ANN401 - any part of a state
    """Leave out of objects the properties that have .NET's defaults; items of lists and of dictionaries stay."""
    fields = _fields(to)
    if fields is None or not is_object(value):
        return _within(value, to, _without_defaults)
    return {
        name: _without_defaults(item, fields[name].type if name in fields else inspect.AnyType())
        for name, item in value.items()
        if item is not None and not _is_zero(item, fields.get(name))
    }


def _with_defaults(value: Any, to: inspect.Type) -> Any:  # noqa: ANN401 - any part of a state
    """Add to objects the properties that .NET left out, with .NET's defaults."""
    fields = _fields(to)
    if fields is None or not is_object(value):
        return _within(value, to, _with_defaults)
    by_name = {NAMES.compared(name): field.type for name, field in fields.items()}
    present = {NAMES.compared(name) for name in value}
    zeros = {name: _zero(field) for name, field in fields.items() if NAMES.compared(name) not in present}
    return {
        **{name: zero for name, zero in zeros.items() if zero is not _ABSENT},
        **{
            name: _with_defaults(item, by_name.get(NAMES.compared(name), inspect.AnyType()))
            for name, item in value.items()
        },
    }


def _within(value: Any, to: inspect.Type, change: Callable[[Any, inspect.Type], Any]) -> Any:  # noqa: ANN401
    """Change what is in a list, in a dictionary, or in what may be null; the last moment has all of .NET's digits."""
    if isinstance(to, inspect.UnionType):
        members = [member for member in to.types if not isinstance(member, inspect.NoneType)]
        return change(value, members[0]) if len(members) == 1 else value
    if isinstance(to, inspect.DictType) and is_object(value):
        return {key: change(item, to.value_type) for key, item in value.items()}
    if is_list(value) and (item_type := getattr(to, "item_type", None)) is not None:
        return [change(item, item_type) for item in value]
    if isinstance(to, inspect.DateTimeType) and isinstance(value, str):
        return re.sub(rf"^{_NEVER}(?![0-9])", f"{_NEVER}9", value)
    return value


def _kept(value: Any, unchanged: Any, before: Any) -> Any:  # noqa: ANN401 - any part of a state
    """Return a part of a state as it was `before`, where a method left it `unchanged`."""
    if _encode(value) == _encode(unchanged):
        return before
    if is_object(value) and is_object(unchanged) and is_object(before):
        folded = {NAMES.compared(name): item for name, item in before.items()}
        known = {name: before.get(name, folded.get(NAMES.compared(name), _ABSENT)) for name in unchanged}
        return {
            name: item if known.get(name, _ABSENT) is _ABSENT else _kept(item, unchanged[name], known[name])
            for name, item in value.items()
        }
    if is_list(value) and is_list(unchanged) and is_list(before):
        left = [_kept(*items) for items in zip(value, unchanged, before, strict=False)]
        return left + value[len(left) :]
    return value


def _fields(to: inspect.Type) -> dict[str, Field] | None:
    """Return a class's fields by the names of its properties, None for a type without."""
    kind = class_of(to)
    return None if kind is None else {NAMES.of(field): field for field in fields_of(kind) or ()}


def _is_zero(value: Any, field: Field | None) -> bool:  # noqa: ANN401 - any part of a state
    """Say whether a property has .NET's default; a first moment may have come with an offset of nothing."""
    first = None if field is None else _FIRST.get(type(field.type))
    if first is not None and isinstance(value, str):
        return value.removesuffix("Z").removesuffix("+00:00") == first
    return bool(value == _zero(field))


def _zero(field: Field | None) -> object:
    """Return .NET's default of a field as JSON has it; a mark that equals nothing if the class has its own."""
    if field is None:
        return _ABSENT
    to = field.type
    if isinstance(to, inspect.UnionType) and any(isinstance(member, inspect.NoneType) for member in to.types):
        return None
    if isinstance(to, inspect.EnumType):
        return 0 if 0 in to.cls._value2member_map_ else _ABSENT
    if isinstance(to, inspect.DateTimeType | inspect.TimeType):
        is_aware = to.tz or getattr(field.default, "tzinfo", None) is not None
        return f"{_FIRST[type(to)]}{'Z' if is_aware else ''}"
    return _ZEROS.get(type(to), _ABSENT)
