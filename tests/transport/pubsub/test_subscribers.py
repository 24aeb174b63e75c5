"""Subscribers as an endpoint remembers them, and for how long."""

from __future__ import annotations

import asyncio
import gc
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, cast

import pytest

from rowbus.messages.address import QueueAddress
from rowbus.testing import FakeClock
from rowbus.transport.pubsub.postgresql import SubscriptionRouting
from rowbus.transport.pubsub.subscribers import MOST_REMEMBERED, Subscribers
from tests.conformance.transport import eventually

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from rowbus.database.pool import SessionPool
    from rowbus.database.statements import Statement

BILLING = QueueAddress("public", "Billing")
SHIPPING = QueueAddress("public", "Shipping")
PLACED = ("OrderPlaced", "IOrderEvent")


class Database:
    """Answers questions when it is told to; `asked` holds the topics of each question."""

    def __init__(self) -> None:
        self.asked: list[list[str]] = []
        self.answer: tuple[QueueAddress, ...] | BaseException = (BILLING,)
        self.open = asyncio.Event()
        self.open.set()

    @asynccontextmanager
    async def session(self) -> AsyncGenerator[Database]:
        yield self

    async def run(self, statement: Statement[Any]) -> Any:  # noqa: ANN401 - a count, or addresses
        if "queue_address" in statement.parameters or "endpoint" in statement.parameters:
            return 0
        self.asked.append(cast("list[str]", statement.parameters["topics"]))
        answer = self.answer
        await self.open.wait()
        if isinstance(answer, BaseException):
            raise answer
        return answer


class Case:
    """Subscribers that are remembered for 5 s of a clock."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.database = Database()
        self.subscribers = Subscribers(
            cast("SessionPool", self.database),
            SubscriptionRouting(QueueAddress("public", "SubscriptionRouting")),
            remember=5,
            clock=self.clock,
        )

    async def waiting(self, count: int = 1) -> list[asyncio.Task[Any]]:
        """Give so many who wait for an answer."""
        self.database.open.clear()
        tasks = [asyncio.create_task(self.subscribers.of(PLACED)) for _ in range(count)]
        await eventually(lambda: bool(self.database.asked))
        return tasks


@pytest.fixture
async def case() -> Case:
    return Case()


async def test_an_answer_is_good_for_as_long_as_the_setting_says(case: Case) -> None:
    assert await case.subscribers.of(PLACED) == (BILLING,)
    case.database.answer = (BILLING, SHIPPING)
    case.clock.advance(4.9)
    assert await case.subscribers.of(PLACED) == (BILLING,)
    case.clock.advance(0.1)

    assert await case.subscribers.of(PLACED) == (BILLING, SHIPPING)
    assert len(case.database.asked) == 2


async def test_each_event_has_an_answer_of_its_own(case: Case) -> None:
    await case.subscribers.of(PLACED)
    await case.subscribers.of(("OrderCancelled", "IOrderEvent"))

    assert [topics[0] for topics in case.database.asked] == ["OrderPlaced", "OrderCancelled"]


async def test_of_many_who_ask_at_once_one_asks_the_database(case: Case) -> None:
    tasks = await case.waiting(50)
    case.clock.advance(60)
    tasks.append(asyncio.create_task(case.subscribers.of(PLACED)))
    await asyncio.sleep(0)
    case.database.open.set()

    assert await asyncio.gather(*tasks) == [(BILLING,)] * 51
    assert len(case.database.asked) == 1


async def test_who_stops_waiting_takes_the_answer_from_nobody(case: Case) -> None:
    first, second = await case.waiting(2)
    first.cancel()
    await asyncio.wait([first])
    case.database.open.set()

    assert first.cancelled()
    assert await second == (BILLING,)
    assert await case.subscribers.of(PLACED) == (BILLING,)
    assert len(case.database.asked) == 1


async def test_a_question_that_was_cancelled_itself_is_asked_again(case: Case) -> None:
    (waiting,) = await case.waiting()
    (question,) = [task for task in asyncio.all_tasks() if task.get_name() == "rowbus subscribers"]
    question.cancel()
    await asyncio.wait([waiting])
    case.database.open.set()

    assert waiting.cancelled()
    assert await case.subscribers.of(PLACED) == (BILLING,)


async def test_a_failure_is_told_to_all_who_wait_and_not_remembered(case: Case) -> None:
    case.database.answer = ConnectionError("away")
    tasks = await case.waiting(3)
    case.database.open.set()
    failures = await asyncio.gather(*tasks, return_exceptions=True)
    case.database.answer = (SHIPPING,)

    assert [str(failure) for failure in failures] == ["away"] * 3
    assert await case.subscribers.of(PLACED) == (SHIPPING,)


async def test_a_failure_nobody_waits_for_any_more_is_not_complained_of(case: Case) -> None:
    complaints: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda _loop, context: complaints.append(context))
    case.database.answer = ConnectionError("away")
    (waiting,) = await case.waiting()
    waiting.cancel()
    await asyncio.wait([waiting])
    case.database.open.set()
    for _ in range(3):
        await asyncio.sleep(0)
    del waiting
    gc.collect()

    assert not complaints


@pytest.mark.parametrize("changed", ["OrderPlaced", "IOrderEvent"])
async def test_own_subscriptions_are_noticed_at_once(case: Case, changed: str) -> None:
    await case.subscribers.of(PLACED)
    case.database.answer = (SHIPPING,)
    await case.subscribers.subscribe("Shipping", [changed], SHIPPING)
    assert await case.subscribers.of(PLACED) == (SHIPPING,)
    case.database.answer = ()
    await case.subscribers.unsubscribe("Shipping", [changed])

    assert await case.subscribers.of(PLACED) == ()


async def test_an_answer_to_a_question_from_before_an_own_subscription_is_not_remembered(case: Case) -> None:
    (waiting,) = await case.waiting()
    await case.subscribers.subscribe("Shipping", ["OrderPlaced"], SHIPPING)
    case.database.answer = (BILLING, SHIPPING)
    case.database.open.set()

    assert await waiting == (BILLING,)
    assert await case.subscribers.of(PLACED) == (BILLING, SHIPPING)


async def test_subscriptions_to_something_else_change_nothing(case: Case) -> None:
    await case.subscribers.of(PLACED)
    await case.subscribers.subscribe("Shipping", ["OrderCancelled"], SHIPPING)
    await case.subscribers.of(PLACED)

    assert len(case.database.asked) == 1


async def test_what_is_remembered_does_not_grow_without_bounds(case: Case) -> None:
    for number in range(MOST_REMEMBERED + 10):
        await case.subscribers.of((f"Event{number}",))

    assert len(case.subscribers._answers) <= MOST_REMEMBERED


async def test_closing_cancels_those_who_wait(case: Case) -> None:
    (waiting,) = await case.waiting()
    await case.subscribers.close()
    await asyncio.wait([waiting])

    assert waiting.cancelled()
    assert not [task for task in asyncio.all_tasks() if task.get_name() == "rowbus subscribers"]
