"""A worker for the crash tests of lanes: each message is a row. Nothing but its lane keeps the rows of a key in order.

`lane_worker.py`, with the database in ROWBUS_DATABASE. Some messages fail at first, at once and after a delay.
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
    lanes=rowbus.by_key(8),
    settings=rowbus.EndpointSettings(peek_delay=timedelta(milliseconds=100), batch_size=4),
    recoverability=rowbus.Recoverability(immediate=20, delayed=20, increase=timedelta(milliseconds=50)),
)
chance = random.Random()


@work.handler("Lanes.Step")
async def handle(message: dict[str, Any], context: rowbus.Context) -> None:
    """Write the row, in the midst of which the process may end, or stop for long."""
    await context.connection.execute(
        "insert into done (key, number) values (%s, %s)", (message["key"], message["number"])
    )
    await asyncio.sleep(chance.uniform(0, 0.01))
    if message["number"] % 11 == 0 and chance.random() < 0.5:
        raise ValueError(f"{message['key']}/{message['number']}")


if __name__ == "__main__":
    logging.basicConfig(stream=sys.stdout, level=logging.INFO, format="%(message)s")
    work.run()
