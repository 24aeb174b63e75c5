"""Timeouts: they go with their saga, in its transaction, and those that have come are noted no more."""

from __future__ import annotations

from contextlib import nullcontext
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest

import rowbus
from rowbus.messages.address import QueueAddress
from rowbus.sagas.resending import Places, resend
from rowbus.sagas.table import SagaRow, saga_table
from rowbus.sagas.timeouts import Timeout, read_timeouts, write_timeouts
from rowbus.transport.delayed.table import delayed_table
from tests.conformance.endpoints import ERROR, NO_RETRIES
from tests.conformance.transport import eventually
from tests.sagas.shop import CancelOrder, OrderSaga, PaymentOverdue, PlaceOrder

if TYPE_CHECKING:
    from tests.conformance.endpoints import Endpoints

DELAYED = "Sales.Delayed"


class Cancelling(OrderSaga, name="Shop.Sagas.OrderSaga", correlation="order_id"):
    """Waits for two timeouts, and completes when it is cancelled, unless it is the order that fails then."""

    @rowbus.starts(PlaceOrder, by=lambda message: message.order_id)
    async def placed(self, message: PlaceOrder, context: rowbus.SagaContext) -> None:
        await context.request_timeout(PaymentOverdue(3), after=timedelta(days=3))
        await context.request_timeout(PaymentOverdue(5), at=datetime.now(UTC) + timedelta(days=5))

    @rowbus.handles(CancelOrder, by=lambda message: message.order_id)
    async def cancelled(self, message: CancelOrder, context: rowbus.SagaContext) -> None:
        await context.request_timeout(PaymentOverdue(7), after=timedelta(days=7))
        context.complete()

    @rowbus.timeout(PaymentOverdue)
    async def overdue(self, message: PaymentOverdue, context: rowbus.SagaContext) -> None:
        self.state.steps.append(f"overdue after {message.days}")


@pytest.fixture
def sales(endpoints: Endpoints) -> rowbus.Endpoint:
    sales = endpoints.make("Sales", recoverability=NO_RETRIES)
    sales.add(Cancelling)
    return sales


async def delayed(endpoints: Endpoints, count: int) -> None:
    async def there() -> bool:
        return await endpoints.backend.count(DELAYED) == count

    await eventually(there)


async def noted(endpoints: Endpoints) -> list[Timeout]:
    """Return the timeouts that the one saga waits for."""
    session = await endpoints.backend.database.connect()
    (saga,) = await session.run(saga_table(endpoints.queue("Sales.OrderSaga")).peek(2))
    await session.close()
    return read_timeouts(saga.row.timeouts)


async def test_the_timeouts_of_a_saga_go_when_it_completes(
    endpoints: Endpoints, sales: rowbus.Endpoint
) -> None:
    async with sales:
        for order in ("1", "2"):
            await sales.send_local(PlaceOrder(order))
        await delayed(endpoints, 4)
        await sales.send_local(CancelOrder("1"))
        await delayed(endpoints, 2)
    assert sorted(timeout.id for timeout in await noted(endpoints)) == sorted(
        row.headers["NServiceBus.MessageId"] or "" for row in await endpoints.backend.delayed_rows(DELAYED)
    )
    assert await endpoints.backend.count(ERROR) == 0


async def test_the_timeouts_stay_when_the_completing_attempt_fails(
    endpoints: Endpoints, sales: rowbus.Endpoint
) -> None:
    @sales.handler
    async def fail(message: CancelOrder) -> None:
        raise RuntimeError("after the saga has completed")

    async with sales:
        await sales.send_local(PlaceOrder("1"))
        await delayed(endpoints, 2)
        await sales.send_local(CancelOrder("1"))

        async def failed() -> bool:
            return await endpoints.backend.count(ERROR) == 1

        await eventually(failed)
    assert await endpoints.backend.count(DELAYED) == 2


async def test_a_timeout_that_came_is_noted_no_more(endpoints: Endpoints, sales: rowbus.Endpoint) -> None:
    async with sales:
        await sales.send_local(PlaceOrder("1"))
        await delayed(endpoints, 2)
        first, second = await noted(endpoints)
        assert second.due - first.due < timedelta(days=2, minutes=5)
        session = await endpoints.backend.database.connect()
        table = delayed_table(endpoints.queue(DELAYED))
        assert await session.run(table.waits_at(first.id, first.due))
        assert not await session.run(table.waits_at(second.id, first.due))
        (saga,) = await session.run(saga_table(endpoints.queue("Sales.OrderSaga")).peek(2))
        await session.close()
        headers = {
            "NServiceBus.SagaId": saga.row.id,
            "NServiceBus.IsSagaTimeoutMessage": "True",
            "NServiceBus.MessageId": first.id,
        }
        await sales.send_local(PaymentOverdue(3), headers=headers)

        async def came() -> bool:
            return await noted(endpoints) == [second]

        await eventually(came)


async def test_a_batch_that_begins_and_completes_a_saga_leaves_no_timeout(endpoints: Endpoints) -> None:
    sales = endpoints.make("Sales", concurrency=1, batch_size=6)
    sales.add(Cancelling)
    await sales.install()
    for kind in ("PlaceOrder", "CancelOrder"):
        headers = f'{{"NServiceBus.EnclosedMessageTypes":"Shop.{kind}"}}'
        await endpoints.backend.insert(sales.address, headers, b'{"order_id":"1"}')
    async with sales:

        async def empty() -> bool:
            return await endpoints.backend.count("Sales") == 0

        await eventually(empty)
    assert await endpoints.backend.count(DELAYED) == 0
    assert await endpoints.backend.count("Sales.OrderSaga") == 0


def test_a_saga_that_completes_meanwhile_is_sent_no_timeout_again() -> None:
    class Empty:
        """A session of a database where nothing is, nor the saga any more."""

        def run(self, statement: object) -> None: ...

        def transaction(self) -> nullcontext[None]:
            return nullcontext()

    places = Places(*(QueueAddress("public", name) for name in ("Sales.Delayed", "Sales", "error")))
    lost = write_timeouts([Timeout("t-1", datetime.now(UTC))])
    row = SagaRow("0f3c6a5e-1c57-4c62-9d5a-0123456789ab", "R1", "{}", 1, 1, None, "m-1", lost)
    table = saga_table(QueueAddress("public", "Sales.OrderSaga"))

    assert resend(Empty(), table, row, places) == 0  # type: ignore[arg-type] # all that it uses
