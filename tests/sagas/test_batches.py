"""Sagas in batches: two batches that hold each other's sagas are untangled by the server, and nothing fails for it."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import TYPE_CHECKING

import rowbus
from tests.conformance.endpoints import ERROR
from tests.conformance.transport import eventually

if TYPE_CHECKING:
    from tests.conformance.endpoints import Endpoints

SAGAS, CHANGES = 4, 12


@rowbus.command("Shop.Count")
@dataclass
class Count:
    key: int


@dataclass
class Counted:
    times: int = 0


class Counting(rowbus.Saga[Counted], name="Shop.Counting"):
    @rowbus.starts(Count, by=lambda message: message.key)
    async def count(self, message: Count, context: rowbus.SagaContext) -> None:
        self.state.times += 1
        await context.send("Counted", {"times": self.state.times}, type="Shop.Counted")


async def test_each_message_counts_once(endpoints: Endpoints) -> None:
    await endpoints.backend.create_queue("Counted")
    sales = endpoints.make("Sales", concurrency=2, batch_size=6)
    sales.add(Counting)
    await sales.install()
    keys = [key for key in range(SAGAS) for _ in range(CHANGES)]
    random.Random(7).shuffle(keys)
    for key in keys:
        headers = '{"NServiceBus.EnclosedMessageTypes":"Shop.Count"}'
        await endpoints.backend.insert(sales.address, headers, f'{{"key":{key}}}'.encode())
    async with sales:

        async def empty() -> bool:
            return await endpoints.backend.count("Sales") == 0

        await eventually(empty)
    bodies = [row.body or b"" for row in await endpoints.backend.rows("Counted")]
    assert sorted(bodies) == sorted(
        f'{{"times":{n}}}'.encode() for n in range(1, CHANGES + 1) for _ in range(SAGAS)
    )
    assert await endpoints.backend.count(ERROR) == 0
