"""The prepared statements that one connection keeps on the server: which are there, and which are due to be made anew.

A plan is made and given up within a pipeline, where an error skips all that comes after it. So each change is noted as
it is sent, and those that the server did not come to are undone, the last first. Neither a rollback nor an error undoes
the others: prepared statements belong to the session, not to a transaction.

A queue is mostly empty when it is vacuumed and analysed. The server then takes it for a table of no rows on many pages.
It reads and sorts all of a backlog that comes later, for each message, until it is analysed again. So the settings of
`plan_by_index.sql` surround such a statement while the server plans it, and no statement of a handler.

The server plans a prepared statement anew for each of the first five executions. With the sixth it makes a plan for any
values, and keeps it if it is cheaper than those before, planning included. So planning is made dear in the first five.
Source: PostgreSQL documentation, "PREPARE", notes; "plan_cache_mode".

Invariants: a plan is known here if and only if the server has it; where that is in doubt, `is_doubtful` says so.
Source: PostgreSQL documentation, "PREPARE", "DEALLOCATE", "libpq: pipeline mode". What is sent around a statement
leaves every setting as it was, and a failure is answered as the statement's.
"""

from __future__ import annotations

import hashlib
from math import inf
from time import monotonic
from typing import TYPE_CHECKING, Final, NamedTuple

from psycopg import errors
from psycopg.pq import ExecStatus

from rowbus.database.statements import Statement, load, no_rows

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from psycopg.pq.abc import PGresult

    from rowbus.database.statements import Query

STALE_AFTER = 2.0
"""Seconds after which a plan is made anew. The server plans for the size of a queue at that time and keeps the plan
until the table is analysed: a scan and a sort, right for an empty queue, would meet a burst of 40,000 messages."""

MOST_PLANS = 200
"""Plans of one connection: each queue that is sent to has one or two, and takes memory of the server too."""

UNKNOWN_PLAN = "26000"
_PLAN_EXISTS = "42P05"
_RESULT_CHANGED = "0A000"  # "cached plan must not change result type": the table was altered


class Plan(NamedTuple):
    """A prepared statement: its name on the server, and when it was made."""

    name: bytes
    made: float


class Change(NamedTuple):
    """One command about a statement's plan: to give up the one `before`, or, that being None, to make one."""

    text: bytes
    name: bytes
    before: Plan | None

    def was_needless(self, result: PGresult) -> bool:
        """Say whether the server refused because it has already what was to be made, or no longer what was to go."""
        return _state(result) == (_PLAN_EXISTS if self.before is None else UNKNOWN_PLAN)


class Plans:
    """The plans of one connection, by the text of their statement. Not for concurrent use."""

    def __init__(self) -> None:
        """Begin with none."""
        self._plans: dict[bytes, Plan] = {}
        self._executions: dict[
            bytes, int
        ] = {}  # of those that are to be planned by an index, since they were made
        self._is_doubtful = False

    @property
    def is_doubtful(self) -> bool:
        """Whether some plans may be gone from the server."""
        return self._is_doubtful and bool(self._plans)

    def doubt(self) -> None:
        """Note that plans may be gone."""
        self._is_doubtful = True

    def keep(self, names: Collection[bytes]) -> None:
        """Forget the plans that the server does not name; the others are there."""
        self._plans = {text: plan for text, plan in self._plans.items() if plan.name in names}
        self._is_doubtful = False

    def find(self, query: Query) -> Plan | None:
        """Return a statement's plan, fresh or not."""
        return self._plans.get(query.native)

    def is_fresh(self, query: Query) -> bool:
        """Say whether a statement has a plan that need not be made anew; one without values never ages."""
        plan = self._plans.get(query.native)
        if plan is None or plan.made == -inf:
            return False
        return not query.names or monotonic() - plan.made <= STALE_AFTER

    def executions(self, query: Query) -> int:
        """Return how often a statement was executed since its plan was made, as `executed` has counted."""
        return self._executions.get(query.native, 0)

    def executed(self, query: Query) -> None:
        """Count an execution that succeeded."""
        self._executions[query.native] = self.executions(query) + 1

    def renew(self, query: Query) -> list[Change]:
        """Make a statement's plan, or make it anew; return what is to be sent for that."""
        text = query.native
        leaving = text if text in self._plans else self._eldest()
        changes = [] if leaving is None else [self._drop(leaving)]
        plan = Plan(_name(text), monotonic())
        self._plans[text] = plan
        self._executions.pop(text, None)
        return [*changes, Change(text, plan.name, None)]

    def undo(self, changes: Iterable[tuple[Change, PGresult]]) -> None:
        """Undo the changes that the server did not come to, given all of a pipeline with their answers, in order."""
        for change, result in reversed([*changes]):
            if result.status == ExecStatus.COMMAND_OK or change.was_needless(result):
                continue
            self._plans.pop(change.text, None)
            if change.before is not None:
                self._plans[change.text] = change.before

    def learn(self, query: Query, result: PGresult) -> None:
        """Learn from a statement that failed what that says about plans."""
        state = _state(result)
        if state == UNKNOWN_PLAN:  # DEALLOCATE or DISCARD was run behind our back
            self.doubt()
        elif state == _RESULT_CHANGED and (plan := self._plans.get(query.native)) is not None:
            self._plans[query.native] = plan._replace(made=-inf)

    def _drop(self, text: bytes) -> Change:
        plan = self._plans.pop(text)
        self._executions.pop(text, None)
        return Change(text, plan.name, plan)

    def _eldest(self) -> bytes | None:
        """Name the plan that is to leave, if there is no room for another."""
        return next(iter(self._plans)) if len(self._plans) >= MOST_PLANS else None


def _name(text: bytes) -> bytes:
    """Name a plan after its text: should a pooler mix sessions up, a name still means the same statement."""
    return b"rowbus_" + hashlib.md5(text, usedforsecurity=False).hexdigest().encode()


def _state(result: PGresult) -> str | None:
    """Return the SQLSTATE of an error; None for what ran, and for what was skipped after an error."""
    return errors.error_from_result(result).sqlstate if result.status == ExecStatus.FATAL_ERROR else None


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
