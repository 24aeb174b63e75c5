"""Statements that take the oldest rows are planned by an index, under any statistics of their table.

A queue is mostly empty when it is vacuumed and analysed. The server then takes it for a table of no rows on many pages.
It reads and sorts all of a backlog that comes later, for each message, until it is analysed again. So the settings of
`plan_by_index.sql` surround such a statement while the server plans it, and no statement of a handler.

The server plans a prepared statement anew for each of the first five executions. With the sixth it makes a plan for any
values, and keeps it if it is cheaper than those before, planning included. So planning is made dear in the first five.
Source: PostgreSQL documentation, "PREPARE", notes; "plan_cache_mode".

Invariant: what is sent around a statement leaves every setting as it was, and a failure is answered as the statement's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rowbus.database.statements import Statement, load, no_rows

if TYPE_CHECKING:
    from collections.abc import Sequence

PLANNED_EACH_TIME: Final = 5
"""Executions of a prepared statement that the server plans each for its own values."""

SETTLED: Final = PLANNED_EACH_TIME + 1
"""Executions after which it keeps a plan for any values."""

_DEAR: Final = (
    "10000"  # a thousand of these is what the server reckons for planning one table; the default is 0.0025
)
_PLAN_BY_INDEX: Final = load(
    "database/sql/postgresql/plan_by_index.sql", failing="Failed to have statements planned by an index"
)
_AFTER: Final = Statement(
    load("database/sql/postgresql/plan_freely.sql", failing="Failed to have statements planned as before"),
    {},
    no_rows,
)


def surrounded(statement: Statement[object], executions: int | None) -> Sequence[Statement[object]]:
    """Return what to send for a statement whose plan was executed so often (None: it has none that is kept)."""
    if not statement.query.by_index or (executions is not None and executions >= SETTLED):
        return (statement,)
    cost = _DEAR if executions is not None and executions < PLANNED_EACH_TIME else None
    before = Statement(_PLAN_BY_INDEX, {"operator_cost": cost}, no_rows)
    return (before, statement, _AFTER)
