"""An endpoint with deduplicate_for that takes batches: each message is noted by itself, and the note undone with it."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

import rowbus
from rowbus.messages.headers import Header
from tests.conformance.endpoints import ERROR, PlaceOrder
from tests.conformance.transport import eventually, in_transaction_modes_failing

if TYPE_CHECKING:
    from tests.conformance.endpoints import Endpoints

SIZE = 20


class Sales:
    """An endpoint that takes all that waits as one batch, and fails at the orders `bad`, the first `times` times."""

    def __init__(self, endpoints: Endpoints, *bad: str, times: int = 100) -> None:
        self.backend = endpoints.backend
        self.attempts: list[str] = []
        self.endpoint = endpoints.make(
            "Sales",
            batch_size=SIZE,
            concurrency=1,
            deduplicate_for=timedelta(days=7),
            recoverability=rowbus.Recoverability(immediate=1, delayed=0),
        )

        @self.endpoint.handler
        async def place(message: PlaceOrder, context: rowbus.Context) -> None:
            self.attempts.append(message.order_id)
            await self.backend.write(context.connection, message.order_id)
            if message.order_id in bad and self.attempts.count(message.order_id) <= times:
                raise ValueError(message.order_id)

    async def handle(self, *orders: str) -> None:
        """Have orders, whose ids are their messages', wait when the endpoint starts, until the queue is empty."""
        await self.endpoint.install()
        for order in orders:
            await self.backend.client().send("Sales", PlaceOrder(order), headers={Header.MESSAGE_ID: order})

        async def done() -> bool:
            return await self.backend.count("Sales") == 0

        async with self.endpoint:
            await eventually(done)


@pytest.fixture
async def business(endpoints: Endpoints) -> None:
    await endpoints.backend.create_business_tables()


@pytest.mark.usefixtures("business")
@in_transaction_modes_failing
async def test_a_message_that_is_given_up_is_not_remembered_and_the_others_of_its_batch_are(
    endpoints: Endpoints,
) -> None:
    sales = Sales(endpoints, "bad", times=2)
    await sales.handle("1", "bad", "2")
    assert await endpoints.backend.count(ERROR) == 1
    assert await endpoints.backend.count("Sales.Inbox") == 2

    again = Sales(endpoints)
    await again.handle("1", "bad", "2", "3")

    assert sorted(again.attempts) == ["3", "bad"]
    assert await endpoints.backend.business() == ["1", "2", "3", "bad"]


@pytest.mark.usefixtures("business")
@in_transaction_modes_failing
async def test_a_message_that_succeeds_the_second_time_is_remembered(endpoints: Endpoints) -> None:
    sales = Sales(endpoints, "bad", times=1)
    await sales.handle("1", "bad", "2")
    assert sales.attempts.count("bad") == 2

    again = Sales(endpoints)
    await again.handle("bad", "2", "1")

    assert again.attempts == []
    assert await endpoints.backend.business() == ["1", "2", "bad"]
    assert await endpoints.backend.count(ERROR) == 0
