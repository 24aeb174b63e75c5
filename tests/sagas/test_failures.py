"""Failures of a saga: the message fails with a reason that names the saga, and the row stays as it was."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, ClassVar

import pytest

import rowbus
from rowbus.messages.headers import Header
from rowbus.sagas.invocation import Invocation
from rowbus.sagas.saga import SagaComponent
from tests.conformance.endpoints import ERROR, NO_RETRIES
from tests.conformance.transport import eventually
from tests.sagas.shop import (
    CancelOrder,
    OrderSaga,
    OrderShipped,
    OrderState,
    PaymentOverdue,
    PlaceOrder,
    ShipOrder,
)

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from tests.conformance.endpoints import Endpoints


@rowbus.command("Shop.RenameOrder")
@dataclass
class RenameOrder:
    order_id: str


@rowbus.command("Shop.SpoilOrder")
@dataclass
class SpoilOrder:
    order_id: str


@rowbus.command("Shop.ForgetOrder")
@dataclass
class ForgetOrder:
    order_id: str


class Renaming(OrderSaga, name="Shop.Sagas.OrderSaga", correlation="order_id"):
    missed: ClassVar[list[str]] = []

    @rowbus.handles(RenameOrder, by=lambda message: message.order_id)
    async def renamed(self, message: RenameOrder) -> None:
        self.state.order_id = f"{message.order_id} again"

    @rowbus.handles(SpoilOrder, by=lambda message: message.order_id)
    async def spoiled(self, message: SpoilOrder) -> None:
        self.state.steps = None  # type: ignore[assignment]  # that is what is wrong

    @rowbus.handles(ForgetOrder, by=lambda message: message.order_id)
    async def forgotten(self, message: ForgetOrder) -> Awaitable[None]:
        return self.spoiled(SpoilOrder(message.order_id))

    @rowbus.not_found
    async def missing(self, message: object, context: rowbus.Context) -> None:
        self.missed.append(f"{type(message).__name__} {context.message_id}")


@pytest.fixture
def sales(endpoints: Endpoints) -> rowbus.Endpoint:
    """Give an endpoint with a saga, which does not retry."""
    sales = endpoints.make("Sales", recoverability=NO_RETRIES)
    Renaming.missed = []
    sales.add(Renaming)
    return sales


async def reason(endpoints: Endpoints) -> str:
    """Wait for a message in the error queue, and return why it is there."""

    async def failed() -> bool:
        return await endpoints.backend.count(ERROR) == 1

    await eventually(failed)
    (row,) = await endpoints.backend.rows(ERROR)
    return row.headers["NServiceBus.ExceptionInfo.Message"] or ""


async def begun(endpoints: Endpoints, sales: rowbus.Endpoint) -> None:
    await sales.send_local(PlaceOrder("R1"))

    async def there() -> bool:
        return await endpoints.backend.count("Sales.OrderSaga") == 1

    await eventually(there)


MISTAKES = {
    "Shop.Sagas.OrderSaga is found by order_id, which a method changed from 'R1' to 'R1 again'": RenameOrder(
        "R1"
    ),
    "what the method left could not be read again": SpoilOrder("R1"),
    "Renaming.forgotten returned an unused coroutine, of which nothing ran": ForgetOrder("R1"),
    "has 201 characters": PlaceOrder("x" * 201),
    "OrderSaga.shipped does not say what else its saga is found by: give rowbus.handles(OrderShipped, by=…)": (
        OrderShipped("R1")
    ),
}


async def test_messages_at_fault_fail_with_a_reason_and_no_later_one_does(
    endpoints: Endpoints, sales: rowbus.Endpoint
) -> None:
    async with sales:
        await begun(endpoints, sales)
        for message in MISTAKES.values():
            await sales.send_local(message)

        async def failed() -> bool:
            return await endpoints.backend.count(ERROR) == len(MISTAKES)

        await eventually(failed)
        await sales.send_local(PlaceOrder("R1"))

        async def handled() -> bool:
            return await endpoints.backend.count("Sales") == 0

        await eventually(handled)
    rows = await endpoints.backend.rows(ERROR)
    said = [row.headers["NServiceBus.ExceptionInfo.Message"] or "" for row in rows]
    assert [reason for reason in MISTAKES if not any(reason in text for text in said)] == []
    assert len(rows) == len(MISTAKES)
    assert await endpoints.backend.count("Sales.OrderSaga") == 1


@rowbus.command("Shop.RemindOrder")
@dataclass
class RemindOrder:
    order_id: str


left: list[object] = []


class Careless(OrderSaga, name="Shop.Sagas.OrderSaga", correlation="order_id"):
    @rowbus.starts(RemindOrder, by=lambda message: message.order_id)
    async def reminded(self, message: RemindOrder, context: rowbus.SagaContext) -> None:
        if message.order_id == "forgets":
            context.request_timeout(PaymentOverdue(), after=timedelta(1))  # type: ignore[unused-coroutine]  # pyright: ignore[reportUnusedCoroutine]
        elif message.order_id == "forgets to reply":
            context.reply_to_originator(PaymentOverdue())  # type: ignore[unused-coroutine]  # pyright: ignore[reportUnusedCoroutine]
        elif message.order_id == "has no zone":
            await context.request_timeout(PaymentOverdue(), at=datetime(2100, 1, 1))  # noqa: DTZ001 - that is what is wrong
        elif message.order_id == "streams":
            rows = context.connection.cursor().stream("select generate_series(1, 100000)")
            left.append(rows)
            await anext(rows)


CARELESS = {
    "forgets": "called context.request_timeout(…) and did not await it",
    "forgets to reply": "called context.reply_to_originator(…) and did not await it",
    "has no zone": "give the datetime a time zone",
    "streams": "a stream, a copy or a nested transaction that is still open",
}


@pytest.mark.only("PostgreSQL", reason="it streams by psycopg")
async def test_careless_methods_fail_and_nothing_waits_for_them(endpoints: Endpoints) -> None:
    sales = endpoints.make("Sales", concurrency=1, recoverability=NO_RETRIES)
    sales.add(Careless)
    async with sales:
        await endpoints.backend.client().send_many("Sales", map(RemindOrder, [*CARELESS, "is careful"]))

        async def handled() -> bool:
            return await endpoints.backend.count("Sales") == 0

        await eventually(handled)
    left.clear()
    rows = await endpoints.backend.rows(ERROR)
    said = [row.headers["NServiceBus.ExceptionInfo.Message"] or "" for row in rows]
    assert [reason for reason in CARELESS.values() if not any(reason in text for text in said)] == []
    assert await endpoints.backend.count("Sales.OrderSaga") == 1


@pytest.mark.only("PostgreSQL", reason="it writes a row with PostgreSQL's SQL")
async def test_a_row_that_cannot_be_read_is_named(endpoints: Endpoints, sales: rowbus.Endpoint) -> None:
    async with sales:
        await begun(endpoints, sales)
        await endpoints.backend.execute("""update "Sales.OrderSaga" set state = '{"steps": 1}'""")
        await sales.send_local(CancelOrder("R1"))
        said = await reason(endpoints)
    (saga_id,) = await endpoints.backend.values('select id::text from "Sales.OrderSaga"')
    assert f"Saga {saga_id} of Shop.Sagas.OrderSaga (found by 'R1') cannot be read" in said


NOBODY = "0f3c6a5e-1c57-4c62-9d5a-0123456789ab"
STRAY: dict[str, tuple[object, dict[str, str]]] = {
    "' ', which is no id of a saga": (PlaceOrder("R2"), {Header.SAGA_ID: " "}),
    "does not say of which type that is": (PlaceOrder("R3"), {Header.SAGA_ID: NOBODY}),
    "which Shop.Sagas.OrderSaga has not": (
        PlaceOrder("R4"),
        {Header.SAGA_ID: NOBODY, Header.SAGA_TYPE: "Shop.Elsewhere, X"},
    ),
    "a timeout of Shop.Sagas.OrderSaga needs it": (
        PaymentOverdue(),
        {Header.IS_SAGA_TIMEOUT_MESSAGE: "True"},
    ),
}


async def test_what_names_no_saga_of_this_type_fails_but_for_an_empty_id_which_begins_one(
    endpoints: Endpoints, sales: rowbus.Endpoint
) -> None:
    async with sales:
        await sales.send_local(PlaceOrder("R1"), headers={Header.SAGA_ID: ""})
        for message, headers in STRAY.values():
            await sales.send_local(message, headers=headers)

        async def failed() -> bool:
            return await endpoints.backend.count(ERROR) == len(STRAY)

        await eventually(failed)

        async def begun() -> bool:
            return await endpoints.backend.count("Sales.OrderSaga") == 1

        await eventually(begun)
    rows = await endpoints.backend.rows(ERROR)
    said = [row.headers["NServiceBus.ExceptionInfo.Message"] or "" for row in rows]
    assert [reason for reason in STRAY if not any(reason in text for text in said)] == []
    assert Renaming.missed == []


async def test_a_reply_concerns_that_saga_of_an_endpoint_that_asked(endpoints: Endpoints) -> None:
    shipped: list[str] = []

    class Base(rowbus.Saga[OrderState], name="Shop.Base", correlation="order_id"):
        @rowbus.starts(PlaceOrder, by=lambda message: message.order_id)
        async def placed(self, message: PlaceOrder, context: rowbus.SagaContext) -> None:
            await context.send("Shipping", ShipOrder(type(self).__name__))

        @rowbus.handles(OrderShipped)
        async def shipped(self, message: OrderShipped) -> None:
            shipped.append(f"{type(self).__name__} {message.order_id}")

    class First(Base, name="Shop.First, Sales", correlation="order_id"): ...

    class Second(Base, name="Shop.Second", correlation="order_id", layout="nservicebus"): ...

    class Third(Base, name="Shop.Third", correlation="order_id"):
        @rowbus.starts(OrderShipped, by=lambda message: message.order_id)
        async def shipped(self, message: OrderShipped) -> None:
            shipped.append(f"{type(self).__name__} {message.order_id}")

    sales, shipping = endpoints.make("Sales", recoverability=NO_RETRIES), endpoints.make("Shipping")
    for saga in (First, Second, Third):
        sales.add(saga)

    @shipping.handler
    async def ship(message: ShipOrder, context: rowbus.Context) -> None:
        await context.reply(OrderShipped(message.order_id))

    async with shipping, sales:
        await sales.send_local(PlaceOrder("R1"))
        await eventually(lambda: len(shipped) == len((First, Second, Third)))
    assert sorted(shipped) == ["First First", "Second Second", "Third Third"]
    assert await endpoints.backend.count(ERROR) == 0
    assert await endpoints.backend.count("Sales.Third") == 1


async def test_a_message_that_finds_no_saga_is_given_to_who_wants_it(
    endpoints: Endpoints, sales: rowbus.Endpoint
) -> None:
    nobody = {Header.SAGA_ID: NOBODY, Header.SAGA_TYPE: "Shop.Sagas.OrderSaga, SagaHost"}
    async with sales:
        first = await sales.send_local(CancelOrder("R1"))
        second = await sales.send_local(PlaceOrder("R1"), headers=nobody)
        await eventually(lambda: len(Renaming.missed) == 2)
        await sales.send_local(OrderShipped("R1"), headers={**nobody, Header.IS_SAGA_TIMEOUT_MESSAGE: "True"})

        async def consumed() -> bool:
            return await endpoints.backend.count("Sales") == 0

        await eventually(consumed)
    assert sorted(Renaming.missed) == sorted([f"CancelOrder {first}", f"PlaceOrder {second}"])
    assert await endpoints.backend.count("Sales.OrderSaga") == 0


async def test_who_is_given_such_a_message_may_do_without_the_context() -> None:
    missed: list[object] = []

    class Brief(OrderSaga, name="Shop.Sagas.OrderSaga", correlation="order_id"):
        @rowbus.not_found
        async def missing(self, message: object) -> None:
            missed.append(message)

    class Empty:
        async def find(self, correlation: str) -> None: ...

    context: Any = SimpleNamespace(headers={}, message_id="m-1")
    store: Any = Empty()
    invocation = Invocation(
        Brief, Brief.definition.rules[CancelOrder], lambda _: store, (), SagaComponent(Brief)._bound
    )

    await invocation(CancelOrder("R1"), context)

    assert missed == [CancelOrder("R1")]


class Mailer:
    def __init__(self) -> None:
        self.letters: list[str] = []


async def test_methods_are_given_what_the_endpoint_provides(endpoints: Endpoints) -> None:
    class Given(rowbus.Saga[OrderState], name="Shop.Given", correlation="order_id"):
        @rowbus.starts(PlaceOrder, by=lambda message: message.order_id)
        async def placed(self, message: PlaceOrder, mailer: Mailer, context: rowbus.SagaContext) -> None:
            mailer.letters.append(f"{message.order_id} of {context.saga_id[:0]}{self.state.order_id}")

        @rowbus.not_found
        async def missing(self, message: object, mailer: Mailer) -> None:
            mailer.letters.append(type(message).__name__)

        @rowbus.handles(CancelOrder, by=lambda message: message.order_id)
        async def cancelled(self, message: CancelOrder) -> None: ...

    with pytest.raises(
        rowbus.ConfigurationError, match=r"parameter 'mailer' is of type Mailer, which the endpoint"
    ):
        endpoints.make("Billing").add(Given)
    sales, mailer = endpoints.make("Sales", recoverability=NO_RETRIES), Mailer()
    sales.provide(Mailer, mailer)
    sales.add(Given)
    async with sales:
        await sales.send_local(PlaceOrder("R1"))
        await sales.send_local(CancelOrder("R2"))
        await eventually(lambda: len(mailer.letters) == 2)
    assert sorted(mailer.letters) == ["CancelOrder", "R1 of R1"]
