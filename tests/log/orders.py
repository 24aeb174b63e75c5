"""A log called "orders" as tests of its consumers use it, and how they wait for them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

import psycopg

import rowbus
from rowbus.settings import ConsumerSettings

SCRIPT = """
select pgq.create_queue('orders'), pgq.set_queue_config('orders', 'ticker_max_lag', '0'),
    pgq.set_queue_config('orders', 'ticker_max_count', '1'), pgq.set_queue_config('orders', 'ticker_idle_period', '0');
create table seen (data text, at serial);
"""
"""Statements that make the log and the table: the `log_script` of the tests."""

PATIENCE = 90.0  # seconds until a test that waits gives up
SOON = timedelta(milliseconds=20)
QUICK = ConsumerSettings(poll_delay=SOON, retry_delay=timedelta(0), max_retries=2)


class Orders:
    """The log, a connection beside its consumers, and a table `seen` that handlers write to."""

    def __init__(self, dsn: str, connection: psycopg.Connection[Any]) -> None:
        self.dsn = dsn
        self.connection = connection

    def log(self) -> rowbus.Log:
        return rowbus.Log(self.dsn, "orders")

    def put(self, *datas: str, key: str | None = None) -> None:
        """Append events in one transaction, not ticked yet."""
        with self.connection.transaction():
            for data in datas:
                self.connection.execute(
                    "select pgq.insert_event('orders', 'order', %s, %s, null, null, null)", [data, key]
                )

    def tick(self) -> int:
        """Tick, whatever the schedule says."""
        for _ in range(3):
            (tick,) = self.one("select pgq.ticker('orders')")
            if tick is not None:
                return int(tick)
            self.connection.execute("select pgq.force_tick('orders')")
        raise AssertionError

    def deliver(self, *datas: str, key: str | None = None) -> int:
        """Append events and tick."""
        self.put(*datas, key=key)
        return self.tick()

    def register(self, consumer: str) -> None:
        self.connection.execute("select pgq.register_consumer('orders', %s)", [consumer])

    def redeliver(self) -> int:
        """Move the retries that are due into the log, and tick."""
        moved = 0
        while count := self.one("select pgq.maint_retry_events()")[0]:
            moved += count
        self.tick()
        return moved

    def seen(self) -> list[str]:
        """Say what handlers have written, in the order of the writing."""
        return [data for (data,) in self.all("select data from seen order by at")]

    def position(self, consumer: str = "one") -> tuple[int, int | None]:
        """Say which tick was finished last, and which batch is in hand."""
        query = "select last_tick, current_batch from pgq.get_consumer_info('orders', %s)"
        last, batch = self.one(query, consumer)
        return last, batch

    def one(self, query: str, *parameters: object) -> tuple[Any, ...]:
        (row,) = self.all(query, *parameters)
        return tuple(row)

    def all(self, query: str, *parameters: object) -> list[Any]:
        return self.connection.execute(query, parameters).fetchall()

    async def finished(self, consumer: str = "one", tick: int | None = None) -> None:
        """Wait until a consumer has finished the batch that ends with a tick, or with the newest."""
        if tick is None:
            (tick,) = self.one("select max(tick_id) from pgq.tick")
        await until(lambda: self.position(consumer)[0] >= (tick or 0))

    def end_sessions(self, consumer: str = "one") -> int:
        """End the sessions of a consumer, as a failover does; says how many."""
        query = "select pg_terminate_backend(pid) from pg_stat_activity where application_name = %s"
        return len(self.all(query, f"rowbus orders/{consumer}"))


async def until(condition: Callable[[], bool]) -> None:
    """Wait for something that only the database knows."""
    async with asyncio.timeout(PATIENCE):
        while not condition():  # noqa: ASYNC110 - nothing in this process knows
            await asyncio.sleep(0.005)


async def times(signal: asyncio.Semaphore, count: int = 1) -> None:
    """Wait until a signal has been given so many times."""
    async with asyncio.timeout(PATIENCE):
        for _ in range(count):
            await signal.acquire()


async def note(context: rowbus.LogContext, *events: rowbus.Event) -> None:
    """Do what handlers of these tests do."""
    for event in events:
        await context.connection.execute("insert into seen (data) values (%s)", [event.data])


def texts(numbers: Sequence[int] | range) -> list[str]:
    return [str(number) for number in numbers]


Given = rowbus.Event | list[rowbus.Event]
"""Message that handlers take which serve both ways."""


def several(given: Given) -> list[rowbus.Event]:
    return given if isinstance(given, list) else [given]
