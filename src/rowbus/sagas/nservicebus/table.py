"""Sagas as NServiceBus.Persistence.Sql keeps them: the operations on their tables, on every database, and their state.

.NET's table has no place for the timeouts that a saga waits for, nor for a version of its state: rows read as without.
The state is in PascalCase, properties with .NET's defaults left out. Source: docs/wire-format.md#saga-tables.

Invariants: the statements name no database; a table and what finds its rows are found out from the saga's class and its
endpoint's name alone; what a state leaves out reads as .NET's default, not as the class's: 0, false, an empty id, no
time, None where the class allows it; text, lists and objects that are left out are as the class has them; what a method
did not change keeps its text, the seventh digit of a time included.
"""

from __future__ import annotations

import json
import re
from datetime import date, time, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal, NamedTuple, TypeVar, cast
from uuid import UUID

import msgspec
from msgspec import inspect

from rowbus.database.backends import backend_class
from rowbus.database.statements import Statement
from rowbus.errors import ConfigurationError, SagaStateError
from rowbus.errors.strangers import text_of
from rowbus.messages.bodies.json_bodies import Json
from rowbus.messages.bodies.plain import plain
from rowbus.messages.bodies.shape import Names, class_of, fields_of, is_list, is_object, type_of
from rowbus.messages.timestamps import format_time_span
from rowbus.sagas import table
from rowbus.sagas.state import StateForm
from rowbus.sagas.table import SagaRow

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from rowbus.database.statements import Query, Rows
    from rowbus.messages.address import Addresses, QueueAddress
    from rowbus.messages.bodies.shape import Field
    from rowbus.sagas.table import Beginning


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

Kind = Literal["text", "id", "number"]
"""The type of a value that finds a saga; each database has a type of column for each."""

KINDS: Final[dict[type, Kind]] = {
    inspect.StrType: "text",
    inspect.UUIDType: "id",
    inspect.IntType: "number",
}
"""The type of a value, by the type of the state's field."""

LONGEST_PREFIX: Final = {"postgresql": 20}
"""Characters before the saga's name, where NServiceBus.Persistence.Sql limits them: a name on SQL Server has room."""


# The state.


class NServiceBusForm(StateForm[S]):
    """The form for .NET of the state of one saga class, written and read. Its rows have no version."""

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


# The table.


class SagaTable(table.SagaTable):
    """Statements on the table of one saga that .NET may share; each runs in its runner's transaction."""

    folder = "sagas/nservicebus"
    variable = "shared_saga"

    column_types: ClassVar[Mapping[Kind, str]]
    """The type of the column that finds a row."""

    def __init__(self, address: QueueAddress, saga: str, correlation: Correlation) -> None:
        """Bind the SQL files to the table and its column. No I/O."""
        self._saga = saga
        self._correlation = correlation
        super().__init__(address)

    def _load(self, operation: str, failing: str, *, prepare: bool = False, **names: str) -> Query:
        columns = {
            "correlation_column": self._correlation.column,
            "correlation_type": self.column_types[self._correlation.kind],
        }
        return super()._load(operation, failing, prepare=prepare, **columns, **names)

    def lacking_column(self) -> Statement[str | None]:
        """Say which columns sagas are found by, if the one of this saga is not there. Locks nothing."""
        query = self._load("find_columns", "Failed to look for the columns of")
        return Statement(query, self._names, self._lacking)

    @property
    def _names(self) -> Mapping[str, object]:
        """The table's full name, as the file that looks for its columns has it."""
        return {"table_name": str(self.address)}

    def _lacking(self, rows: Rows, _count: int) -> str | None:
        columns = [str(column) for (column,) in rows]
        return None if self._correlation.column in columns else ", ".join(columns)

    @property
    def _creating(self) -> str:
        """The file that creates the table: a column of text has a length."""
        return "create_text" if self._correlation.kind == "text" else "create"

    def _parameters(self, beginning: Beginning) -> Mapping[str, object]:
        return {"correlation": beginning.correlation, "metadata": metadata(beginning)}

    def _found(self, rows: Rows, _count: int) -> SagaRow | None:
        if not rows:
            return None
        saga_id, correlation, state, concurrency, begun = rows[0]
        known = _known(str(begun), saga_id)
        found_by = str(UUID(correlation)) if self._correlation.kind == "id" else correlation
        return SagaRow(
            saga_id, found_by, state, 1, concurrency, known.get("Originator"), known.get("OriginalMessageId")
        )


def metadata(beginning: Beginning) -> str:
    """Return who began a saga, as .NET writes it; what is not known is left out."""
    known = {"OriginalMessageId": beginning.original_message_id, "Originator": beginning.originator}
    return json.dumps({name: text for name, text in known.items() if text is not None}, indent=2)


def _known(text: str, saga_id: str) -> Mapping[str, str]:
    """Read who began a saga; raises SagaStateError for what is no JSON object."""
    try:
        known = json.loads(text)
    except ValueError as error:
        raise SagaStateError(f"Saga {saga_id}: its Metadata is no JSON: {error}.", saga_id=saga_id) from error
    if not isinstance(known, dict):
        raise SagaStateError(f"Saga {saga_id}: its Metadata is no JSON object: {text[:100]}", saga_id=saga_id)
    return cast("Mapping[str, str]", known)


def shared_table(address: QueueAddress, saga: str, correlation: Correlation) -> SagaTable:
    """Return the statements on a saga's table. No I/O."""
    found: SagaTable = backend_class("rowbus.sagas.nservicebus", address.backend, "SagaTable")(
        address, saga, correlation
    )
    return found


class Correlation(NamedTuple):
    """The value that finds a saga: the name of the .NET property that holds it, and what it is."""

    name: str
    kind: Kind

    @property
    def column(self) -> str:
        """The column's name."""
        return f"Correlation_{self.name}"


def correlation_of(saga: str, kind: type, field_name: str | None) -> Correlation:
    """Return how rows are found; raises ConfigurationError for a state whose rows .NET could not find."""
    fields = {field.attribute: field for field in fields_of(kind) or ()}
    field = fields.get(field_name or "")
    if field is None:
        raise ConfigurationError(
            f'{saga}: layout="nservicebus" needs correlation="…": the field of {kind.__name__} that finds the saga has '
            "a column of its own in .NET's table."
        )
    what = KINDS.get(type(field.type))
    if what is None:
        raise ConfigurationError(
            f'{saga}: with layout="nservicebus" {kind.__name__}.{field_name} must be a str, an int or a UUID: .NET\'s '
            "table has no column for another type."
        )
    return Correlation(NAMES.of(field), what)


def table_address(endpoint: str, saga: str, addresses: Addresses) -> QueueAddress:
    """Return the table of an endpoint's saga; raises ConfigurationError for a name longer than .NET allows."""
    prefix = f"{endpoint.replace('.', '_')}_"
    address = addresses.for_endpoint(f"{prefix}{saga}")
    longest = LONGEST_PREFIX.get(address.backend, len(prefix))
    if len(prefix) > longest:
        raise ConfigurationError(
            f"The sagas of {endpoint} cannot have NServiceBus's layout: tables' prefixes have up to {longest} "
            f"characters there, and {prefix!r} has {len(prefix)}. Leave out layout=."
        )
    return address
