"""Delayed messages: storing them, moving them when they are due, and a mover that has nothing to do.

Invariant: the bare mover is one SQL statement a batch: it takes what is due in the order of its time, passes over what
others have locked, deletes and inserts; nobody could do the same with less.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from datetime import timedelta

import psycopg

import rowbus
from benchmarks.measuring import Measurement, Side
from benchmarks.workload import BODY, MESSAGE, QUEUE, empty, headers_text, run
from rowbus.bench.statements import move_due
from rowbus.database.postgresql.database import Database
from rowbus.messages.headers import Identity, decode_headers, encode_copied_headers
from rowbus.messages.message import OutgoingMessage
from rowbus.transport.delayed.mover import open_session
from rowbus.transport.delayed.moves import DueMoves, Fallback
from rowbus.transport.delayed.postgresql import DelayedTable

DELAYED = DelayedTable(rowbus.QueueAddress("public", "bench.Delayed"))
NOTHING_DELAYED = DelayedTable(rowbus.QueueAddress("public", "nothing.Delayed"))
FALLBACK = Fallback(QUEUE, rowbus.QueueAddress("public", "error"), Identity("bench", "machine", "0" * 32))
LATER, SOON = timedelta(hours=1), timedelta(seconds=50)

BARE_MOVE = move_due(DELAYED.address, QUEUE, batch_size=100).query.text
NET_MOVE = (
    b'with taken as (delete from "bench.Delayed" where id in'
    b" (select id from \"bench.Delayed\" where due < now() at time zone 'UTC' limit %(batch_size)s)"
    b" returning id, headers, body)"
    b" insert into bench (id, expires, headers, body) select id, null, headers, body from taken"
)


def empty_delayed(dsn: str) -> None:
    """Make the queue and the table of delayed messages new and empty."""
    empty(dsn)
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute('drop table if exists "bench.Delayed"')
    run(dsn, *DELAYED.create())


def fill_delayed(dsn: str, messages: int, *, due_in: float) -> None:
    """Fill the table with so many messages, the first due in so many seconds, each 10 µs after the one before."""
    empty_delayed(dsn)
    add_delayed(dsn, messages, due_in=due_in)


def add_delayed(dsn: str, messages: int, *, due_in: float) -> None:
    """Put so many more messages into the table, as `fill_delayed` does."""
    headers = OutgoingMessage(decode_headers(headers_text())).bound_for(QUEUE).headers
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(
            'insert into "bench.Delayed" (headers, body, due) select %s, %s, clock_timestamp()'
            " + %s * interval '1 second' + number * interval '10 microseconds' from generate_series(1, %s) as number",
            (encode_copied_headers(headers), BODY, due_in, messages),
        )
        connection.execute('vacuum analyze "bench.Delayed"')


def create_nothing(dsn: str) -> None:
    """Make an empty table of delayed messages, for the endpoint `nothing`."""
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute('drop table if exists "nothing.Delayed"')
    run(dsn, *NOTHING_DELAYED.create())


def client_send(dsn: str, messages: int, delay: timedelta | None, name: str) -> Side:
    """`Client.send`, each in a transaction of its own."""

    def work() -> int:
        with psycopg.connect(dsn, autocommit=True) as connection:
            client = rowbus.Client(connection)
            for _ in range(messages):
                client.send("bench", MESSAGE, delay=delay)
        return messages

    return Side(name, lambda: empty_delayed(dsn), work)


def client_send_many(dsn: str, messages: int, delay: timedelta | None, name: str) -> Side:
    """`Client.send_many`."""

    def work() -> int:
        with psycopg.connect(dsn, autocommit=True) as connection:
            return rowbus.Client(connection).send_many(
                "bench", (MESSAGE for _ in range(messages)), delay=delay
            )

    return Side(name, lambda: empty_delayed(dsn), work)


def mover_side(dsn: str, messages: int, batch_size: int) -> Side:
    """Rowbus's mover, from the first message that is due to the last."""
    return Side(
        f"Rowbus, batches of {batch_size}",
        lambda: fill_delayed(dsn, messages, due_in=-60),
        lambda: asyncio.run(move_all(dsn, batch_size)),
    )


async def move_all(dsn: str, batch_size: int) -> int:
    """Move what is due, as Rowbus's mover does; return how many."""
    session = await open_session(Database(dsn), DELAYED)
    try:
        return await DueMoves(DELAYED, FALLBACK, batch_size).move_all(session)
    finally:
        await session.close()


def bare_side(dsn: str, messages: int, batch_size: int, statement: bytes, name: str) -> Side:
    """One statement a batch by psycopg, each a transaction, until it finds nothing."""

    def work() -> int:
        moved = 0
        with psycopg.connect(dsn, autocommit=True) as connection:
            connection.execute("set timezone to 'UTC'")
            while count := connection.execute(statement, {"batch_size": batch_size}, prepare=True).rowcount:
                moved += count
        return moved

    return Side(f"{name}, batches of {batch_size}", lambda: fill_delayed(dsn, messages, due_in=-60), work)


def idle_side(dsn: str, seconds: float, name: str, endpoint: str) -> Side:
    """So many seconds of an idle mover; a "message" is a second."""

    async def work() -> int:
        mover = rowbus.DelayedMover(endpoint, database=dsn)
        await mover.start()
        await asyncio.sleep(seconds)
        await mover.stop()
        return round(seconds)

    return Side(name, lambda: None, lambda: asyncio.run(work()))


def cpu_share(runs: Sequence[Measurement]) -> float:
    """Return how much of one processor the client and the server used, in per cent: the least of the runs."""
    return 100 * min((run.client_cpu + run.server_cpu) / run.seconds for run in runs)


def plan_of_a_look(dsn: str) -> list[str]:
    """Return the server's plan of what an idle mover asks, with what it read."""
    with psycopg.connect(dsn, autocommit=True) as connection:
        query = b"explain (analyze, buffers, costs off, timing off) " + DELAYED.next_due().query.native
        connection.execute(query)  # what is read for the first time is read into memory
        return [line for (line,) in connection.execute(query).fetchall()]


def milliseconds_of_a_look(dsn: str, looks: int = 200) -> float:
    """Return what one look takes, round trip included."""
    with psycopg.connect(dsn, autocommit=True) as connection:
        query = DELAYED.next_due().query.text
        started = time.perf_counter()
        for _ in range(looks):
            connection.execute(query, prepare=True)
        return (time.perf_counter() - started) / looks * 1000
