"""A process from its first message to its last, on every database."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Self

import rowbus
from tests.conformance.endpoints import ERROR
from tests.conformance.transport import eventually
from tests.sagas.shop import (
    CancelOrder,
    OrderDone,
    OrderSaga,
    OrderShipped,
    PaymentReceived,
    PlaceOrder,
    ShipOrder,
)

if TYPE_CHECKING:
    from tests.conformance.endpoints import Endpoints

TABLE = "Sales.OrderSaga"


class Shop:
    """Sales with its saga, Shipping, and a customer who is answered."""

    def __init__(self, endpoints: Endpoints, saga: type[OrderSaga] = OrderSaga) -> None:
        self.backend = endpoints.backend
        self.answers: list[OrderDone] = []
        self.notes: list[str | None] = []
        self.sales = endpoints.make("Sales")
        self.sales.add(saga)
        self.shipping = endpoints.make("Shipping")
        self.customer = endpoints.make("Customer")

        @self.shipping.handler
        async def ship(message: ShipOrder, context: rowbus.Context) -> None:
            await context.reply(OrderShipped(message.order_id))

        @self.customer.handler
        async def done(message: OrderDone, context: rowbus.Context) -> None:
            self.notes.append(context.headers.get("Shop.Note"))
            self.answers.append(message)

    async def __aenter__(self) -> Self:
        for endpoint in (self.shipping, self.customer, self.sales):
            await endpoint.start()
        return self

    async def __aexit__(self, *_error: object) -> None:
        for endpoint in (self.shipping, self.customer, self.sales):
            await endpoint.stop(5)

    async def sagas(self) -> int:
        return await self.backend.count(TABLE)

    async def is_there(self, table: str, sagas: int = 1) -> bool:
        return await self.backend.count(table) == sagas

    async def has(self, sagas: int) -> None:
        async def there() -> bool:
            return await self.sagas() == sagas

        await eventually(there)


async def test_an_order_is_placed_paid_shipped_and_answered(endpoints: Endpoints) -> None:
    async with Shop(endpoints) as shop:
        await shop.customer.send("Sales", PlaceOrder("1"))
        await shop.has(1)
        await shop.customer.publish(PaymentReceived("1"))
        await eventually(lambda: bool(shop.answers))
        await shop.has(0)
    assert shop.answers == [OrderDone("1", ["placed", "paid", "shipped"])]
    assert shop.notes == ["1"]
    assert await endpoints.backend.count(ERROR) == 0


async def test_a_timeout_comes_back_to_its_saga(endpoints: Endpoints) -> None:
    class Impatient(OrderSaga, name="Shop.Sagas.OrderSaga", correlation="order_id"):
        overdue_after = timedelta(milliseconds=50)

    endpoints.defaults["auto_subscribe"] = True
    shop = Shop(endpoints, Impatient)
    async with shop:
        await shop.customer.subscribe(OrderDone)
        await shop.customer.send("Sales", PlaceOrder("1"))
        await eventually(lambda: bool(shop.answers))
        await shop.has(0)
    assert shop.answers == [OrderDone("1", ["placed", "overdue after 3"])]


async def test_two_that_begin_one_saga_at_once_are_one_saga_and_no_failure(endpoints: Endpoints) -> None:
    inside, go_on = asyncio.Semaphore(0), asyncio.Event()

    class Slow(OrderSaga, name="Shop.Sagas.OrderSaga", correlation="order_id"):
        @rowbus.starts(PlaceOrder, by=lambda message: message.order_id)
        async def placed(self, message: PlaceOrder, context: rowbus.SagaContext) -> None:
            inside.release()
            await go_on.wait()
            self.state.steps.append(f"placed {context.is_new}")

        @rowbus.handles(PaymentReceived, by=lambda message: message.order_id)
        async def paid(self, message: PaymentReceived, context: rowbus.SagaContext) -> None:
            await context.send("Customer", OrderDone(message.order_id, self.state.steps))

    attempts: list[Any] = []
    async with Shop(endpoints, Slow) as shop:

        @shop.sales.handler
        async def count(message: PlaceOrder) -> None:
            attempts.append(message)

        for _ in range(3):
            await shop.customer.send("Sales", PlaceOrder("1"))
        await inside.acquire()
        go_on.set()
        await inside.acquire()
        await inside.acquire()
        await shop.customer.publish(PaymentReceived("1"))
        await eventually(lambda: bool(shop.answers))
        assert await shop.sagas() == 1
    assert shop.answers[0].steps[:1] == ["placed True"]
    assert sorted(shop.answers[0].steps[1:]) == ["placed False"] * (len(shop.answers[0].steps) - 1)
    assert len(attempts) == 3


async def test_a_saga_is_found_by_what_a_finder_looks_up(endpoints: Endpoints) -> None:
    async def by_number(message: CancelOrder, context: rowbus.Context) -> str | None:
        await context.send("Customer", OrderDone(message.order_id, ["looked"]))
        return {"number 1": "1"}.get(message.order_id)

    class Found(OrderSaga, name="Shop.Sagas.Found", correlation="order_id"):
        @rowbus.handles(CancelOrder, by=by_number)
        async def cancelled(self, message: CancelOrder, context: rowbus.SagaContext) -> None:
            context.complete()

    async with Shop(endpoints, Found) as shop:
        await shop.customer.send("Sales", PlaceOrder("1"))
        await eventually(lambda: shop.is_there("Sales.Found"))
        await shop.customer.send("Sales", CancelOrder("number 2"))
        await shop.customer.send("Sales", CancelOrder("number 1"))
        await eventually(lambda: shop.is_there("Sales.Found", 0))
        await eventually(lambda: len(shop.answers) == 2)
    assert await endpoints.backend.count(ERROR) == 0


async def test_a_failed_attempt_leaves_the_saga_as_it_was(endpoints: Endpoints) -> None:
    async with Shop(endpoints) as shop:
        await shop.customer.send("Sales", PlaceOrder("1"))
        await shop.has(1)
        await shop.customer.send("Sales", CancelOrder("1"))

        async def failed() -> bool:
            return await shop.backend.count(ERROR) == 1

        await eventually(failed)
        await shop.customer.publish(PaymentReceived("1"))
        await eventually(lambda: bool(shop.answers))
    assert shop.answers[0].steps == ["placed", "paid", "shipped"]


async def test_a_message_without_its_saga_is_consumed(endpoints: Endpoints) -> None:
    async with Shop(endpoints) as shop:
        await shop.customer.publish(PaymentReceived("nobody's"))

        async def consumed() -> bool:
            return await shop.backend.count("Sales") == 0

        await eventually(consumed)
        assert await shop.sagas() == 0
    assert await endpoints.backend.count(ERROR) == 0
