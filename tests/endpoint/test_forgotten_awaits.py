"""A handler that forgets an `await` fails: its message goes the way of failures, and nothing it did is committed."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any

import pytest

import rowbus
from tests.conformance.endpoints import ERROR, NO_RETRIES, Endpoints, OrderAccepted, PlaceOrder
from tests.conformance.transport import eventually

ORDERS = 500
PATIENCE = 120.0
MESSAGE = "NServiceBus.ExceptionInfo.Message"


async def failed(endpoints: Endpoints, sales: rowbus.Endpoint, count: int = 1) -> list[str]:
    """Have an endpoint process some orders, and return why each came into the error queue."""
    await endpoints.backend.create_business_tables()
    await endpoints.backend.create_queue("Billing")
    async with sales:
        for number in range(count):
            await sales.send("Sales", PlaceOrder(str(number)))

        async def all_failed() -> bool:
            return await endpoints.backend.count(ERROR) == count

        await eventually(all_failed, PATIENCE)
    return [row.headers[MESSAGE] or "" for row in await endpoints.backend.rows(ERROR)]


Forget = Callable[[rowbus.Context, str], Awaitable[object]]


async def forget_send(context: rowbus.Context, _order: str) -> None:
    context.send("Billing", OrderAccepted("1"))  # type: ignore[unused-coroutine]  # pyright: ignore[reportUnusedCoroutine]


async def forget_send_local(context: rowbus.Context, _order: str) -> None:
    context.send_local(OrderAccepted("1"))  # type: ignore[unused-coroutine]  # pyright: ignore[reportUnusedCoroutine]


async def forget_reply(context: rowbus.Context, _order: str) -> None:
    context.reply(OrderAccepted("1"))  # type: ignore[unused-coroutine]  # pyright: ignore[reportUnusedCoroutine]


async def forget_publish(context: rowbus.Context, _order: str) -> None:
    context.publish(OrderAccepted("1"))  # type: ignore[unused-coroutine]  # pyright: ignore[reportUnusedCoroutine]


async def forget_append(context: rowbus.Context, _order: str) -> None:
    context.append("orders", {})  # type: ignore[unused-coroutine]  # pyright: ignore[reportUnusedCoroutine]


async def forget_execute(context: rowbus.Context, _order: str) -> None:
    context.connection.execute("select 1")  # type: ignore[unused-coroutine]  # pyright: ignore[reportUnusedCoroutine]


@pytest.mark.parametrize(
    "forget, call",
    [
        (forget_send, "context.send"),
        (forget_send_local, "context.send_local"),
        (forget_reply, "context.reply"),
        (forget_publish, "context.publish"),
        (forget_append, "context.append"),
        (forget_execute, "context.connection.execute"),
    ],
)
async def test_a_call_of_a_context_that_is_not_awaited_fails_the_attempt(
    endpoints: Endpoints, forget: Forget, call: str
) -> None:
    sales = endpoints.make("Sales", recoverability=NO_RETRIES)

    @sales.handler
    async def place(order: PlaceOrder, context: rowbus.Context) -> None:
        await forget(context, order.order_id)

    line = forget.__code__.co_firstlineno + 1
    (reason,) = await failed(endpoints, sales)
    assert reason == (
        f"{forget.__name__} ({__file__}, line {line}) called {call}(…) and did not await it: write `await`. "
        "Nothing of this attempt was committed."
    )


@pytest.mark.only("PostgreSQL", reason="the number is what it is about, not the database")
async def test_500_forgotten_awaits_lose_no_message_and_commit_nothing(
    endpoints: Endpoints, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.CRITICAL, "rowbus")  # 500 stack traces are of no use
    sales = endpoints.make("Sales", recoverability=NO_RETRIES)

    @sales.handler
    async def place(order: PlaceOrder, context: rowbus.Context) -> None:
        await endpoints.backend.write(context.connection, order.order_id)
        await context.send("Billing", OrderAccepted(order.order_id))
        context.send("Billing", OrderAccepted(order.order_id))  # type: ignore[unused-coroutine]  # pyright: ignore[reportUnusedCoroutine]

    reasons = await failed(endpoints, sales, ORDERS)

    assert len(reasons) == ORDERS
    assert all("called context.send(…) and did not await it" in reason for reason in reasons)
    assert await endpoints.backend.business() == []
    assert await endpoints.backend.count("Billing") == 0
    assert await endpoints.backend.count("Sales") == 0


async def test_the_same_in_a_batch_of_messages(endpoints: Endpoints) -> None:
    sales = endpoints.make("Sales", recoverability=NO_RETRIES, batch_size=10)
    done = set[str]()

    @sales.handler
    async def place(order: PlaceOrder, context: rowbus.Context) -> None:
        sending = context.send("Billing", OrderAccepted(order.order_id))
        if order.order_id != "3":
            await sending
            done.add(order.order_id)

    await endpoints.backend.create_queue("Billing")
    async with sales:
        for number in range(10):
            await sales.send("Sales", PlaceOrder(str(number)))

        async def processed() -> bool:
            return await endpoints.backend.count(ERROR) == 1 and await endpoints.backend.count("Billing") == 9

        await eventually(processed)
    assert done == {str(number) for number in range(10)} - {"3"}


async def test_a_step_that_forgets_fails_the_attempt_too(endpoints: Endpoints) -> None:
    sales = endpoints.make("Sales", recoverability=NO_RETRIES)

    @sales.use
    async def noting(context: rowbus.StepContext, proceed: rowbus.Proceed) -> None:
        context.send("Billing", OrderAccepted("1"))  # type: ignore[unused-coroutine]  # pyright: ignore[reportUnusedCoroutine]
        await proceed()

    @sales.handler
    async def place(_order: PlaceOrder) -> None: ...

    (reason,) = await failed(endpoints, sales)

    assert "noting (" in reason
    assert "called context.send(…) and did not await it" in reason


async def accept() -> None:
    raise AssertionError


def return_coroutine(_order: PlaceOrder) -> Awaitable[None]:
    return accept()


async def return_coroutine_of_async(_order: PlaceOrder) -> Awaitable[None]:
    return accept()


@pytest.mark.parametrize("place", [return_coroutine, return_coroutine_of_async])
async def test_a_handler_that_returns_a_coroutine_fails(
    endpoints: Endpoints, place: Callable[..., Any]
) -> None:
    sales = endpoints.make("Sales", recoverability=NO_RETRIES, time_limit=timedelta(minutes=1))
    sales.handler(place)

    (reason,) = await failed(endpoints, sales)

    assert reason == (
        f"{place.__name__} returned an unused coroutine, of which nothing ran: await it, iterate over it or enter it "
        "in the handler (an `async def` if it has to await). Nothing of this attempt was committed."
    )


async def test_the_log_tells_the_same_story(endpoints: Endpoints, caplog: pytest.LogCaptureFixture) -> None:
    sales = endpoints.make("Sales", recoverability=NO_RETRIES)

    @sales.handler
    async def place(_order: PlaceOrder, context: rowbus.Context) -> None:
        context.send("Billing", OrderAccepted("1"))  # type: ignore[unused-coroutine]  # pyright: ignore[reportUnusedCoroutine]

    with caplog.at_level(logging.WARNING, "rowbus"):
        await failed(endpoints, sales)

    assert "did not await it" in caplog.text
