"""`context.on_commit`: called after the commit of an attempt that succeeded, in both kinds of handlers."""

from __future__ import annotations

import pytest

import rowbus
from tests.conformance.endpoints import NO_RETRIES, Endpoints, PlaceOrder
from tests.conformance.transport import eventually, in_transaction_modes

ONE_RETRY = rowbus.Recoverability(immediate=1, delayed=0)


@pytest.mark.parametrize("kind", ["def", "async def"])
@in_transaction_modes
async def test_calls_are_made_once_the_message_is_gone(endpoints: Endpoints, kind: str) -> None:
    called = list[str]()
    sales = endpoints.make("Sales", recoverability=NO_RETRIES)

    if kind == "def":

        @sales.handler
        def place(message: PlaceOrder, context: rowbus.SyncContext) -> None:
            context.on_commit(lambda: called.append(message.order_id))

    else:

        @sales.handler
        async def place_async(message: PlaceOrder, context: rowbus.Context) -> None:
            context.on_commit(lambda: called.append(message.order_id))

    async def all_called() -> bool:
        return len(called) == 3

    async with sales:
        for number in range(3):
            await sales.send("Sales", PlaceOrder(str(number)))
        await eventually(all_called)

    assert sorted(called) == ["0", "1", "2"]
    assert await endpoints.backend.count("Sales") == 0


async def test_an_attempt_that_fails_takes_its_calls_with_it(endpoints: Endpoints) -> None:
    called, attempts = list[int](), list[int]()
    sales = endpoints.make("Sales", recoverability=ONE_RETRY)

    @sales.handler
    async def place(message: PlaceOrder, context: rowbus.Context) -> None:
        attempts.append(len(attempts))
        attempt = attempts[-1]
        context.on_commit(lambda: called.append(attempt))
        if message.order_id == "never" or attempt == 0:
            raise ValueError("no")

    async def is_called() -> bool:
        return bool(called)

    async with sales:
        await sales.send("Sales", PlaceOrder("42"))
        await eventually(is_called)
        await sales.send("Sales", PlaceOrder("never"))

        async def given_up() -> bool:
            return await endpoints.backend.count("error") == 1

        await eventually(given_up)

    assert called == [1]
