"""Spark's listener that tells an observer of the queries of a session.

Invariant: Spark calls it in the driver's program, one call at a time; a report that cannot be read harms no query.
"""

from __future__ import annotations

import json
import logging
from typing import TYPE_CHECKING

from pyspark.sql.streaming.listener import StreamingQueryListener

if TYPE_CHECKING:
    from pyspark.sql.streaming.listener import (
        QueryIdleEvent,
        QueryProgressEvent,
        QueryStartedEvent,
        QueryTerminatedEvent,
    )

    from rowbus.spark.observation import Observer

logger = logging.getLogger("rowbus.spark")


class ObservingListener(StreamingQueryListener):
    """Passes on what Spark reports."""

    def __init__(self, observer: Observer) -> None:
        """Take the observer. No I/O."""
        self._observer = observer

    def onQueryStarted(self, event: QueryStartedEvent) -> None:  # noqa: N802 - Spark's name
        """Tell that a query began."""
        self._observer.began(str(event.runId), event.name)

    def onQueryProgress(self, event: QueryProgressEvent) -> None:  # noqa: N802 - as above
        """Tell of a micro-batch."""
        try:
            self._observer.batch(json.loads(event.progress.json))
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError):
            logger.warning("Spark's report of a micro-batch cannot be read", exc_info=True)

    def onQueryIdle(self, event: QueryIdleEvent) -> None:  # noqa: N802 - as above
        """Do nothing: the last batch told how far it is."""

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:  # noqa: N802 - as above
        """Tell that a query ended."""
        self._observer.ended(str(event.runId), event.exception)
