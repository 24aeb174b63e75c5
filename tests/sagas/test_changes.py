"""A saga's class changes while its sagas go on: nothing is lost, and nothing begins twice."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest

import rowbus
from rowbus.transport.recoverability import policy
from tests.conformance.endpoints import ERROR
from tests.conformance.transport import eventually
from tests.sagas.shop import PlaceOrder

if TYPE_CHECKING:
    from rowbus.transport.recoverability.policy import Verdict
    from tests.conformance.backend import Backend
    from tests.conformance.endpoints import Endpoints

PRICE = PlaceOrder("").amount
TABLE = "Sales.Order"


@dataclass
class First:
    order_id: str
    total: Decimal = Decimal(0)


@dataclass
class Second:
    order_id: str
    total: Decimal = Decimal(0)
    note: str = ""


@dataclass
class Third:
    number: str
    amount: Decimal = Decimal(0)
    note: str = ""


def by_order(message: PlaceOrder) -> str:
    return message.order_id


class OrderOfFirst(rowbus.Saga[First], name="Shop.Order", correlation="order_id"):
    @rowbus.starts(PlaceOrder, by=by_order)
    async def placed(self, message: PlaceOrder) -> None:
        self.state.total += message.amount


class OrderOfSecond(rowbus.Saga[Second], name="Shop.Order", correlation="order_id", version=2):
    @rowbus.starts(PlaceOrder, by=by_order)
    async def placed(self, message: PlaceOrder) -> None:
        self.state.total += message.amount
        self.state.note = "noted"


def renamed(state: dict[str, Any]) -> dict[str, Any]:
    return {"number": state["order_id"], "amount": state["total"], "note": state.get("note", "none")}


class Changing:
    """An endpoint whose program changes, and what it has done."""

    def __init__(self, endpoints: Endpoints) -> None:
        self._endpoints = endpoints
        self.verdicts: list[Verdict] = []
        self.amounts: dict[str, Decimal] = {}
        self.notes: dict[str, str] = {}

    def serve(self, saga: type[rowbus.Saga[Any]]) -> rowbus.Endpoint:
        """Return an endpoint of the version of the program that has this class."""
        verdicts = self.verdicts

        class Noting(rowbus.Recoverability):
            def decide(self, attempt: rowbus.FailedAttempt) -> Verdict:
                verdicts.append(super().decide(attempt))
                return verdicts[-1]

        sales = self._endpoints.make("Sales", recoverability=Noting(immediate=0, delayed=0))
        sales.add(saga)
        return sales

    def third(self) -> type[rowbus.Saga[Third]]:
        amounts, notes = self.amounts, self.notes

        class OrderOfThird(rowbus.Saga[Third], name="Shop.Order", correlation="number", version=3):
            upgraded = rowbus.upgrade(2, 3)(renamed)

            @rowbus.starts(PlaceOrder, by=by_order)
            async def placed(self, message: PlaceOrder) -> None:
                self.state.amount += message.amount
                amounts[self.state.number] = self.state.amount
                notes[self.state.number] = self.state.note

        return OrderOfThird

    async def handle(self, saga: type[rowbus.Saga[Any]], *orders: str) -> None:
        """Run one version of the program until it has handled a message of each of these orders."""
        async with self.serve(saga) as sales:
            await self.place(sales, *orders)
            await eventually(self.is_at_rest)

    async def place(self, sales: rowbus.Endpoint, *orders: str) -> None:
        for order in orders:
            await sales.send_local(PlaceOrder(order))

    async def is_at_rest(self) -> bool:
        delayed = await self._endpoints.backend.count("Sales.Delayed")
        return not delayed + await self._endpoints.backend.count("Sales")


@pytest.mark.slow
async def test_a_rolling_upgrade_over_three_versions_loses_nothing(
    endpoints: Endpoints, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(policy, "LOOK_AGAIN", timedelta(milliseconds=20))
    changing = Changing(endpoints)
    await changing.handle(OrderOfFirst, "1", "2", "3")
    await changing.handle(OrderOfSecond, "1", "2")
    await changing.handle(changing.third(), "1")
    assert changing.verdicts == []

    async with changing.serve(OrderOfFirst) as last_of_first:
        await changing.place(last_of_first, "1", "2", "3")
        await eventually(lambda: len(changing.verdicts) > 2)
        async with changing.serve(changing.third()):
            await eventually(changing.is_at_rest)
    await changing.handle(changing.third(), "3")

    assert set(changing.verdicts) == {rowbus.DelayedRetry(timedelta(milliseconds=20), is_counted=False)}
    assert changing.amounts == {"1": 4 * PRICE, "2": 3 * PRICE, "3": 3 * PRICE}
    assert await endpoints.backend.count(ERROR) == 0
    assert await endpoints.backend.count(TABLE) == 3


class Traffic:
    """Rounds of messages, one for each order, as fast as they are handled."""

    def __init__(self, changing: Changing, backend: Backend) -> None:
        self.orders = [str(number) for number in range(20)]
        self.rounds = 0
        self._changing = changing
        self._backend = backend
        self._is_over = False

    async def send(self) -> None:
        client = self._backend.client()
        while not self._is_over:
            for order in self.orders:
                await client.send(self._backend.queue("Sales"), PlaceOrder(order))
            self.rounds += 1
            await eventually(self._has_few)

    async def go_on(self) -> None:
        """Wait for more rounds than may be waiting."""
        wanted = self.rounds + 4
        await eventually(lambda: self.rounds >= wanted, 60)

    async def end(self, sending: asyncio.Task[None]) -> None:
        self._is_over = True
        await sending
        await eventually(self._changing.is_at_rest, 60)

    async def _has_few(self) -> bool:
        return await self._backend.count("Sales") < 2 * len(self.orders)


@pytest.mark.slow
async def test_a_rolling_upgrade_under_traffic_loses_no_field_and_fails_no_message(
    endpoints: Endpoints, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(policy, "LOOK_AGAIN", timedelta(milliseconds=50))
    changing = Changing(endpoints)
    traffic, third = Traffic(changing, endpoints.backend), changing.third()
    running = [changing.serve(OrderOfFirst)]
    await running[0].start()
    sending = asyncio.create_task(traffic.send())
    programs: list[type[rowbus.Saga[Any]]] = [OrderOfFirst, OrderOfSecond, OrderOfSecond, third, third]
    for program in programs:
        running.append(changing.serve(program))
        await running[-1].start()
        if len(running) > 2:
            await traffic.go_on()
            await running.pop(0).stop()
        await traffic.go_on()
    await traffic.end(sending)

    assert set(changing.verdicts) == {rowbus.DelayedRetry(timedelta(milliseconds=50), is_counted=False)}
    assert changing.amounts == dict.fromkeys(traffic.orders, traffic.rounds * PRICE)
    assert changing.notes == dict.fromkeys(traffic.orders, "noted")
    assert await endpoints.backend.count(ERROR) == 0


async def test_sagas_that_are_found_by_another_value_keep_their_endpoint_from_starting(
    endpoints: Endpoints,
) -> None:
    @dataclass
    class OtherState:
        order: str = ""

    class ByAnother(rowbus.Saga[OtherState], name="Shop.Order", correlation="order"):
        @rowbus.starts(PlaceOrder, by=by_order)
        async def placed(self, message: PlaceOrder) -> None: ...

    changing = Changing(endpoints)
    async with changing.serve(ByAnother):
        pass  # there are none yet
    await changing.handle(OrderOfFirst, "1", "2")
    with pytest.raises(rowbus.ConfigurationError) as refused:
        await changing.serve(ByAnother).start()
    assert "Shop.Order is found by OtherState.order, and the sagas that go on in" in str(refused.value)
    assert "are found by another value, as that of '1'" in str(refused.value)
    await changing.handle(OrderOfFirst, "1")
