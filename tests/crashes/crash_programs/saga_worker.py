"""A worker for the crash tests of sagas: each order is placed, paid and packed in any order, and may be overdue.

Every transition writes a row, which nothing keeps from being written twice. Orders with an even number wait for their
timeout, which comes shortly; the others complete without it, long before its time.

One by one no attempt may fail. In batches one may: what the server ends for a deadlock with a batch may be a message
that was received alone, and that is a failed attempt, which is repeated at once.

`saga_worker.py BATCH_SIZE LAYOUT`, with the database in ROWBUS_DATABASE.
"""

from __future__ import annotations

import asyncio
import random
import sys
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Literal

import rowbus

BATCH_SIZE = int(sys.argv[1])
LAYOUT: Literal["rowbus", "nservicebus"] = "nservicebus" if sys.argv[2] == "nservicebus" else "rowbus"
SHORTLY, NEVER = timedelta(milliseconds=500), timedelta(hours=1)
LONGEST = 0.004  # seconds a method takes after its row is written
WRITE = "insert into transitions (number, step, asked) values (%s, %s, %s)"


@rowbus.command("Crash.Step")
@dataclass
class Step:
    number: int
    name: str


@rowbus.message("Crash.Overdue")
@dataclass
class Overdue:
    asked: str


@dataclass
class Steps:
    number: int
    done: list[str] = field(default_factory=list)


class Order(rowbus.Saga[Steps], name="Crash.Order", correlation="number", layout=LAYOUT):
    """Completes when all of its steps are done."""

    @rowbus.starts(Step, by=lambda step: step.number)
    async def step(self, message: Step, context: rowbus.SagaContext) -> None:
        if context.is_new:
            cursor = await context.connection.execute("select clock_timestamp()::text")
            row = await cursor.fetchone()
            assert row is not None
            after = NEVER if message.number % 2 else SHORTLY
            await context.request_timeout(Overdue(row[0]), after=after)
        await self._go_on(message.name, None, context)

    @rowbus.timeout(Overdue)
    async def overdue(self, message: Overdue, context: rowbus.SagaContext) -> None:
        await self._go_on("overdue", message.asked, context)

    async def _go_on(self, name: str, asked: str | None, context: rowbus.SagaContext) -> None:
        await context.connection.execute(WRITE, (self.state.number, name, asked))
        await asyncio.sleep(random.uniform(0, LONGEST))
        self.state.done.append(name)
        if len(self.state.done) == (3 if self.state.number % 2 else 4):
            await context.connection.execute(
                "insert into completed values (%s, %s)", (self.state.number, self.state.done)
            )
            context.complete()


work = rowbus.Endpoint(
    "Work",
    settings=rowbus.EndpointSettings(
        concurrency=4,
        batch_size=BATCH_SIZE,
        peek_delay=timedelta(milliseconds=100),
        deduplicate_for=timedelta(hours=1),
    ),
    recoverability=rowbus.Recoverability(immediate=0 if BATCH_SIZE == 1 else 5, delayed=0),
)
work.add(Order)

if __name__ == "__main__":
    work.run()
