"""The janitor of the sink, as a function for programs and cron.

Invariant: needs neither Spark nor Arrow.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rowbus.database.location import resolve_dsn
from rowbus.database.postgresql.database import Database
from rowbus.spark.sink.janitor import DAY, JanitorReport, clean

if TYPE_CHECKING:
    from datetime import timedelta

__all__ = ["JanitorReport", "janitor"]


def janitor(dsn: str | None = None, *, older_than: timedelta = DAY) -> JanitorReport:
    """Remove leftovers of batches that died, and finish those that were decided; see `JanitorReport`.

    Each commit cleans up after its own sink, so this is for sinks that never run again; once a day is enough.
    `older_than` should be longer than any batch takes: a batch that loses its stages fails, and is written again.
    Raises StorageError.
    """
    with Database(resolve_dsn(dsn), application_name="rowbus spark janitor").session() as session:
        return clean(session, older_than)
