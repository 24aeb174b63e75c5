"""What a saga's table is called in NServiceBus's layout: the table, and the column that finds a row.

Source: docs/wire-format.md#saga-tables.

Invariant: found out from the saga's class and its endpoint's name alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal, NamedTuple

from msgspec import inspect

from rowbus.errors import ConfigurationError
from rowbus.messages.bodies.shape import fields_of
from rowbus.sagas.nservicebus.state import NAMES, name_of

if TYPE_CHECKING:
    from rowbus.messages.address import QueueAddress
    from rowbus.messages.addresses import Addresses

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
    return Correlation(name_of(field, NAMES), what)


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
