"""A start beside handlers in hand: no instance that starts makes a sender wait."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from dataclasses import dataclass

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

import rowbus
from tests.conformance.transport import eventually
from tests.fixtures.every_table import with_every_table

QUICKLY = 500
"""Milliseconds that a send may wait for a lock."""

BLOCKED = """
    select count(*) from pg_stat_activity where datname = current_database() and pg_blocking_pids(pid) <> '{}'
"""


@dataclass
class Import:
    """Take long."""


@pytest.mark.parametrize("older", [False, True])
async def test_a_start_beside_handlers_in_hand_makes_no_sender_wait(database: str, *, older: bool) -> None:
    """The second instance is like the first, or of a version that adds to the queues and tables of the first."""
    in_hand, over = list[str](), asyncio.Event()
    impatient = make_conninfo(database, options=f"-c lock_timeout={QUICKLY}")
    session = await psycopg.AsyncConnection.connect(impatient, autocommit=True)
    async with AsyncExitStack() as running, session:
        sender = rowbus.AsyncClient(session)
        for endpoint in with_every_table(database, older=older):

            @endpoint.handler
            async def run(message: Import, context: rowbus.Context) -> None:
                in_hand.append(context.message_id)
                await over.wait()

            await running.enter_async_context(endpoint)
            await sender.send(endpoint.name, Import())
        await eventually(lambda: len(in_hand) == 2)

        starting = asyncio.create_task(start_all(running, database))
        try:
            await send_while(starting, sender, database)
        finally:
            over.set()
        await starting


async def start_all(running: AsyncExitStack, database: str) -> None:
    for endpoint in with_every_table(database):
        endpoint.handler(handle)
        await running.enter_async_context(endpoint)


async def handle(message: Import) -> None: ...


async def send_while(starting: asyncio.Task[None], sender: rowbus.AsyncClient, database: str) -> None:
    """Send until the others have started, or have been seen to wait for the handlers twice."""
    waits = 0
    async with await psycopg.AsyncConnection.connect(database, autocommit=True) as looking:
        while waits < 2 and not starting.done():
            for queue in ("Sales", "Stored"):
                await sender.send(queue, Import())
            blocked = await (await looking.execute(BLOCKED)).fetchone()
            waits += blocked != (0,)
