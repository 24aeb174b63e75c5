"""The tables of a message-flow report, and what they were made of.

Invariant: needs no Spark; a table without rows is left out.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    import pyarrow as pa

MEANINGS: Final = {
    "overview": "What the report is about: messages, events, and the times they tell of",
    "throughput": "Messages sent, processed and failed, by type and span of time",
    "latency": "Seconds in each stage, by type and endpoint",
    "failures": "Failures that belong together",
    "waiting": "What waits in the queues",
    "delays": "Seconds that delayed messages were started after they were due",
    "event_types": "Events by type",
    "events": "Events by type and span of time",
    "tick_delay": "Seconds that events waited for their tick",
    "logs": "How far logs are ticked",
    "consumers": "How far behind the consumers of logs are",
}
"""The tables that there may be, in the order in which they are shown."""


@dataclass(frozen=True)
class ReportTables:
    """The tables of a report, each an Arrow table by its name in `MEANINGS`, and what they were made of."""

    made_at: datetime
    inputs: Sequence[str]
    """What was read, in words: `queue "public"."error"`, `log shop`."""
    tables: Mapping[str, pa.Table]
    since: datetime | None = None
    until: datetime | None = None
    truncated: frozenset[str] = field(default_factory=frozenset)
    """Tables that had more rows than are kept; those kept are the first."""

    @property
    def is_empty(self) -> bool:
        """Whether there was neither a message nor an event."""
        overview = self.overview
        return not (overview.get("messages") or overview.get("events"))

    @property
    def overview(self) -> dict[str, Any]:
        """The one row of the table `overview`."""
        rows = self.rows("overview")
        return rows[0] if rows else {}

    def rows(self, name: str) -> list[dict[str, Any]]:
        """Return a table's rows; none if there is no such table."""
        table = self.tables.get(name)
        rows: list[dict[str, Any]] = [] if table is None else table.to_pylist()
        return rows
