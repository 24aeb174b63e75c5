"""A worker for the crash tests of lanes of a log: each event is a row.

`lane_consumer.py N`: with so many lanes, and the database in ROWBUS_DATABASE.
"""

from __future__ import annotations

import logging
import os
import sys
from datetime import timedelta

import rowbus

log = rowbus.Log(os.environ["ROWBUS_DATABASE"], "orders")
settings = rowbus.ConsumerSettings(poll_delay=timedelta(milliseconds=50))


@log.consumer("one", key="extra1", lanes=rowbus.by_key(int(sys.argv[1])), settings=settings)
async def one(event: rowbus.Event, context: rowbus.LogContext) -> None:
    """Write the row."""
    await context.connection.execute(
        "insert into seen (key, number) values (%s, %s)", (event.extra1, int(event.data or ""))
    )


if __name__ == "__main__":
    logging.basicConfig(stream=sys.stdout, level=logging.INFO, format="%(message)s")
    log.run()
