"""A worker for the crash tests of limits of concurrency: each message is a row, and each call a span of time.

`place_worker.py`, with the database in ROWBUS_DATABASE. Some messages fail at first, at once and after a delay. Spans
are committed by themselves, so that those of a process that is killed are known.
"""

from __future__ import annotations

import asyncio
import logging
import os
import random
import sys
from datetime import timedelta
from typing import Any

import psycopg

import rowbus

work = rowbus.Endpoint(
    "Work",
    settings=rowbus.EndpointSettings(
        peek_delay=timedelta(milliseconds=100), batch_size=int(sys.argv[1]), concurrency=6
    ),
    recoverability=rowbus.Recoverability(immediate=20, delayed=20, increase=timedelta(milliseconds=50)),
)
chance = random.Random()


@work.handler("Places.Step", limit=rowbus.Concurrency(2, by="customer"))
async def handle(message: dict[str, Any], context: rowbus.Context) -> None:
    """Note when the call began and ended, and write the row, in the midst of which the process may end."""
    connect = psycopg.AsyncConnection.connect(os.environ["ROWBUS_DATABASE"], autocommit=True)
    async with await connect as noting:
        begun = await noting.execute(
            "insert into spans (customer, process, began) values (%s, %s, clock_timestamp()) returning id",
            (message["customer"], os.getpid()),
        )
        row = await begun.fetchone()
        assert row is not None
        try:
            await context.connection.execute(
                "insert into done (customer, number) values (%s, %s)",
                (message["customer"], message["number"]),
            )
            await asyncio.sleep(chance.uniform(0, 0.02))
            if message["number"] % 11 == 0 and chance.random() < 0.5:
                raise ValueError(f"{message['customer']}/{message['number']}")
        finally:
            await noting.execute("update spans set ended = clock_timestamp() where id = %s", row)


if __name__ == "__main__":
    logging.basicConfig(stream=sys.stdout, level=logging.INFO, format="%(message)s")
    work.run()
