"""The table of a saga in NServiceBus's layout: the operations on it, on every database.

.NET's table has no place for the timeouts that a saga waits for, nor for a version of its state: rows read as without.

Source: docs/wire-format.md#saga-tables.

Invariants: nothing here names a database; found out from the saga's class and its endpoint's name alone.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, ClassVar, Final, Literal, NamedTuple, cast
from uuid import UUID

from msgspec import inspect

from rowbus.database.backends import backend_class
from rowbus.database.statements import Statement
from rowbus.errors import ConfigurationError, SagaStateError
from rowbus.messages.bodies.shape import fields_of
from rowbus.sagas import table
from rowbus.sagas.nservicebus.state import NAMES
from rowbus.sagas.table import SagaRow

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rowbus.database.statements import Query, Rows
    from rowbus.messages.address import Addresses, QueueAddress
    from rowbus.sagas.table import Beginning


class SagaTable(table.SagaTable):
    """Statements on the table of one saga that .NET may share; each runs in its runner's transaction."""

    folder = "sagas/nservicebus"
    variable = "shared_saga"

    column_types: ClassVar[Mapping[Kind, str]]
    """What the column is that finds a row."""

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


Kind = Literal["text", "id", "number"]
"""What a value is that finds a saga; each database has a type of column for each."""

KINDS: Final[dict[type, Kind]] = {
    inspect.StrType: "text",
    inspect.UUIDType: "id",
    inspect.IntType: "number",
}
"""What a value is, by the type of the state's field."""

LONGEST_PREFIX: Final = {"postgresql": 20}
"""Characters before the saga's name, where NServiceBus.Persistence.Sql limits them: a name on SQL Server has room."""


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
