"""The table of a saga in NServiceBus's layout, on SQL Server: not there yet.

Invariant: a saga that asks for it is refused before its endpoint starts.
"""

from __future__ import annotations

from rowbus.errors import ConfigurationError
from rowbus.sagas.nservicebus import table


class SagaTable(table.SagaTable):
    """No table."""

    def __init__(self, *_described: object) -> None:
        """Refuse."""
        raise ConfigurationError(
            'A saga with layout="nservicebus" needs PostgreSQL: on SQL Server leave it out; its table is Rowbus\'s own.'
        )
