"""When connections break or the server goes away: the endpoint goes on, loses nothing, and says so in a few lines."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Unpack

import pytest

import rowbus
from rowbus.running import backoff
from tests.conformance.backend import Backend
from tests.conformance.endpoints import ERROR, Endpoints, PlaceOrder
from tests.conformance.on_postgresql import WRITE_BUSINESS, PostgreSQL
from tests.conformance.settings import Settings
from tests.conformance.transport import SENDS_ATOMIC, eventually, in_transaction_modes_failing, never
from tests.fixtures.database import CrashableServer

pytestmark = pytest.mark.only("PostgreSQL", reason="it looks into PostgreSQL's tables")

QUICKLY = 0.05
SOON = 5.0  # seconds: less than the peek delay of the test that uses it
ORDERS = 200


@pytest.fixture(autouse=True)
def _quick_breakers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have a failure wait 50 ms instead of 1 s, and 10 s once critical."""
    monkeypatch.setattr(backoff, "WAIT_WHEN_ARMED", QUICKLY)
    monkeypatch.setattr(backoff, "WAIT_WHEN_TRIGGERED", QUICKLY)


class Writer:
    """An endpoint that writes a row for each order and sends it on."""

    def __init__(self, endpoints: Endpoints, **settings: Unpack[Settings]) -> None:
        self.handled = 0
        self.critical: list[str] = []
        self.endpoint = endpoints.make(
            "Sales", on_critical_error=lambda text, _error: self.critical.append(text), **settings
        )

        @self.endpoint.handler
        async def place(message: PlaceOrder, context: rowbus.Context) -> None:
            await context.connection.execute(WRITE_BUSINESS, [message.order_id])
            await context.send("Billing", message)
            self.handled += 1
            await asyncio.sleep(0.002)


async def prepare(backend: Backend, writer: Writer, orders: int = ORDERS) -> None:
    await backend.create_business_tables()
    await backend.create_queue("Billing")
    await writer.endpoint.install()
    await backend.client().send_many("Sales", (PlaceOrder(f"{n:04}") for n in range(orders)))


async def drained(backend: Backend) -> bool:
    return await backend.count("Sales") == 0


def loud(caplog: pytest.LogCaptureFixture) -> list[str]:
    """Return the lines an operator would see, without those of single messages that go back to the queue."""
    return [
        record.getMessage()
        for record in caplog.records
        if record.levelno >= logging.INFO and record.name.startswith("rowbus")
    ]


