"""Acknowledgement of a stopped query's last batch, so that its messages do not return to the queue.

Spark plans the next batch right after it has committed one, and then the claim ends. Only a query that is stopped
between two triggers leaves its last claim held; the query's next start would end it, too.

Invariant: only what the checkpoint says is committed is acknowledged.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rowbus.database.location import resolve_dsn
from rowbus.database.postgresql.database import Database
from rowbus.spark.checkpoint import read_committed
from rowbus.spark.queue_source.claims import ack

if TYPE_CHECKING:
    from pathlib import Path


def finish(checkpoint: str | Path, *, dsn: str | None = None) -> dict[str, int]:
    """Acknowledge the newest committed batch of a checkpoint; return the claims it ends with, by queue.

    Safe at any time, also while the query runs, and when repeated. Raises ConfigurationError for a folder that is
    no checkpoint on this machine, and LeaseLostError, once, when the messages had returned to the queue.
    """
    committed = read_committed(checkpoint)
    offsets = [offset for offset in committed.offsets if "claim" in offset] if committed else []
    with Database(resolve_dsn(dsn), application_name="rowbus spark finish").session() as session:
        for offset in offsets:
            ack(session, offset["consumer"], offset["queue"], offset["claim"])
    return {offset["queue"]: offset["claim"] for offset in offsets}
