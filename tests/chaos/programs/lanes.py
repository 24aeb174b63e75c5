"""An endpoint and a consumer with order by key: nothing but its lane keeps the notes of a key in order.

`python -m tests.chaos.programs.lanes COUNT`, with the database in ROWBUS_DATABASE, has so many processes run both. They
are forked from one that has imported everything, so that hundreds can be killed. Some messages fail at first, at once
and after a delay.
"""

from __future__ import annotations

import asyncio
import logging
import os
import random
import signal
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


log = rowbus.Log(None, "keys")


@log.consumer(
    "notes",
    key="extra1",
    lanes=rowbus.by_key(4),
    settings=rowbus.ConsumerSettings(from_oldest=True, chunk_size=5),
)
async def keyed_event(event: rowbus.Event, context: rowbus.LogContext) -> None:
    """Note it, and take its time."""
    message: Any = event.json()
    await note(context, "keyed event", message)
    await asyncio.sleep(random.uniform(0, LONGEST))


async def serve() -> None:
    """Run both until SIGTERM."""
    ended = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, ended.set)
    async with log, lanes:
        logging.getLogger("chaos.lanes").info("Endpoint Lanes is receiving")
        await ended.wait()


def main(count: int) -> None:
    """Keep up so many processes; those that end are replaced at once."""
    logging.basicConfig(stream=sys.stdout, level=logging.INFO, format="%(asctime)s [%(process)d] %(message)s")
    running = set[int]()
    while True:
        while len(running) < count:
            if (pid := os.fork()) == 0:
                asyncio.run(serve())
                os._exit(0)
            running.add(pid)
        running.discard(os.wait()[0])


if __name__ == "__main__":
    main(int(sys.argv[1]))
