"""`SagaScenario`: a process in a test, with its messages and its time, and no database."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal

import pytest

import rowbus
from rowbus.testing import SagaScenario
from tests.sagas.shop import (
    CancelOrder,
    OrderDone,
    OrderSaga,
    OrderShipped,
    OrderState,
    PaymentReceived,
    PlaceOrder,
    ShipOrder,
)


async def test_messages_come_and_the_state_is_looked_at() -> None:
    order = SagaScenario(OrderSaga)
    await order.when(PlaceOrder("1"))
    assert order.state == OrderState("1", Decimal("19.90"), ["placed"])

    paid = await order.when(PaymentReceived("1"))
    assert [sent.read(ShipOrder) for sent in paid.sends] == [ShipOrder("1")]

    shipped = await order.when(OrderShipped("1"), headers=order.reply_headers)
    assert [sent.read(OrderDone) for sent in shipped.replies] == [
        OrderDone("1", ["placed", "paid", "shipped"])
    ]
    assert order.state is None


async def test_days_pass_at_once() -> None:
    order = SagaScenario(OrderSaga)
    await order.when(PlaceOrder("1"))
    assert await order.after(timedelta(days=2)) == []
    (overdue,) = await order.after(timedelta(days=1))
    assert [sent.read(OrderDone).steps for sent in overdue.published] == [["placed", "overdue after 3"]]
    assert order.state is None


async def test_a_timeout_goes_with_its_saga() -> None:
    order = SagaScenario(OrderSaga)
    await order.when(PlaceOrder("1"))
    await order.when(OrderShipped("1"), headers=order.reply_headers)
    assert await order.after(timedelta(days=3)) == []


async def test_one_may_begin_in_the_midst() -> None:
    order = SagaScenario(OrderSaga, state=OrderState("1", Decimal(5), ["placed"]))
    await order.when(PaymentReceived("1", Decimal(1)))
    assert order.state == OrderState("1", Decimal(4), ["placed", "paid"])


async def test_a_failure_leaves_the_state_as_it_was() -> None:
    order = SagaScenario(OrderSaga, state=OrderState("1"))
    failed = await order.when(CancelOrder("1"))
    assert isinstance(failed.error, rowbus.Unrecoverable)
    assert order.state == OrderState("1")


@rowbus.command("Shop.Misspell")
@dataclass
class Misspell:
    order_id: str


async def test_several_sagas_are_looked_at_together() -> None:
    orders = SagaScenario(OrderSaga)
    await orders.when(PlaceOrder("1"))
    await orders.when(PlaceOrder("2"))
    assert [state.order_id for state in orders.states] == ["1", "2"]
    with pytest.raises(ValueError, match="There are 2 sagas"):
        _ = orders.state
