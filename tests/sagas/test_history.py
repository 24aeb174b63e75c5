"""Transitions of a saga: a line for each, in its transaction; completed sagas as long as they are kept."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

import rowbus
from rowbus.sagas.history.table import Keeping, Transition, history_table
from rowbus.transport.queues.installer import create_table
from tests.conformance.endpoints import ERROR, NO_RETRIES
from tests.conformance.transport import eventually
from tests.sagas.shop import CancelOrder, OrderSaga, PaymentReceived, PlaceOrder

if TYPE_CHECKING:
    from rowbus.sagas.history.table import Line
    from tests.conformance.endpoints import Endpoints

TABLE = "Sales.OrderSaga.History"


class Remembering(
    OrderSaga, name="Shop.OrderSaga", correlation="order_id", history=True, keep=timedelta(days=30)
):
    @rowbus.handles(PaymentReceived, by=lambda message: message.order_id)
    async def paid(self, message: PaymentReceived, context: rowbus.SagaContext) -> None:
        self.state.steps.append("paid")
        context.complete()


class Forgetting(Remembering, name="Shop.OrderSaga", correlation="order_id", history=True):
    pass


async def lines(endpoints: Endpoints, key: str) -> list[Line]:
    session = await endpoints.backend.database.connect()
    found = await session.run(history_table(endpoints.queue(TABLE)).read(key))
    await session.close()
    return found


async def played(endpoints: Endpoints, saga: type[OrderSaga]) -> None:
    """Have an order placed, fail to cancel it, and have it paid."""
    sales = endpoints.make("Sales", recoverability=NO_RETRIES)
    sales.add(saga)
    async with sales:
        await sales.send_local(PlaceOrder("1"))

        async def there() -> bool:
            return await endpoints.backend.count("Sales.OrderSaga") == 1

        await eventually(there)
        await sales.send_local(CancelOrder("1"))

        async def failed() -> bool:
            return await endpoints.backend.count(ERROR) == 1

        await eventually(failed)
        if saga is Forgetting:
            assert len(await lines(endpoints, "1")) == 1
        await sales.publish(PaymentReceived("1"))

        async def completed() -> bool:
            return await endpoints.backend.count("Sales.OrderSaga") == 0

        await eventually(completed)


async def test_each_transition_is_a_line(endpoints: Endpoints) -> None:
    await played(endpoints, Remembering)
    placed, paid = await lines(endpoints, "1")
    assert (placed.transition.number, placed.transition.before, placed.transition.is_completed) == (
        1,
        None,
        False,
    )
    assert '"placed"' in placed.transition.after
    assert (paid.transition.number, paid.transition.before) == (2, placed.transition.after)
    assert '"paid"' in paid.transition.after
    assert (paid.transition.message_type, paid.transition.is_completed) == ("Shop.PaymentReceived", True)
    assert placed.at <= paid.at
    assert [line.transition for line in await lines(endpoints, placed.transition.saga_id)] == [
        placed.transition,
        paid.transition,
    ]


async def test_without_keep_the_history_goes_with_the_saga(endpoints: Endpoints) -> None:
    await played(endpoints, Forgetting)
    assert await lines(endpoints, "1") == []


@pytest.mark.parametrize(
    "keeping, going_on, completing",
    [
        (Keeping(), 0, 0),
        (Keeping(all=True), 1, 1),
        (Keeping(completed=timedelta(days=1)), 0, 2),
        (Keeping(all=True, completed=timedelta(days=1)), 1, 2),
    ],
)
async def test_what_is_kept_is_what_the_class_says(
    endpoints: Endpoints, keeping: Keeping, going_on: int, completing: int
) -> None:
    table = history_table(endpoints.queue(TABLE))
    transition = transition_of("00000000-0000-4000-8000-000000000000")
    assert len(keeping.statements(table, transition._replace(is_completed=False))) == going_on
    assert len(keeping.statements(table, transition)) == completing
    assert keeping.needs_table is bool(completing)


def transition_of(saga_id: str) -> Transition:
    return Transition(saga_id, 1, saga_id, "m", "Shop.PlaceOrder", None, "{}", is_completed=True)


async def test_a_completion_sweeps_what_is_too_old(endpoints: Endpoints) -> None:
    session = await endpoints.backend.database.connect()
    table = history_table(endpoints.queue(TABLE))
    await create_table(session, table, "the history")
    ids = [f"00000000-0000-4000-8000-00000000000{number}" for number in range(4)]
    for saga_id in ids:
        await session.run(table.record(transition_of(saga_id)))
    await session.run(table.record(transition_of(ids[0])._replace(number=2, is_completed=False)))
    await session.run(table.sweep(timedelta(days=1)))
    assert await endpoints.backend.count(TABLE) == 5
    await session.run(table.sweep(timedelta(seconds=-1)))
    assert await endpoints.backend.count(TABLE) == 2
    assert [len(await session.run(table.read(saga_id))) for saga_id in ids] == [0, 0, 1, 1]
    await session.close()
