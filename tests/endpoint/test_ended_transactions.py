"""A handler that ends the receive transaction by SQL of its own: its message is kept, in the error queue."""

from __future__ import annotations

import pytest

import rowbus
from rowbus.messages.headers import Header
from tests.conformance.endpoints import ERROR, Endpoints, PlaceOrder
from tests.conformance.transport import (
    RECEIVE_ONLY,
    RECEIVE_ONLY_ROLLBACK,
    SENDS_ATOMIC,
    SENDS_ATOMIC_ROLLBACK,
    eventually,
)


@pytest.mark.parametrize(
    "case", [RECEIVE_ONLY, RECEIVE_ONLY_ROLLBACK, SENDS_ATOMIC, SENDS_ATOMIC_ROLLBACK], ids=str
)
@pytest.mark.parametrize("raised", [ValueError, None], ids=["and fails", "and returns"])
async def test_a_message_whose_handler_commits_by_sql_is_in_the_error_queue_and_handled_once(
    endpoints: Endpoints, raised: type[Exception] | None
) -> None:
    sales = endpoints.make("Sales")
    handled: list[str] = []

    @sales.handler
    async def place(message: PlaceOrder, context: rowbus.Context) -> None:
        handled.append(message.order_id)
        if message.order_id == "bad":
            await context.connection.execute("select 1; commit")
            if raised is not None:
                raise raised

    async with sales:
        await sales.send("Sales", PlaceOrder("bad"))
        await sales.send("Sales", PlaceOrder("good"))

        async def moved() -> bool:
            return await endpoints.backend.count(ERROR) == 1 and "good" in handled

        await eventually(moved)

    assert sorted(handled) == ["bad", "good"]
    assert await endpoints.backend.count("Sales") == 0
    (row,) = await endpoints.backend.rows(ERROR)
    assert row.headers[Header.EXCEPTION_TYPE] == ("ValueError" if raised else "rowbus.errors.HandlerError")
