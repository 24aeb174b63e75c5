"""An endpoint with order by key: each message is a note, and nothing but its lane keeps the notes of a key in order.

`python -m tests.chaos.programs.lanes COUNT`, with the database in ROWBUS_DATABASE, has so many processes run it. They
are forked from one that has imported everything, so that hundreds can be killed. Some messages fail at first, at once
and after a delay.
"""

from __future__ import annotations

import asyncio
import logging
import os
import random
import sys
from datetime import timedelta
from typing import Any

import rowbus
from tests.chaos.programs.effects import note

LONGEST = 0.02
"""Seconds in which what strikes finds the transaction open."""
FAILING = 11
"""One of so many messages fails at times."""

lanes = rowbus.Endpoint(
    "Lanes",
    lanes=rowbus.by_key(8),
    settings=rowbus.EndpointSettings(batch_size=4),
    recoverability=rowbus.Recoverability(immediate=100, delayed=100, increase=timedelta(milliseconds=20)),
)


@lanes.handler("Chaos.Keyed")
async def keyed(message: dict[str, Any], context: rowbus.Context) -> None:
    """Note it, take its time, and perhaps fail."""
    await note(context, "keyed", message)
    await asyncio.sleep(random.uniform(0, LONGEST))
    if message["number"] % FAILING == 0 and random.random() < 0.5:
        raise ValueError(f"{message['number']} fails at times")


def main(count: int) -> None:
    """Keep up so many processes; those that end are replaced at once."""
    logging.basicConfig(stream=sys.stdout, level=logging.INFO, format="%(asctime)s [%(process)d] %(message)s")
    running = set[int]()
    while True:
        while len(running) < count:
            if (pid := os.fork()) == 0:
                lanes.run()
                os._exit(0)
            running.add(pid)
        running.discard(os.wait()[0])


if __name__ == "__main__":
    main(int(sys.argv[1]))
