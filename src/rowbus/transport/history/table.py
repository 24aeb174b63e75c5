"""The history of a database: the operations on its table, on every database.

A point is of one minute, or of one hour; those of a kind and a name are a series. The first that notes a minute is
the one whose figures count, so any number of pages may note.

Invariants: nothing here names a database; a series never has more than `MINUTES_KEPT` points of minutes and
`HOURS_KEPT` of hours, once `forget` has run.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Final, NamedTuple

from rowbus.database.backends import bound_table
from rowbus.transport.queues.records.table import RecordStatements

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rowbus.database.statements import Statement
    from rowbus.messages.address import Addresses

HISTORY: Final = "Rowbus.History"
"""The name of the table, in the schema of names that are given without one."""

MINUTES_KEPT: Final = 360
HOURS_KEPT: Final = 720


class Span(Enum):
    """The span of a series, by the minutes of one point."""

    HOURS = 1
    DAYS = 60

    @property
    def points(self) -> int:
        """The number of its points."""
        return MINUTES_KEPT if self is Span.HOURS else HOURS_KEPT


HANDLERS: Final = "handlers"
"""The kind of series that endpoints tell."""


class Series(NamedTuple):
    """A series by what it is of: a queue, a consumer, the handlers of a queue, all of a database (without a name)."""

    kind: str
    name: str


class Point(NamedTuple):
    """A minute, or an hour: the greatest depth and lag (seconds) of it, and how many came, went and failed in it.

    `durations` are those of handlers, as `teller.py` counts them. What was not measured is None.
    """

    depth: int | None = None
    entered: int | None = None
    taken: int | None = None
    failed: int | None = None
    lag: float | None = None
    durations: Sequence[int] | None = None


class HandlingCounts(NamedTuple):
    """The handling of a process since it told last: how often that failed, and how long it took otherwise."""

    failed: int
    durations: Sequence[int]


class HistoryTable(RecordStatements):
    """Statements on the table of history; each runs in its runner's transaction."""

    folder = "transport/history"
    variable = "past"
    privileges = ("select", "insert", "update")
    remedy = (
        "the table does not exist; the first `rowbus web` creates it, if its role may, and "
        "`rowbus schema grants --web --role ROLE` prints it."
    )

    def note(self, found: Mapping[Series, Point]) -> Statement[int]:
        """Note how series stand this minute, and say of how many nobody had; waits for one who notes the same."""
        raise NotImplementedError

    def tell(self, series: Series, handled: HandlingCounts) -> Statement[int]:
        """Add what a process handled to this minute and hour; waits for others that tell of the same."""
        raise NotImplementedError

    def series(self, names: Sequence[str], span: Span) -> Statement[dict[Series, list[Point | None]]]:
        """Return all series of these names, the oldest point first; None where nothing was noted."""
        raise NotImplementedError

    def forget(self) -> Statement[int]:
        """Delete what is too old; passes over what another one deletes."""
        raise NotImplementedError

    def grant_tell(self, role: str) -> Statement[None]:
        """Let a role add what it handled."""
        raise NotImplementedError


def history_table(addresses: Addresses) -> HistoryTable:
    """Return the statements on the history of a database. No I/O."""
    address = addresses.for_endpoint(HISTORY)
    table: HistoryTable = bound_table("rowbus.transport.history", "HistoryTable", address)
    return table