@pytest.mark.slow
@in_transaction_modes_failing
async def test_broken_connections_lose_nothing_and_double_nothing_written(
    endpoints: Endpoints, caplog: pytest.LogCaptureFixture
) -> None:
    backend, writer = endpoints.backend, Writer(endpoints)
    await prepare(backend, writer)

    async with writer.endpoint:
        for step in range(1, 5):
            await eventually(lambda step=step: writer.handled >= step * ORDERS // 6)
            assert await backend.terminate_sessions() > 0
        await eventually(lambda: drained(backend))

    assert await backend.business() == [f"{n:04}" for n in range(ORDERS)]
    billed = [str(row.body) for row in await backend.rows("Billing")]
    assert len(set(billed)) == ORDERS
    if endpoints.case.mode is SENDS_ATOMIC.mode:
        assert len(billed) == ORDERS
    assert await backend.count(ERROR) == 0
    assert writer.critical == []


async def test_a_broken_idle_connection_is_replaced(endpoints: Endpoints) -> None:
    backend, writer = endpoints.backend, Writer(endpoints, peek_delay=timedelta(seconds=10))
    await prepare(backend, writer, 1)

    async with writer.endpoint:
        for number in range(1, 6):
            await eventually(lambda number=number: writer.handled == number, SOON)
            await eventually(lambda: drained(backend))
            await backend.terminate_sessions()
            await backend.client().send("Sales", PlaceOrder(str(number)))
        await eventually(lambda: writer.handled == 6, SOON)


@pytest.fixture
async def crashable(crashable_server: CrashableServer) -> AsyncIterator[PostgreSQL]:
    backend = await PostgreSQL.open(crashable_server.dsn)
    yield backend
    await backend.close()


async def reopened(backend: PostgreSQL, server: CrashableServer) -> PostgreSQL:
    """Give the suite's own connection back after its server was restarted."""
    await backend.close()
    backend.connection = (await PostgreSQL.open(server.dsn)).connection
    return backend


@pytest.mark.parametrize("crash", [True, False], ids=["kill", "stop"])
async def test_an_endpoint_goes_on_when_its_server_is_back(
    crashable_server: CrashableServer, crashable: PostgreSQL, caplog: pytest.LogCaptureFixture, *, crash: bool
) -> None:
    caplog.set_level(logging.INFO, "rowbus")
    endpoints = Endpoints(crashable, SENDS_ATOMIC)
    writer = Writer(endpoints, concurrency=8)
    await prepare(crashable, writer)
    await writer.endpoint.start()
    await eventually(lambda: writer.handled >= ORDERS // 3)
    caplog.clear()

    await asyncio.to_thread(crashable_server.kill if crash else crashable_server.stop)
    await never(lambda: False, 0.5)
    during = loud(caplog)
    await asyncio.to_thread(crashable_server.start)
    await reopened(crashable, crashable_server)

    await eventually(lambda: drained(crashable))
    await endpoints.stop_all()
    assert await crashable.business() == [f"{n:04}" for n in range(ORDERS)]
    assert await crashable.count("Billing") == ORDERS
    assert await crashable.count(ERROR) == 0
    assert 1 <= len(during) <= 6, during
    assert len(loud(caplog)) <= 14, loud(caplog)
    assert any("works again" in line for line in loud(caplog))
    assert all("\n" not in line for line in loud(caplog))
    assert writer.critical == []


async def test_an_outage_that_lasts_is_a_critical_error_once_for_each_kind(
    crashable_server: CrashableServer, crashable: PostgreSQL, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "rowbus")
    endpoints = Endpoints(crashable, SENDS_ATOMIC)
    writer = Writer(endpoints, time_to_trigger_circuit_breaker=timedelta(milliseconds=300))
    await prepare(crashable, writer, 1)
    await writer.endpoint.start()
    await eventually(lambda: writer.handled == 1)
    await eventually(lambda: drained(crashable))

    def looking() -> list[str]:
        """Give the errors of what always looks; a slot may be receiving, and then fails for so long, or may not."""
        return [error for error in writer.critical if "receive from" not in error]

    await asyncio.to_thread(crashable_server.stop)
    await eventually(lambda: len(looking()) == 2)
    await never(lambda: len(looking()) > 2, 0.5)
    assert sorted(looking()) == [
        'Failed to move matured delayed messages to input queue: "public"."Sales.Delayed"',
        'Failed to peek "public"."Sales"',
    ]

    await asyncio.to_thread(crashable_server.start)
    await reopened(crashable, crashable_server)
    await rowbus.AsyncClient(crashable.connection).send("Sales", PlaceOrder("again"))
    await eventually(lambda: writer.handled == 2)
    await eventually(lambda: drained(crashable))
    for what in ("Moving delayed messages", 'Peeking "public"."Sales"'):
        await eventually(lambda what=what: any(f"{what} works again" in line for line in loud(caplog)))

    await asyncio.to_thread(crashable_server.stop)
    await eventually(lambda: len(looking()) == 4)
    await endpoints.stop_all()
    await asyncio.to_thread(crashable_server.start)


async def test_a_server_that_is_not_there_is_an_error_at_the_start(crashable_server: CrashableServer) -> None:
    crashable_server.stop()
    with pytest.raises(rowbus.ConnectionLostError):
        await rowbus.Endpoint("Sales", database=crashable_server.dsn).start()
    crashable_server.start()
