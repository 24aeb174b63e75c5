"""A SQL Server that is 5 ms away: an endpoint, against a loop of begin, receive and commit, a round trip each.

Invariant: it works in a schema of its own on the server that ROWBUS_TEST_SQLSERVER names, which is removed.
"""

from __future__ import annotations

import asyncio
import os
import statistics
import time
import uuid
from collections.abc import Callable, Generator
from contextlib import closing, contextmanager

import rowbus
from benchmarks.reporting import Bench, NotRunError, Result, console
from benchmarks.workload import MESSAGE, PlaceOrder
from rowbus.database.sqlserver import driver
from rowbus.database.sqlserver.backend import Database, addresses_of
from rowbus.messages.sqlserver_address import quote
from rowbus.transport.queues.sqlserver import QueueTable
from rowbus.transport.receiving.decisions import FROM_THE_START
from tests.chaos.proxy import Proxy

DELAY = 0.005  # seconds, in each direction
MESSAGES = 300


def far_sqlserver(bench: Bench) -> list[Result]:
    """(s) One message a transaction on a SQL Server that is far away."""
    near = os.environ.get("ROWBUS_TEST_SQLSERVER")
    if near is None:
        raise NotRunError("ROWBUS_TEST_SQLSERVER names no server")
    source = driver.parse(near)
    with closing(Proxy(source.port, host=source.host, delay=DELAY)) as proxy:
        far = near.replace(f"@{source.server}/", f"@127.0.0.1:{proxy.port}/")
        with _schema(near) as schema:
            queue = _Queue(near, far, schema, bench.messages(MESSAGES))
            return [queue.compare(bench.rounds)]


@contextmanager
def _schema(dsn: str) -> Generator[str]:
    """Make a schema with the queues, and remove it with all that is in it by then."""
    name = f"rowbus_bench_{uuid.uuid4().hex[:8]}"
    tables = (
        "select t.name from sys.tables as t inner join sys.schemas as s on t.schema_id = s.schema_id"
        f" where s.name = N'{name}'"
    )
    with Database(dsn).session() as session:
        session.control(f"create schema {quote(name)}")
        try:
            for queue in ("bench", "error"):
                session.run_all(QueueTable(addresses_of(dsn, name).for_endpoint(queue)).create())
            yield name
        finally:
            for (table,) in session.ask(tables):
                session.control(f"drop table {quote(name)}.{quote(str(table))}")
            session.control(f"drop schema {quote(name)}")


class _Queue:
    """A queue, near for what fills it and far for what is measured."""

    def __init__(self, near: str, far: str, schema: str, messages: int) -> None:
        self._near, self._far, self._schema, self._messages = near, far, schema, messages
        self._table = QueueTable(addresses_of(near, schema).for_endpoint("bench"))

    def compare(self, rounds: int) -> Result:
        ratios = list[float]()
        for _ in range(rounds):
            ours, theirs = self._rate(lambda: asyncio.run(self._serve())), self._rate(self._loop)
            console.print(f"(s) {ours:.1f} messages/s by an endpoint, {theirs:.1f} in three round trips")
            ratios.append(ours / theirs)
        return Result("(s) far SQL Server, against three round trips", statistics.median(ratios), 2.5)

    def _rate(self, receive: Callable[[], list[float]]) -> float:
        """Return the messages per second between the first and the last, whose times `receive` tells."""
        with closing(driver.connect(driver.parse(self._near))) as connection:
            rowbus.Client(connection, schema=self._schema).send_many("bench", [MESSAGE] * self._messages)
        times = receive()
        return (len(times) - 1) / (times[-1] - times[0])

    async def _serve(self) -> list[float]:
        times, done = list[float](), asyncio.Event()
        settings = rowbus.EndpointSettings(schema=self._schema, concurrency=1)
        endpoint = rowbus.Endpoint("bench", database=self._far, settings=settings)

        @endpoint.handler
        async def note(_message: PlaceOrder) -> None:
            times.append(time.perf_counter())
            if len(times) == self._messages:
                done.set()

        async with endpoint:
            await done.wait()
        return times

    def _loop(self) -> list[float]:
        times = list[float]()
        with Database(self._far).session() as session:
            while True:
                session.begin_transaction()
                rows = session.run(self._table.receive(1, FROM_THE_START))
                session.commit_transaction()
                if not rows:
                    return times
                times.append(time.perf_counter())
