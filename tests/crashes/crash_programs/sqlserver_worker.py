"""A worker for the crash run on SQL Server: serves Work and Orders until it is told to drain, or killed.

Each message of Work has a number. Its handler, in a thread, writes a row with it and sends a step of an order, every
second one later. The order's saga writes a row, and asks for a timeout, every other order; the timeout writes another
row and ends the saga. Each row is written first and each handler takes a little while after, so that a kill finds it
uncommitted.

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
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import rowbus
from rowbus.database.sqlserver import driver as seam

LONGEST = 0.004  # seconds a handler takes after its row is written
LATER = timedelta(milliseconds=300)

given: dict[str, Any] = json.loads(sys.argv[1])
settings = rowbus.EndpointSettings(
    schema=given["schema"], concurrency=2, peek_delay=timedelta(milliseconds=100)
)
delays = rowbus.NativeDelayedDelivery(standby_delay=timedelta(milliseconds=200))
work = rowbus.Endpoint("Work", settings=settings, delayed_delivery=delays)
orders = rowbus.Endpoint("Orders", settings=settings, delayed_delivery=delays)
moments = random.Random(os.getpid())


def insert(table: str, number: int) -> str:
    """Return what writes a row."""
    return f"insert into [{given['schema']}].[{table}] (number) values ({int(number)})"


@rowbus.command("Crash.Step")
@dataclass
class Step:
    number: int


@rowbus.message("Crash.Overdue")
@dataclass
class Overdue:
    number: int


@dataclass
class Steps:
    number: int


@work.handler("Crash.Work")
def handle(message: dict[str, Any], context: rowbus.SyncContext) -> None:
    """In a thread: write the row, take a little while, and send the order's step."""
    number = int(message["number"])
    context.connection.execute(insert("handled", number))
    time.sleep(moments.uniform(0, LONGEST))
    context.send("Orders", Step(number), delay=LATER if number % 2 else None)


class Order(rowbus.Saga[Steps], name="Crash.Order", correlation="number"):
    """Completes at once, or when it is overdue."""

    @rowbus.starts(Step, by=lambda step: step.number)
    async def step(self, message: Step, context: rowbus.SagaContext) -> None:
        await self._write("followed", context)
        if message.number % 4 < 2:
            await context.request_timeout(Overdue(message.number), after=LATER)
        else:
            context.complete()

    @rowbus.timeout(Overdue)
    async def overdue(self, message: Overdue, context: rowbus.SagaContext) -> None:
        assert message.number == self.state.number
        await self._write("overdue", context)
        context.complete()

    async def _write(self, table: str, context: rowbus.SagaContext) -> None:
        await context.connection.execute(insert(table, self.state.number))
        await asyncio.sleep(moments.uniform(0, LONGEST))


orders.add(Order)


def use_standin(database: str) -> None:
    """Lead the driver's seam to the stand-in, which another process has prepared."""
    sys.path.insert(0, given["root"])
    from tests.database.sqlserver.standin import driver  # noqa: PLC0415 - of the tests', found by the line above

    setattr(seam, "connect", lambda _source: driver.connect(database))  # noqa: B010 - another's


async def serve_both() -> None:
    """Serve until SIGTERM, then drain."""
    told = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, told.set)
    async with work, orders:
        print("serving", flush=True)  # noqa: T201 - the test reads it
        await told.wait()


if __name__ == "__main__":
    if given["standin"]:
        use_standin(given["standin"])
    asyncio.run(serve_both())
