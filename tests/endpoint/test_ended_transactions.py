"""A handler that ends the receive transaction by SQL of its own: its message is kept, in the error queue."""

from __future__ import annotations

from datetime import timedelta

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
    in_default_mode,
)

NOTE_EXPIRY = """
create table written (expires timestamp);
create function note() returns trigger language plpgsql
as $$ begin insert into written values (new.expires); return new; end $$;
create trigger note after insert on "Sales" for each row execute function note();
"""


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


@pytest.mark.only("PostgreSQL", reason="the rule is above the databases; this looks into one")
@in_default_mode
async def test_what_is_received_with_such_a_message_is_handled_once_in_a_transaction_of_its_own(
    endpoints: Endpoints,
) -> None:
    sales = endpoints.make("Sales", batch_size=10, concurrency=1, deduplicate_for=timedelta(hours=1))
    handled: list[str] = []

    @sales.handler
    async def place(message: PlaceOrder, context: rowbus.Context) -> None:
        handled.append(message.order_id)
        await context.connection.execute("insert into handled values (%s)", (message.order_id,))
        if message.order_id == "bad":
            await context.connection.execute("select 1; commit")
        elif message.order_id == "fails" and handled.count("fails") == 1:
            raise ValueError

    await sales.install()
    await endpoints.backend.connection.execute("create table handled (order_id text)")
    await endpoints.backend.connection.execute(NOTE_EXPIRY)
    orders = ["early", "bad", "fails", "late"]
    await endpoints.backend.client().send_many(
        "Sales", (PlaceOrder(order) for order in orders), time_to_be_received=timedelta(hours=1)
    )
    async with sales:
        # not until the queue is empty: it is between the commit and what puts the others back
        await eventually(lambda: len(handled) == 5)

    rows = await (await endpoints.backend.connection.execute("select order_id from handled")).fetchall()
    assert sorted(rows) == sorted((order,) for order in orders)
    assert sorted(handled) == ["bad", "early", "fails", "fails", "late"]
    (row,) = await endpoints.backend.rows(ERROR)
    assert row.headers[Header.EXCEPTION_TYPE] == "rowbus.errors.HandlerError"
    written = await endpoints.backend.connection.execute("select count(*), count(expires) from written")
    assert await written.fetchone() == (6, 6)  # four were sent, and two put back
