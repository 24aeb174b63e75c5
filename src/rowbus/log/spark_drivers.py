"""Drivers of Spark: which consumers of logs are queries of theirs, and whether a driver runs for each.

A stream of Spark's reads a log as a consumer of its own, and its driver holds the consumer's session lock. The database
keeps no note of that. So what looks again and again remembers which consumers it has seen a driver of, and tells those
whose driver has ended from the consumers that have nothing to do with Spark.

Invariant: reads and locks nothing; a consumer that was unregistered is forgotten.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rowbus.database.locks import consumer_lock
from rowbus.database.statements import Statement
from rowbus.log.queries import log_query

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rowbus.database.statements import Rows, Steps
    from rowbus.log.diagnosis import ConsumerState

Key = tuple[str, str]
"""A log and a consumer."""


class SparkDrivers:
    """Looks for the drivers, and remembers. For one database, and one look at a time."""

    def __init__(self) -> None:
        """Begin without a consumer that is known to be Spark's. No I/O."""
        self._seen: set[Key] = set()

    def look(self, consumers: Sequence[ConsumerState]) -> Steps[Mapping[Key, bool]]:
        """Return those of the consumers that are Spark's queries, and whether a driver runs. Raises StorageError."""
        known = {(one.log, one.consumer) for one in consumers}
        running: set[Key] = (yield find_drivers(sorted(known))) if known else set()
        self._seen = (self._seen & known) | running
        return {key: key in running for key in sorted(self._seen)}


def find_drivers(consumers: Sequence[Key]) -> Statement[set[Key]]:
    """Find those of some consumers that a driver of Spark's reads as now."""
    parameters = {
        "logs": [log for log, _ in consumers],
        "consumers": [consumer for _, consumer in consumers],
        "locks": [consumer_lock(log, consumer) for log, consumer in consumers],
    }
    query = log_query("diagnosis/spark_drivers", "Failed to look for Spark's drivers")
    return Statement(query, parameters, _keys)


def _keys(rows: Rows, _count: int) -> set[Key]:
    return {(log, consumer) for log, consumer in rows}
