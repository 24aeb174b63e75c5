"""A worker for the crash run on SQL Server: serves Work and FollowUps until it is told to drain, or killed.

Each message has a number. Work's handler writes a row with it and sends a follow-up; the handler of FollowUps, in a
thread, writes another row. Each row is written first and each handler takes a little while after, so that a kill finds
it uncommitted.

`sqlserver_worker.py '{"schema": …, "root": …, "standin": …}'`, with the database in ROWBUS_DATABASE: `root` is where
`tests` is, `standin` the database of the stand-in, null on a real server.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import sys
import time
from datetime import timedelta
from typing import Any

import rowbus
from rowbus.database.sqlserver import driver as seam

LONGEST = 0.004  # seconds a handler takes after its row is written

given: dict[str, Any] = json.loads(sys.argv[1])
settings = rowbus.EndpointSettings(
    schema=given["schema"], concurrency=2, peek_delay=timedelta(milliseconds=100)
)
work = rowbus.Endpoint("Work", settings=settings)
follow_ups = rowbus.Endpoint("FollowUps", settings=settings)
moments = random.Random(os.getpid())


def insert(table: str, number: int) -> str:
    """Return what writes a row."""
    return f"insert into [{given['schema']}].[{table}] (number) values ({int(number)})"


@work.handler("Crash.Work")
async def handle(message: dict[str, Any], context: rowbus.Context) -> None:
    """Write the row, take a little while, and send the follow-up."""
    await context.connection.execute(insert("handled", message["number"]))
    await asyncio.sleep(moments.uniform(0, LONGEST))
    await context.send("FollowUps", {"number": message["number"]}, type="Crash.FollowUp")


@follow_ups.handler("Crash.FollowUp")
def follow(message: dict[str, Any], context: rowbus.SyncContext) -> None:
    """In a thread: write the row and take a little while."""
    context.connection.execute(insert("followed", message["number"]))
    time.sleep(moments.uniform(0, LONGEST))


def use_standin(database: str) -> None:
    """Lead the driver's seam to the stand-in, which another process has prepared."""
    sys.path.insert(0, given["root"])
    from tests.database.sqlserver.standin import driver  # noqa: PLC0415 - of the tests', found by the line above

    setattr(seam, "connect", lambda _source: driver.connect(database, autocommit=True))  # noqa: B010 - another's


async def serve_both() -> None:
    """Serve until SIGTERM, then drain."""
    told = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, told.set)
    async with work, follow_ups:
        print("serving", flush=True)  # noqa: T201 - the test reads it
        await told.wait()


if __name__ == "__main__":
    if given["standin"]:
        use_standin(given["standin"])
    asyncio.run(serve_both())
