"""What a saga's table is called in NServiceBus's layout: the table, the column that finds a row, its index.

Source: docs/wire-format.md#saga-tables.

Invariant: found out from the saga's class and its endpoint's name alone.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Final, NamedTuple

from msgspec import inspect

from rowbus.errors import ConfigurationError
from rowbus.messages.bodies.shape import fields_of
from rowbus.sagas.nservicebus.state import NAMES, name_of

if TYPE_CHECKING:
    from rowbus.messages.address import QueueAddress
    from rowbus.messages.addresses import Addresses

COLUMN_TYPES: Final[dict[type, str]] = {
    inspect.StrType: "varchar",
    inspect.UUIDType: "uuid",
    inspect.IntType: "int4",
}
"""What a correlation's column is, by the type of the state's field."""

LONGEST_PREFIX: Final = 20
"""Characters before the saga's name, as in NServiceBus.Persistence.Sql."""


class Correlation(NamedTuple):
    """The value that finds a saga: the name of the .NET property that holds it, and the type of its column."""

    name: str
    column_type: str

    @property
    def column(self) -> str:
        """The column's name."""
        return f"Correlation_{self.name}"

    @property
    def is_text(self) -> bool:
        """Whether the values are text."""
        return self.column_type == COLUMN_TYPES[inspect.StrType]


def correlation_of(saga: str, kind: type, field_name: str | None) -> Correlation:
    """Return how rows are found; raises ConfigurationError for a state whose rows .NET could not find."""
    fields = {field.attribute: field for field in fields_of(kind) or ()}
    field = fields.get(field_name or "")
    if field is None:
        raise ConfigurationError(
            f'{saga}: layout="nservicebus" needs correlation="…": the field of {kind.__name__} that finds the saga has '
            "a column of its own in .NET's table."
        )
    column_type = COLUMN_TYPES.get(type(field.type))
    if column_type is None:
        raise ConfigurationError(
            f'{saga}: with layout="nservicebus" {kind.__name__}.{field_name} must be a str, an int or a UUID: .NET\'s '
            "table has no column for another type."
        )
    return Correlation(name_of(field, NAMES), column_type)


def table_address(endpoint: str, saga: str, addresses: Addresses) -> QueueAddress:
    """Return the table of an endpoint's saga; raises ConfigurationError for a name longer than .NET allows."""
    prefix = f"{endpoint.replace('.', '_')}_"
    if len(prefix) > LONGEST_PREFIX:
        raise ConfigurationError(
            f"The sagas of {endpoint} cannot have NServiceBus's layout: tables' prefixes have up to {LONGEST_PREFIX} "
            f"characters there, and {prefix!r} has {len(prefix)}. Leave out layout=."
        )
    return addresses.for_endpoint(f"{prefix}{saga}")


def index_name(table: str, saga: str, correlation: Correlation) -> str:
    """Return what NServiceBus calls the index of the column that finds a row."""
    text = f"{saga}/{correlation.name}".encode()
    digest = hashlib.sha1(text, usedforsecurity=False).hexdigest().upper()
    return f"{table.removesuffix(saga)}_i_{digest}"
