"""A worker for the crash tests: serves Work and FollowUps until it is told to drain, or killed.

Every message of Work has a number. Its handler writes a row with that number, which nothing keeps from being written
twice, and sends a follow-up with the same number; the handler of FollowUps, in a thread, writes another row. Each row
is written first and each handler takes a little while after, so that a kill finds it uncommitted.

`worker.py '{"mode": "none", "batch_size": 1}'`, with the database in ROWBUS_DATABASE.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import random
import signal
import sys
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

import rowbus
from rowbus.cli.output import show_logs

CONCURRENCY = 2  # of each endpoint: a worker that is killed has at most this many batches of each in hand
LONGEST = 0.004  # seconds a handler takes after its row is written
GO = Path("go")

given: dict[str, Any] = json.loads(sys.argv[1])
settings = rowbus.EndpointSettings(
    transaction_mode=rowbus.TransactionMode(given["mode"]),
    batch_size=given.get("batch_size", 1),
    concurrency=CONCURRENCY,
    peek_delay=timedelta(milliseconds=100),
)
is_none = settings.transaction_mode is rowbus.TransactionMode.NONE
work = rowbus.Endpoint(
    "Work",
    settings=settings,
    recoverability=rowbus.Recoverability(
        immediate=0 if is_none else 2, delayed=0 if is_none else 1, increase=timedelta(milliseconds=200)
    ),
)
follow_ups = rowbus.Endpoint("FollowUps", settings=settings)
moments = random.Random(given.get("seed", 0))


@work.handler("Crash.Work")
async def handle(message: dict[str, Any], context: rowbus.Context) -> None:
    """Write the row, take a little while, and send the follow-up, unless this is one that fails."""
    number = message["number"]
    await context.connection.execute(
        "insert into handled (number, pid) values (%s, %s)", (number, os.getpid())
    )
    await asyncio.sleep(moments.uniform(0, LONGEST))
    if message.get("fails"):
        raise ValueError(f"{number} always fails")
    await context.send("FollowUps", {"number": number}, type="Crash.FollowUp")


@work.handler("Crash.Block")
def block(message: dict[str, Any], context: rowbus.SyncContext) -> None:
    """In a thread: write the row, send, say so, and end when the file `go` is there."""
    number = message["number"]
    context.connection.execute("insert into handled (number, pid) values (%s, %s)", (number, os.getpid()))
    context.send("FollowUps", {"number": number}, type="Crash.FollowUp")
    os.write(1, b"blocking\n")  # print would write text and line end apart, and two threads do
    if message.get("in_sql") and not GO.exists():
        context.connection.execute("select pg_sleep(600)")
    while not GO.exists():
        time.sleep(0.01)


@follow_ups.handler("Crash.FollowUp")
def follow(message: dict[str, Any], context: rowbus.SyncContext) -> None:
    """In a thread: write the row and take a little while."""
    context.connection.execute(
        "insert into followed (number, pid) values (%s, %s)", (message["number"], os.getpid())
    )
    time.sleep(moments.uniform(0, LONGEST))


async def serve_both() -> None:
    """Serve until SIGTERM, then drain."""
    told = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, told.set)
    async with work, follow_ups:
        print("serving", flush=True)  # noqa: T201 - the test reads it
        await told.wait()


if __name__ == "__main__":
    logging.basicConfig(stream=sys.stdout, level=logging.INFO, format="%(levelname)s %(name)s %(message)s")
    show_logs(logging.INFO)  # as `rowbus run` does
    if given.get("alone"):
        work.run()
    else:
        asyncio.run(serve_both())
