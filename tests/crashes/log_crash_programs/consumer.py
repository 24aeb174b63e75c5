"""A consumer for the log's crash tests: handles events until it is told to drain, or killed.

Its handler writes a row with the event's number, which nothing keeps from being written twice, and takes a little
while after, so that a kill finds it uncommitted. Every so many events it fails at the first delivery.

`consumer.py '{"name": "pair", "subconsumer": "x"}'`, with the database in ROWBUS_DATABASE; also "batch" for a handler
of many events, and "workers" for so many, by key.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import random
import sys
from datetime import timedelta
from typing import Any

import rowbus
from rowbus.cli.output import show_logs

LONGEST = 0.002  # seconds a handler takes after its row is written
FAILING = 50  # every so many events

given: dict[str, Any] = json.loads(sys.argv[1])
name = given["name"]
settings = rowbus.ConsumerSettings(
    chunk_size=20,
    workers=given.get("workers", 1),
    retry_delay=timedelta(0),
    poll_delay=timedelta(milliseconds=50),
    dead_after=timedelta(seconds=1),
)
log = rowbus.Log(None, "crash")
moments = random.Random(os.getpid())


async def handle_many(events: list[rowbus.Event], context: rowbus.LogContext) -> None:
    """Write a row for each event."""
    for event in events:
        await handle(event, context)


async def handle(event: rowbus.Event, context: rowbus.LogContext) -> None:
    """Write the row and take a little while; perhaps fail."""
    number = int(event.data or "")
    await context.connection.execute(
        "insert into done (consumer, number, pid) values (%s, %s, %s)", (name, number, os.getpid())
    )
    await asyncio.sleep(moments.uniform(0, LONGEST))
    if number % FAILING == 0 and not event.retry:
        raise ValueError(f"{number} fails at first")


if __name__ == "__main__":
    show_logs(logging.INFO)
    register = log.consumer(
        name,
        batch=given.get("batch", False),
        subconsumer=given.get("subconsumer"),
        key="data" if settings.workers > 1 else None,
        settings=settings,
    )
    register(handle_many if given.get("batch") else handle)
    log.run()
