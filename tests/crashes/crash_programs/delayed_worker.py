"""A worker for the crash tests of delays: serves Work and Other; like every endpoint it moves what is due or stands by.

A handler writes down when its message came and when it was due, and a tenth of the messages of Work send another for
later. Nothing keeps a row from being written twice.

`delayed_worker.py`, with the database in ROWBUS_DATABASE.
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
from rowbus.cli.output import show_logs

LONGEST = 0.004  # seconds a handler takes after its row is written
LATER = timedelta(milliseconds=700)  # after which the messages come that handlers send
SHARE = 10  # every tenth message has another sent

settings = rowbus.EndpointSettings(concurrency=2, peek_delay=timedelta(milliseconds=100))
delays = rowbus.NativeDelayedDelivery(standby_delay=timedelta(milliseconds=200), batch_size=20)
policy = rowbus.Recoverability(immediate=20, delayed=0)
work = rowbus.Endpoint("Work", settings=settings, delayed_delivery=delays, recoverability=policy)
other = rowbus.Endpoint("Other", settings=settings, delayed_delivery=delays, recoverability=policy)
WRITE = (
    "insert into arrived (number, due, at, pid)"
    " values (%s, coalesce(%s::timestamptz, clock_timestamp()), clock_timestamp(), %s)"
)


@work.handler("Crash.Delayed")
@other.handler("Crash.Delayed")
async def handle(message: dict[str, Any], context: rowbus.Context) -> None:
    """Write the row, take a little while, and perhaps send another message for later."""
    number = message["number"]
    await context.connection.execute(WRITE, (number, message["due"], os.getpid()))
    await asyncio.sleep(random.uniform(0, LONGEST))
    if number % SHARE == 0:
        row = await (
            await context.connection.execute("select clock_timestamp() + %s::interval", (LATER,))
        ).fetchone()
        assert row is not None
        following = {"number": -1 - number, "due": row[0].isoformat()}
        await context.send("Other", following, type="Crash.Delayed", deliver_at=row[0])


async def serve_both() -> None:
    """Serve until SIGTERM."""
    told = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, told.set)
    async with work, other:
        print("serving", flush=True)  # noqa: T201 - the test reads it
        await told.wait()


if __name__ == "__main__":
    logging.basicConfig(stream=sys.stdout, level=logging.INFO, format="%(levelname)s %(name)s %(message)s")
    show_logs(logging.INFO)  # as `rowbus run` does
    asyncio.run(serve_both())
