"""One look into many tables, queues and those of delayed messages: a statement that answers which have something.

Invariant: it finds what a look into each of them would find; it fails where one of those would.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rowbus.database.statements import Statement, load

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rowbus.database.statements import Rows
    from rowbus.messages.address import QueueAddress

_LOOK_INTO: Final = load(
    "transport/queues/sql/postgresql/look_into.sql", failing="Failed to look into several tables"
)


def look_into(
    addresses: Sequence[QueueAddress], lower_bounds: Sequence[int | None]
) -> Statement[frozenset[int]]:
    """Say which tables, by their places in the lists, have something to receive. Locks nothing. For PostgreSQL.

    A queue is read from its lower bound; a table without one is one of delayed messages.
    """
    parameters = {
        "schemas": [address.schema for address in addresses],
        "tables": [address.table for address in addresses],
        "lower_bounds": [None if bound is None else str(bound) for bound in lower_bounds],
    }
    return Statement(_LOOK_INTO, parameters, _places)


def _places(rows: Rows, _count: int) -> frozenset[int]:
    return frozenset(position - 1 for (position,) in rows)
