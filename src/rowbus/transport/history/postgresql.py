"""The table of history on PostgreSQL.

Invariant: as in `history/table.py`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rowbus.database.statements import Statement, no_rows
from rowbus.transport.history import table
from rowbus.transport.history.table import HOURS_KEPT, MINUTES_KEPT, HandlingCounts, Point, Series, Span
from rowbus.transport.queues.records.keys import key_of
from rowbus.transport.queues.records.postgresql import RecordTable

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rowbus.database.statements import Rows


class HistoryTable(table.HistoryTable, RecordTable):
    """Statements on one table of history."""

    def note(self, found: Mapping[Series, Point]) -> Statement[int]:
        """Note how series stand this minute, and say of how many nobody had; see the base."""
        parameters = {
            "kinds": [one.kind for one in found],
            "names": [key_of(one.name) for one in found],
            "depths": [point.depth for point in found.values()],
            "entered": [point.entered for point in found.values()],
            "taken": [point.taken for point in found.values()],
            "failed": [point.failed for point in found.values()],
            "lags": [point.lag for point in found.values()],
        }
        return Statement(self._load("note", "Failed to add to"), parameters, self._counted)

    def tell(self, series: Series, handled: HandlingCounts) -> Statement[int]:
        """Add what a process handled to this minute and hour; see the base."""
        query = self._load("tell", "Failed to add to")
        parameters = {
            "kind": series.kind,
            "name": key_of(series.name),
            "failed": handled.failed,
            "durations": list(handled.durations),
        }
        return Statement(query, parameters, self._counted)

    def grant_tell(self, role: str) -> Statement[None]:
        """Let a role add what it handled."""
        query = self._load("grant_tell", f"Failed to grant {role} privileges on", role=role)
        return Statement(query, {}, no_rows)

    def series(self, names: Sequence[str], span: Span) -> Statement[dict[Series, list[Point | None]]]:
        """Return all series of these names, the oldest point first; see the base."""
        keys = {key_of(name): name for name in names}

        def decode(rows: Rows, _count: int) -> dict[Series, list[Point | None]]:
            found: dict[Series, list[Point | None]] = {}
            for kind, key, ago, *point in rows:
                series = found.setdefault(Series(kind, keys[key]), [None] * span.points)
                series[-1 - ago] = Point._make(point)
            return found

        parameters = {"names": list(keys), "minutes": span.value, "points": span.points}
        return Statement(self._load("series", "Failed to look into"), parameters, decode)

    def forget(self) -> Statement[int]:
        """Delete what is too old; see the base."""
        query = self._load("forget", "Failed to forget the oldest of")
        return Statement(query, {"minutes": MINUTES_KEPT, "hours": HOURS_KEPT}, self._counted)
