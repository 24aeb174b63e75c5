"""Retry counts: exact with savepoints, whoever else receives from the queue."""

from __future__ import annotations

from collections import Counter

import pytest

import rowbus
from tests.conformance.endpoints import ERROR, Endpoints, PlaceOrder
from tests.conformance.on_postgresql import FAIL_AT_COMMIT
from tests.conformance.transport import RECEIVE_ONLY, SENDS_ATOMIC, SENDS_ATOMIC_ROLLBACK, eventually

pytestmark = [
    pytest.mark.only("PostgreSQL", reason="it looks into PostgreSQL's tables"),
    pytest.mark.one_version,
]

ORDERS = 20
MISBEHAVIOURS = ["raises", "fails at the commit", "sends to a missing queue"]


def make_instances(endpoints: Endpoints, attempts: Counter[str], misbehaviour: str) -> list[rowbus.Endpoint]:
    instances = [endpoints.make("Sales") for _ in range(2)]
    for instance in instances:

        @instance.handler
        async def place(message: PlaceOrder, context: rowbus.Context) -> None:
            attempts[message.order_id] += 1
            if misbehaviour == "raises":
                raise ValueError
            if misbehaviour == "fails at the commit":
                await context.connection.execute(FAIL_AT_COMMIT)
            else:
                await context.send("nowhere", message)

    return instances


async def fail_all(endpoints: Endpoints, misbehaviour: str) -> Counter[str]:
    attempts: Counter[str] = Counter()
    first, second = make_instances(endpoints, attempts, misbehaviour)
    await endpoints.backend.create_business_tables()

    async def done() -> bool:
        return await endpoints.backend.count(ERROR) == ORDERS

    async with first, second:
        client = endpoints.backend.client()
        await client.send_many("Sales", (PlaceOrder(str(number)) for number in range(ORDERS)))
        await eventually(done)
    assert await endpoints.backend.count("Sales") == 0
    return attempts


@pytest.mark.parametrize("case", [RECEIVE_ONLY, SENDS_ATOMIC], ids=str)
@pytest.mark.parametrize("misbehaviour", MISBEHAVIOURS)
async def test_two_instances_together_make_exactly_six_attempts(
    endpoints: Endpoints, misbehaviour: str
) -> None:
    attempts = await fail_all(endpoints, misbehaviour)
    assert attempts == dict.fromkeys(map(str, range(ORDERS)), 6)


@pytest.mark.parametrize("case", [SENDS_ATOMIC_ROLLBACK], ids=str)
@pytest.mark.parametrize("misbehaviour", MISBEHAVIOURS)
async def test_with_rollback_each_instance_counts_for_itself_as_in_the_original(
    endpoints: Endpoints, misbehaviour: str
) -> None:
    attempts = await fail_all(endpoints, misbehaviour)
    assert set(attempts) == set(map(str, range(ORDERS)))
    assert all(6 <= count <= 12 for count in attempts.values()), attempts
