"""`def` handlers of a batch: called one after the other in one thread, and what goes wrong is as with any other."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from contextvars import ContextVar

import psycopg
import pytest

import rowbus
from rowbus.running.threads import Threads
from rowbus.running.turns import into_thread
from tests.conformance.endpoints import ERROR, NO_RETRIES, Endpoints, PlaceOrder
from tests.conformance.on_postgresql import WRITE_BUSINESS
from tests.conformance.transport import eventually, in_transaction_modes, in_transaction_modes_failing

pytestmark = pytest.mark.only("PostgreSQL", reason="it looks into PostgreSQL's tables")

FAILURES = {
    "raises": "ValueError",
    "spoils": "psycopg.errors.DivisionByZero",
    "swallows": "rowbus.errors.HandlerError",
    "cannot be read": "rowbus.errors.MessageDeserializationError",
}
"""A deed that goes wrong, and the type of the failure as the error queue has it."""

ORDERS = [str(number) for number in range(10)]
seen: ContextVar[str] = ContextVar("seen", default="")
Handle = Callable[[PlaceOrder, rowbus.SyncContext], None]


class Spy:
    """Counts the calls of a method."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, owner: type, name: str) -> None:
        self.calls = 0
        method = getattr(owner, name)

        def call(*arguments: object) -> object:
            self.calls += 1
            return method(*arguments)

        monkeypatch.setattr(owner, name, call)


def is_on_loop() -> bool:
    return threading.current_thread() is threading.main_thread()


def serving(endpoints: Endpoints, handle: Handle, *, concurrency: int = 1) -> rowbus.Endpoint:
    sales = endpoints.make("Sales", batch_size=10, concurrency=concurrency, recoverability=NO_RETRIES)

    def place(message: PlaceOrder, context: rowbus.SyncContext) -> None:
        handle(message, context)

    sales.handler(place)
    return sales


async def process(endpoints: Endpoints, sales: rowbus.Endpoint, orders: list[str]) -> None:
    """Have these messages wait in the queue when the endpoint starts, and wait until all are dealt with."""
    backend = endpoints.backend
    await backend.create_business_tables()
    await backend.create_queue("Billing")
    await sales.install()
    await backend.client().send_many("Sales", map(PlaceOrder, orders))

    async def done() -> bool:
        return await backend.count("Sales") == 0

    async with sales:
        await eventually(done)


async def bodies(endpoints: Endpoints, queue: str) -> list[str]:
    return sorted(str(row.body)[15:-3] for row in await endpoints.backend.rows(queue))


@in_transaction_modes
async def test_a_batch_is_handled_in_its_order_in_one_thread_without_leaving_it(
    endpoints: Endpoints, monkeypatch: pytest.MonkeyPatch
) -> None:
    handled: list[tuple[str, int]] = []
    switches = Spy(monkeypatch, Threads, "run")

    def handle(message: PlaceOrder, context: rowbus.SyncContext) -> None:
        handled.append((message.order_id, threading.get_ident()))
        context.connection.execute(WRITE_BUSINESS, [message.order_id])
        context.send("Billing", message)

    await process(endpoints, serving(endpoints, handle), ORDERS)

    assert [order for order, _ in handled] == ORDERS
    assert len({thread for _, thread in handled} - {threading.main_thread().ident}) == 1
    assert switches.calls == 1
    assert await endpoints.backend.business() == ORDERS
    assert await bodies(endpoints, "Billing") == ORDERS


@in_transaction_modes_failing
@pytest.mark.parametrize("bad", FAILURES)
async def test_one_bad_message_neither_loses_nor_repeats_the_effects_of_the_others(
    endpoints: Endpoints, bad: str, caplog: pytest.LogCaptureFixture
) -> None:
    def handle(message: PlaceOrder, context: rowbus.SyncContext) -> None:
        context.connection.execute(WRITE_BUSINESS, [message.order_id])
        if message.order_id == "raises":
            raise ValueError(message.order_id)
        if message.order_id == "spoils":
            context.connection.execute("select 1 / 0")
        if message.order_id == "swallows":
            with suppress(psycopg.Error):
                context.connection.execute("select 1 / 0")

    sales, client = serving(endpoints, handle), endpoints.backend.client()
    await sales.install()
    await client.send_many("Sales", [PlaceOrder(order) for order in ORDERS[:5]])
    if bad == "cannot be read":
        await client.send("Sales", b"no JSON", type="Shop.Messages.PlaceOrder")
    else:
        await client.send("Sales", PlaceOrder(bad))

    await process(endpoints, sales, ORDERS[5:])

    assert await endpoints.backend.business() == ORDERS
    (failed,) = await endpoints.backend.rows(ERROR)
    assert failed.headers["NServiceBus.ExceptionInfo.ExceptionType"] == FAILURES[bad]
    assert "rowbus.receiving" not in {record.name for record in caplog.records}, "only the message failed"


