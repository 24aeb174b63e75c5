"""The table of a saga in NServiceBus's layout: the operations on it, on every database.

.NET's table has no place for the timeouts that a saga waits for, nor for a version of its state: rows read as without.

Invariant: nothing here names a database.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from rowbus.database.backends import backend_class
from rowbus.sagas import table

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rowbus.database.statements import Query
    from rowbus.messages.address import QueueAddress
    from rowbus.sagas.nservicebus.layout import Correlation
    from rowbus.sagas.table import Beginning


class SagaTable(table.SagaTable):
    """Statements on the table of one saga that .NET may share; each runs in its runner's transaction."""

    folder = "sagas/nservicebus"
    variable = "shared_saga"

    def __init__(self, address: QueueAddress, saga: str, correlation: Correlation) -> None:
        """Bind the SQL files to the table and its column. No I/O."""
        self._saga = saga
        self._correlation = correlation
        super().__init__(address)

    def _load(self, operation: str, failing: str, *, prepare: bool = False, **names: str) -> Query:
        columns = {
            "correlation_column": self._correlation.column,
            "correlation_type": self._correlation.column_type,
        }
        return super()._load(operation, failing, prepare=prepare, **columns, **names)

    def _parameters(self, beginning: Beginning) -> Mapping[str, object]:
        return {"correlation": beginning.correlation, "metadata": metadata(beginning)}


def metadata(beginning: Beginning) -> str:
    """Return who began a saga, as .NET writes it; what is not known is left out."""
    known = {"OriginalMessageId": beginning.original_message_id, "Originator": beginning.originator}
    return json.dumps({name: text for name, text in known.items() if text is not None}, indent=2)


def shared_table(address: QueueAddress, saga: str, correlation: Correlation) -> SagaTable:
    """Return the statements on a saga's table. No I/O. Raises ConfigurationError where there is no such layout."""
    found: SagaTable = backend_class("rowbus.sagas.nservicebus", address.backend, "SagaTable")(
        address, saga, correlation
    )
    return found
