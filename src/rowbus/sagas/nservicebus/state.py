"""A saga's state as NServiceBus.Persistence.Sql writes it: in PascalCase, properties with .NET's defaults left out.

Source: docs/wire-format.md#saga-tables.

Invariant: what is left out reads as .NET's default, not as the class's: 0, false, an empty id, no time, None where the
class allows it. Text, lists and objects that are left out are as the class has them.
"""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final, TypeVar
from uuid import UUID

import msgspec
from msgspec import inspect

from rowbus.errors import SagaStateError
from rowbus.errors.exception_facts import text_of
from rowbus.messages.bodies.json_bodies import Json
from rowbus.messages.bodies.plain import plain
from rowbus.messages.bodies.shape import Names, class_of, fields_of, is_list, is_object, type_of
from rowbus.messages.timestamps import format_time_span
from rowbus.sagas.state import StateForm

if TYPE_CHECKING:
    from collections.abc import Callable

S = TypeVar("S")

NAMES: Final = Names("pascal", ignore_case=True)
_ABSENT: Final = object()
_ZEROS: Final[dict[type, object]] = {
    inspect.BoolType: False,
    inspect.IntType: 0,
    inspect.FloatType: 0,
    inspect.DecimalType: 0,
    inspect.UUIDType: str(UUID(int=0)),
    inspect.TimeDeltaType: format_time_span(timedelta()),
}
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
            return _encode(_without_defaults(_decode(_encode(plain(state, NAMES))), self._type)).decode()
        except Exception as error:
            raise SagaStateError(f"The state {self.kind.__name__} has no JSON: {text_of(error)}") from error

    def _upgraded(self, text: str, version: int) -> bytes:  # noqa: ARG002 - rows of .NET have none
        return _encode(_with_defaults(_decode(text), self._type))


def _without_defaults(value: Any, to: inspect.Type) -> Any:  # noqa: ANN401 - any part of a state
    """Leave out of objects the properties that have .NET's defaults; items of lists and of dictionaries stay."""
    types = _types(to)
    if types is None or not is_object(value):
        return _within(value, to, _without_defaults)
    return {
        name: _without_defaults(item, types.get(name, inspect.AnyType()))
        for name, item in value.items()
        if item is not None and item != _zero(types.get(name))
    }


def _with_defaults(value: Any, to: inspect.Type) -> Any:  # noqa: ANN401 - any part of a state
    """Add to objects the properties that .NET left out, with .NET's defaults."""
    types = _types(to)
    if types is None or not is_object(value):
        return _within(value, to, _with_defaults)
    by_name = {NAMES.compared(name): kind for name, kind in types.items()}
    present = {NAMES.compared(name) for name in value}
    zeros = {name: _zero(kind) for name, kind in types.items() if NAMES.compared(name) not in present}
    return {
        **{name: zero for name, zero in zeros.items() if zero is not _ABSENT},
        **{
            name: _with_defaults(item, by_name.get(NAMES.compared(name), inspect.AnyType()))
            for name, item in value.items()
        },
    }


def _within(value: Any, to: inspect.Type, change: Callable[[Any, inspect.Type], Any]) -> Any:  # noqa: ANN401
    """Change what is in a list, in a dictionary, or in what may be null."""
    if isinstance(to, inspect.UnionType):
        members = [member for member in to.types if not isinstance(member, inspect.NoneType)]
        return change(value, members[0]) if len(members) == 1 else value
    if isinstance(to, inspect.DictType) and is_object(value):
        return {key: change(item, to.value_type) for key, item in value.items()}
    if is_list(value) and (item_type := getattr(to, "item_type", None)) is not None:
        return [change(item, item_type) for item in value]
    return value


def _types(to: inspect.Type) -> dict[str, inspect.Type] | None:
    """Return the types of a class's properties by their names, None for a type without."""
    kind = class_of(to)
    return None if kind is None else {NAMES.of(field): field.type for field in fields_of(kind) or ()}


def _zero(to: inspect.Type | None) -> object:
    """Return .NET's default of a type as JSON has it; a mark that equals nothing, if the class's own is to be taken."""
    if isinstance(to, inspect.UnionType) and any(isinstance(member, inspect.NoneType) for member in to.types):
        return None
    if isinstance(to, inspect.EnumType):
        return 0 if 0 in to.cls._value2member_map_ else _ABSENT
    return _ZEROS.get(type(to), _ABSENT)