async def test_async_handlers_beside_them_run_on_the_loop(endpoints: Endpoints) -> None:
    places: list[tuple[str, bool]] = []
    sales = serving(endpoints, lambda message, _context: places.append((message.order_id, is_on_loop())))

    @sales.handler
    async def also(message: PlaceOrder, context: rowbus.Context) -> None:
        await context.connection.execute(WRITE_BUSINESS, [message.order_id])
        await asyncio.sleep(0)
        places.append((message.order_id, is_on_loop()))

    await process(endpoints, sales, ORDERS)

    assert places == [(order, place) for order in ORDERS for place in (False, True)]
    assert await endpoints.backend.business() == ORDERS


async def test_own_steps_around_them_run_on_the_loop(endpoints: Endpoints) -> None:
    places: list[tuple[str, bool]] = []
    sales = serving(endpoints, lambda _message, _context: places.append(("handler", is_on_loop())))

    async def step(_context: rowbus.StepContext, proceed: rowbus.Proceed) -> None:
        async with asyncio.timeout(60):
            places.append(("before", is_on_loop()))
            await proceed()
        places.append(("after", is_on_loop()))

    sales.use(step)
    await process(endpoints, sales, ORDERS)

    assert places == [("before", True), ("handler", False), ("after", True)] * len(ORDERS)


async def test_a_context_variable_that_one_sets_is_not_seen_by_the_next(endpoints: Endpoints) -> None:
    values: list[str] = []

    def handle(message: PlaceOrder, _context: rowbus.SyncContext) -> None:
        values.append(seen.get())
        seen.set(message.order_id)

    await process(endpoints, serving(endpoints, handle), ORDERS)

    assert values == [""] * len(ORDERS)


async def test_one_may_run_a_loop_of_its_own(endpoints: Endpoints) -> None:
    ran: list[str] = []

    async def call(order: str) -> None:
        await asyncio.sleep(0)
        if not await into_thread():
            ran.append(order)

    await process(
        endpoints, serving(endpoints, lambda message, _context: asyncio.run(call(message.order_id))), ORDERS
    )

    assert ran == ORDERS


async def test_one_publishes_and_sends_at_once_by_way_of_the_loop(endpoints: Endpoints) -> None:
    def handle(message: PlaceOrder, context: rowbus.SyncContext) -> None:
        context.send("Billing", message, immediate=True)
        context.publish({"order": message.order_id}, type="Shop.Placed")

    await process(endpoints, serving(endpoints, handle), ORDERS)

    assert await bodies(endpoints, "Billing") == ORDERS


async def test_batches_of_several_slots_are_handled_at_the_same_time(endpoints: Endpoints) -> None:
    together = threading.Barrier(2, timeout=60)
    met: list[int] = []

    def handle(message: PlaceOrder, _context: rowbus.SyncContext) -> None:
        if message.order_id in {"0", "10"}:
            met.append(together.wait())

    await process(endpoints, serving(endpoints, handle, concurrency=2), [str(number) for number in range(20)])

    assert sorted(met) == [0, 1]


async def test_a_stop_leaves_one_that_hangs_to_itself_and_the_batch_in_its_queue(
    endpoints: Endpoints,
) -> None:
    began, release = threading.Event(), threading.Event()
    handled: list[str] = []

    def handle(message: PlaceOrder, context: rowbus.SyncContext) -> None:
        context.connection.execute(WRITE_BUSINESS, [message.order_id])
        handled.append(message.order_id)
        if message.order_id == "3":
            began.set()
            release.wait(60)

    sales, backend = serving(endpoints, handle), endpoints.backend
    await backend.create_business_tables()
    await sales.install()
    await backend.client().send_many("Sales", map(PlaceOrder, ORDERS))
    try:
        await sales.start()
        await eventually(began.is_set)
        await sales.stop(0)
        assert await backend.count("Sales") == len(ORDERS)
        assert await backend.business() == []
    finally:
        release.set()
    await eventually(lambda: not any(one.name.startswith("rowbus-handler") for one in threading.enumerate()))
    assert handled == ["0", "1", "2", "3"], "none is called after the stop"
