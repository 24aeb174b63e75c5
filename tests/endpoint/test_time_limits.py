"""A handler that runs too long is ended, its failure counts, and its slot goes on."""

from __future__ import annotations

import asyncio
import threading
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

import rowbus
from rowbus.messages.headers import Header
from tests.conformance.endpoints import ERROR, Endpoints, PlaceOrder
from tests.conformance.transport import eventually

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.only("PostgreSQL", reason="its handlers wait by pg_sleep")

SHORT = timedelta(milliseconds=100)


class Hanging:
    """Handlers that hang for the order "hangs", each in a way of its own, and write a row for each call."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.held = threading.Event()
        self.ways: dict[str, Any] = {
            "waits": self.waits,
            "does not give up": self.does_not_give_up,
            "waits for the database": self.waits_for_the_database,
            "hangs in a thread": self.hangs_in_a_thread,
            "waits for the database in a thread": self.waits_for_the_database_in_a_thread,
        }

    async def waits(self, message: PlaceOrder, context: rowbus.Context) -> None:
        await self._write(message, context)
        if message.order_id == "hangs":
            await asyncio.Event().wait()

    async def does_not_give_up(self, message: PlaceOrder, context: rowbus.Context) -> None:
        await self._write(message, context)
        while message.order_id == "hangs":
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                continue

    async def waits_for_the_database(self, message: PlaceOrder, context: rowbus.Context) -> None:
        await self._write(message, context)
        if message.order_id == "hangs":
            await context.connection.execute("select pg_sleep(60)")

    def hangs_in_a_thread(self, message: PlaceOrder, context: rowbus.SyncContext) -> None:
        self._write_in_thread(message, context)
        if message.order_id == "hangs":
            self.held.wait(60)

    def waits_for_the_database_in_a_thread(self, message: PlaceOrder, context: rowbus.SyncContext) -> None:
        self._write_in_thread(message, context)
        if message.order_id == "hangs":
            context.connection.execute("select pg_sleep(60)")

    async def _write(self, message: PlaceOrder, context: rowbus.Context) -> None:
        self.calls.append(message.order_id)
        await context.connection.execute("insert into seen values (%s)", [message.order_id])

    def _write_in_thread(self, message: PlaceOrder, context: rowbus.SyncContext) -> None:
        self.calls.append(message.order_id)
        context.connection.execute("insert into seen values (%s)", [message.order_id])


@pytest.fixture
def hanging() -> Iterator[Hanging]:
    hanging = Hanging()
    yield hanging
    hanging.held.set()


@pytest.mark.parametrize("batch_size", [1, 10])
@pytest.mark.parametrize("way", [*Hanging().ways])
async def test_a_handler_that_runs_too_long_fails_and_holds_up_nothing(
    endpoints: Endpoints, hanging: Hanging, way: str, batch_size: int
) -> None:
    await endpoints.backend.execute("create table seen (id text)")
    policy = rowbus.Recoverability(immediate=1, delayed=0)
    sales = endpoints.make("Sales", recoverability=policy, concurrency=1, batch_size=batch_size)
    sales.handler("Shop.Messages.PlaceOrder", time_limit=SHORT)(hanging.ways[way])

    async with sales:
        for order in ("1", "hangs", "2"):
            await sales.send("Sales", PlaceOrder(order))

        async def ended() -> bool:
            seen = await endpoints.backend.values("select id from seen")
            return len(seen) == 2 and await endpoints.backend.count(ERROR) == 1

        await eventually(ended)
    (failed,) = await endpoints.backend.rows(ERROR)
    assert failed.headers[Header.EXCEPTION_TYPE] == "rowbus.errors.TimeLimitExceededError"
    assert "longer than its time limit (0:00:00.100000)" in str(failed.headers[Header.EXCEPTION_MESSAGE])
    assert hanging.calls.count("hangs") == 2


async def test_a_handler_may_put_things_in_order_when_its_time_is_over(endpoints: Endpoints) -> None:
    done: list[str] = []
    sales = endpoints.make("Sales", time_limit=SHORT)

    @sales.handler
    async def place(message: PlaceOrder) -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            done.append("in order")

    async with sales:
        await sales.send("Sales", PlaceOrder("1"))
        await eventually(lambda: done == ["in order"])
    assert await endpoints.backend.count(ERROR) == 0


async def test_a_handler_that_raises_a_timeout_of_its_own_is_no_handler_that_runs_too_long(
    endpoints: Endpoints,
) -> None:
    policy = rowbus.Recoverability(immediate=0, delayed=0)
    sales = endpoints.make("Sales", recoverability=policy)

    @sales.handler("Shop.Messages.PlaceOrder", time_limit=timedelta(minutes=1))
    def place(message: PlaceOrder) -> None:
        raise TimeoutError("the price list does not answer")

    async with sales:
        await sales.send("Sales", PlaceOrder("1"))

        async def failed() -> bool:
            return await endpoints.backend.count(ERROR) == 1

        await eventually(failed)
    (row,) = await endpoints.backend.rows(ERROR)
    assert row.headers[Header.EXCEPTION_TYPE] == "TimeoutError"


def test_what_is_no_time_limit_is_refused() -> None:
    for limit in (5, timedelta(), "5s"):
        with pytest.raises(rowbus.ConfigurationError, match="time_limit is"):
            rowbus.Endpoint("Sales").handler("A", time_limit=limit)  # type: ignore[arg-type]  # the mistake
        with pytest.raises(rowbus.ConfigurationError, match="time_limit is"):
            rowbus.EndpointSettings(time_limit=limit)  # type: ignore[arg-type]  # the mistake
