"""A worker for the crash tests of unique messages: a message has it copy the number that its key has now.

`unique_worker.py`, with the database in ROWBUS_DATABASE.
"""

from __future__ import annotations

import asyncio
import logging
import random
import sys
from datetime import timedelta
from typing import Any

import rowbus

work = rowbus.Endpoint(
    "Work",
    settings=rowbus.EndpointSettings(
        takes_unique=True, peek_delay=timedelta(milliseconds=100), concurrency=4
    ),
    recoverability=rowbus.Recoverability(immediate=20, delayed=0),
)
chance = random.Random()


@work.handler("Unique.Look")
async def look(message: dict[str, Any], context: rowbus.Context) -> None:
    """Note the number, in the midst of which the process may end, or stop for long."""
    await context.connection.execute(
        "insert into seen (key, number) select key, number from numbers where key = %s", (message["key"],)
    )
    await asyncio.sleep(chance.uniform(0, 0.01))


if __name__ == "__main__":
    logging.basicConfig(stream=sys.stdout, level=logging.INFO, format="%(message)s")
    work.run()
