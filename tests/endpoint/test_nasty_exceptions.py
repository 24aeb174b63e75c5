"""Exceptions that raise when they are looked at: their messages are counted, retried and given up as all others are."""

from __future__ import annotations

from collections import Counter

import pytest

import rowbus
from rowbus.messages.headers import Header
from tests.conformance.endpoints import ERROR, Endpoints, PlaceOrder
from tests.conformance.transport import eventually
from tests.fixtures.strangers import REFUSED, stranger

ONE_RETRY = rowbus.Recoverability(immediate=1, delayed=0)


@pytest.mark.parametrize("where", ["async def", "def", "step"])
async def test_a_message_that_raises_one_ends_in_the_error_queue_with_what_it_says(
    endpoints: Endpoints, where: str
) -> None:
    attempts = Counter[str]()
    sales = endpoints.make("Sales", recoverability=ONE_RETRY)

    def fail(refused: str) -> None:
        attempts[refused] += 1
        raise stranger(refused)(f"out of {refused}")

    if where == "def":

        @sales.handler
        def place(message: PlaceOrder) -> None:
            fail(message.order_id)

    else:

        @sales.handler
        async def place_async(message: PlaceOrder) -> None:
            fail(message.order_id)

    if where == "step":

        @sales.use
        async def step(context: rowbus.StepContext, proceed: rowbus.Proceed) -> None:
            assert isinstance(context.message, PlaceOrder)
            fail(context.message.order_id)

    async def given_up() -> bool:
        return await endpoints.backend.count(ERROR) == len(REFUSED)

    async with sales:
        for refused in REFUSED:
            await sales.send("Sales", PlaceOrder(refused))
        await eventually(given_up)

    assert attempts == dict.fromkeys(REFUSED, 2)
    headers = [row.headers for row in await endpoints.backend.rows(ERROR)]
    assert {one[Header.EXCEPTION_TYPE] for one in headers} == {"tests.fixtures.strangers.Stranger"}
    assert sorted(one[Header.EXCEPTION_MESSAGE] or "" for one in headers) == sorted(
        f"out of {refused}" for refused in REFUSED
    )


@pytest.mark.only("PostgreSQL", reason="its handlers begin a transaction by a statement")
async def test_one_that_leaves_its_handlers_transaction_open_is_told_by_its_own_name(
    endpoints: Endpoints,
) -> None:
    never = rowbus.Recoverability(immediate=0, delayed=0)
    sales = endpoints.make("Sales", transaction_mode=rowbus.TransactionMode.NONE, recoverability=never)

    @sales.handler
    async def place(message: PlaceOrder, context: rowbus.Context) -> None:
        await context.connection.execute("begin")
        raise stranger(message.order_id)(f"out of {message.order_id}")

    async def given_up() -> bool:
        return await endpoints.backend.count(ERROR) == 1

    async with sales:
        await sales.send("Sales", PlaceOrder("__bool__"))
        await eventually(given_up)

    [row] = await endpoints.backend.rows(ERROR)
    assert row.headers[Header.EXCEPTION_MESSAGE] == "out of __bool__"
