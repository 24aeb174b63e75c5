"""Transactional batches: several messages, one transaction; what becomes of each is in test_fates.py."""

from __future__ import annotations

from collections import Counter
from typing import Literal

import pytest

import rowbus
from rowbus.messages.headers import Header
from rowbus.transport.receiving import decisions
from tests.conformance.endpoints import ERROR, Endpoints, PlaceOrder
from tests.conformance.on_postgresql import FAIL_AT_COMMIT, WRITE_BUSINESS
from tests.conformance.transport import (
    eventually,
    in_transaction_modes,
    in_transaction_modes_failing,
)

pytestmark = pytest.mark.only("PostgreSQL", reason="it looks into PostgreSQL's tables")

SIZE = 10
RETRIES = 2


class Batches:
    """An endpoint that writes and sends for every order, and for some does what cannot work."""

    def __init__(self, endpoints: Endpoints, *, batch_size: int | Literal["auto"] = SIZE) -> None:
        none = endpoints.case.mode is rowbus.TransactionMode.NONE
        self.backend = endpoints.backend
        self.attempts: list[str] = []
        self.transactions: dict[str, int] = {}
        self.sales = endpoints.make(
            "Sales",
            batch_size=batch_size,
            concurrency=1,
            recoverability=rowbus.Recoverability(immediate=0 if none else RETRIES, delayed=0),
        )

        @self.sales.handler
        async def place(message: PlaceOrder, context: rowbus.Context) -> None:
            self.attempts.append(message.order_id)
            if message.order_id.startswith("idle"):
                return
            await context.connection.execute(WRITE_BUSINESS, [message.order_id])
            cursor = await context.connection.execute("select txid_current()")
            self.transactions[message.order_id] = (await cursor.fetchall())[0][0]
            await context.send("Billing", message)
            await self._misbehave(message.order_id, context)

    async def _misbehave(self, order_id: str, context: rowbus.Context) -> None:
        if order_id.startswith("fail"):
            raise ValueError(order_id)
        if order_id.startswith("missing"):
            await context.send("nowhere", PlaceOrder(order_id))
        if order_id.startswith("commit"):
            await context.connection.execute(FAIL_AT_COMMIT)

    async def process(self, *orders: str) -> None:
        """Have these messages wait in the queue when the endpoint starts, and wait until all are dealt with."""
        await self.backend.create_business_tables()
        await self.backend.create_queue("Billing")
        await self.sales.install()
        await self.backend.client().send_many("Sales", map(PlaceOrder, orders))
        await self.sales.start()

        async def done() -> bool:
            return await self.backend.count("Sales") == 0

        await eventually(done)
        await self.sales.stop()

    async def billed(self) -> list[str]:
        return sorted(str(row.body) for row in await self.backend.rows("Billing"))

    async def failed(self) -> list[str]:
        return sorted(str(row.body) for row in await self.backend.rows(ERROR))


def bodies(orders: list[str]) -> list[str]:
    return sorted(str(b'{"order_id":"%s"}' % order.encode()) for order in orders)


GOOD = [f"good {number}" for number in range(SIZE - 1)]


def among_good(*bad: str) -> list[str]:
    """Put the bad ones between the good ones, not at an end."""
    middle = SIZE // 2
    return [*GOOD[:middle], *bad, *GOOD[middle:]]


@in_transaction_modes
async def test_a_batch_is_one_transaction_in_the_order_of_the_queue(endpoints: Endpoints) -> None:
    batches = Batches(endpoints)
    orders = [str(number) for number in range(SIZE)]

    await batches.process(*orders)

    assert batches.attempts == orders
    assert len(set(batches.transactions.values())) == 1
    assert await batches.backend.business() == orders
    assert await batches.billed() == bodies(orders)


async def test_a_handler_that_fails_in_a_batch_does_not_have_the_others_repeated(
    endpoints: Endpoints,
) -> None:
    batches = Batches(endpoints)

    await batches.process(*among_good("fail"))

    assert sorted(batches.attempts) == sorted([*GOOD, *["fail"] * (RETRIES + 1)])
    assert len(set(batches.transactions.values())) == 1


@in_transaction_modes_failing
@pytest.mark.parametrize("bad", ["fail", "missing", "commit"])
async def test_a_handler_that_touches_nothing_is_told_apart_from_one_that_fails(
    endpoints: Endpoints, bad: str
) -> None:
    batches = Batches(endpoints)

    await batches.process(*among_good(bad, "idle"))

    assert await batches.backend.business() == GOOD
    assert await batches.failed() == bodies([bad])


async def test_the_error_queue_says_what_was_wrong_with_each(endpoints: Endpoints) -> None:
    batches = Batches(endpoints)

    await batches.process(*among_good("fail", "missing", "commit"))

    kinds = {str(row.body): row.headers[Header.EXCEPTION_TYPE] for row in await batches.backend.rows(ERROR)}
    assert kinds == dict(
        zip(
            (str(b'{"order_id":"%s"}' % bad) for bad in (b"fail", b"missing", b"commit")),
            ("ValueError", "rowbus.errors.QueueNotFoundError", "rowbus.errors.StorageError"),
            strict=True,
        )
    )


@pytest.mark.parametrize("size", [SIZE, "auto"])
async def test_batches_of_several_slots_and_instances_lose_and_repeat_nothing(
    endpoints: Endpoints, size: int | Literal["auto"]
) -> None:
    orders = [
        f"{'fail' if number % 7 == 0 else 'missing' if number % 11 == 0 else 'good'} {number}"
        for number in range(200)
    ]
    first, second = Batches(endpoints, batch_size=size), Batches(endpoints, batch_size=size)
    await first.backend.create_business_tables()
    await first.backend.create_queue("Billing")
    await first.sales.install()
    await first.backend.client().send_many("Sales", map(PlaceOrder, orders))

    async def done() -> bool:
        return await first.backend.count("Sales") == 0

    async with first.sales, second.sales:
        first.sales.change_concurrency(3)
        await eventually(done)
    good = sorted(order for order in orders if order.startswith("good"))
    assert await first.backend.business() == good
    assert await first.billed() == bodies(good)
    assert await first.failed() == bodies([order for order in orders if not order.startswith("good")])


@pytest.mark.one_version
async def test_a_unit_grows_while_messages_wait_and_is_one_again_after_a_failure(
    endpoints: Endpoints, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(decisions, "LONGEST", 3600.0)  # the machine of the test may be slow
    batches = Batches(endpoints, batch_size="auto")

    await batches.process(*map(str, range(12)), "fail", *map(str, range(12, 17)))

    sizes = Counter(transaction for order, transaction in batches.transactions.items() if order != "fail")
    assert list(sizes.values()) == [1, 2, 4, 7, 1, 2]
    assert await batches.failed() == bodies(["fail"])
