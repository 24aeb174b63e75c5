"""Messages and a timeout of one saga at the same time: what they leave is what some order of them would leave."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING

import rowbus
from tests.conformance.endpoints import ERROR
from tests.conformance.transport import eventually

if TYPE_CHECKING:
    from tests.conformance.endpoints import Endpoints

ORDERS = 8
PAUSE = 0.03  # seconds that each method takes, so that they meet
EFFECTS: dict[str, Callable[[int], int]] = {
    "add": lambda value: value + 1,
    "multiply": lambda value: value * 10,
    "late": lambda value: -value,
}


@rowbus.command("Shop.Begin")
@dataclass
class Begin:
    order_id: int


@rowbus.command("Shop.Change")
@dataclass
class Change:
    order_id: int
    effect: str


@rowbus.message("Shop.Late")
@dataclass
class Late:
    pass


@dataclass
class Steps:
    value: int = 1
    done: list[str] = field(default_factory=list)


def left_by(order: Sequence[str]) -> tuple[int, str]:
    """Give what the effects leave when they come in this order."""
    value = 1
    for effect in order:
        value = EFFECTS[effect](value)
    return value, " ".join(order)


async def test_any_interleaving_is_some_order(endpoints: Endpoints) -> None:
    left: dict[str, tuple[int, str]] = {}

    class Process(rowbus.Saga[Steps], name="Shop.Process"):
        async def _change(self, effect: str, saga_id: str) -> None:
            before = (self.state.value, list(self.state.done))
            await asyncio.sleep(PAUSE)
            self.state.value, self.state.done = EFFECTS[effect](before[0]), [*before[1], effect]
            left[saga_id] = (self.state.value, " ".join(self.state.done))

        @rowbus.starts(Begin, by=lambda message: message.order_id)
        async def begin(self, message: Begin, context: rowbus.SagaContext) -> None:
            await context.request_timeout(Late(), after=timedelta(milliseconds=1))
            for effect in ("add", "multiply"):
                await context.send_local(Change(message.order_id, effect))

        @rowbus.handles(Change, by=lambda message: message.order_id)
        async def change(self, message: Change, context: rowbus.SagaContext) -> None:
            await self._change(message.effect, context.saga_id)

        @rowbus.timeout(Late)
        async def late(self, message: Late, context: rowbus.SagaContext) -> None:
            await self._change("late", context.saga_id)

    sales = endpoints.make("Sales", concurrency=6)
    sales.add(Process)
    async with sales:
        for order_id in range(ORDERS):
            await sales.send_local(Begin(order_id))

        async def done() -> bool:
            # First where they wait: one that moves between the two looks would be in neither.
            delayed = await endpoints.backend.count("Sales.Delayed")
            return len(left) == ORDERS and not delayed + await endpoints.backend.count("Sales")

        await eventually(done)
    assert set(left.values()) <= {left_by(order) for order in itertools.permutations(EFFECTS)}
    assert await endpoints.backend.count(ERROR) == 0
    assert await endpoints.backend.count("Sales.Process") == ORDERS
