"""docs/how-to/version-messages.md: a saga that is found by another value, deployed in the page's order under traffic.

Each saga that begins before a deploy is ended after it, by either side's version; none is lost, and none ends twice.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import pytest

import rowbus
from tests.conformance.backend import Backend
from tests.conformance.endpoints import Endpoints
from tests.conformance.transport import eventually

pytestmark = [
    pytest.mark.only("PostgreSQL", reason="sagas are tested there"),
    pytest.mark.one_version,
]


@rowbus.command("Shop.BeginOrder")
@dataclass
class Begin:
    id: str


@rowbus.command("Shop.BeginOrder.V2")
@dataclass
class Begin2:
    number: str


@rowbus.command("Shop.PayOrder")
@dataclass
class Pay:
    id: str | None = None
    number: str | None = None


@dataclass
class ById:
    id: str


@dataclass
class ByNumber:
    number: str


BEGUN: list[str] = []  # and committed: what is paid earlier finds no saga
PAID: list[str] = []


class Old(rowbus.Saga[ById], name="Shop.OrderById", correlation="id"):
    @rowbus.starts(Begin, by=lambda message: message.id)
    async def begun(self, _message: Begin, context: rowbus.SagaContext) -> None:
        context.on_commit(partial(BEGUN.append, self.state.id))

    @rowbus.handles(Pay, by=lambda message: message.id or "none")
    async def paid(self, _message: Pay, context: rowbus.SagaContext) -> None:
        PAID.append(self.state.id)
        context.complete()


class New(rowbus.Saga[ByNumber], name="Shop.OrderByNumber", correlation="number"):
    @rowbus.starts(Begin2, by=lambda message: message.number)
    async def begun(self, _message: Begin2, context: rowbus.SagaContext) -> None:
        context.on_commit(partial(BEGUN.append, self.state.number))

    @rowbus.handles(Pay, by=lambda message: message.number or "none")
    async def paid(self, _message: Pay, context: rowbus.SagaContext) -> None:
        PAID.append(self.state.number)
        context.complete()


RECEIVERS = ((Old,), (Old, New), (New,))
SENDERS = ((Begin, ("id",)), (Begin2, ("id", "number")), (Begin2, ("number",)))


class Traffic:
    """Orders that begin, and that are paid a deploy later."""

    def __init__(self, client: rowbus.Endpoint) -> None:
        self._client = client
        self._begun: list[str] = []
        self._paid = 0

    async def begin(self, *senders: int) -> None:
        """Have each of these versions of the senders begin three orders."""
        for version in senders * 3:
            self._begun.append(str(len(self._begun) + 1))
            await self._client.send("Sales", SENDERS[version][0](self._begun[-1]))
        await eventually(lambda: len(BEGUN) == len(self._begun))

    async def pay(self, version: int) -> None:
        """Pay what has begun, with the values that a version of the senders sets."""
        for value in self._begun[self._paid :]:
            await self._client.send("Sales", Pay(**dict.fromkeys(SENDERS[version][1], value)))
        self._paid = len(self._begun)
        await eventually(lambda: len(PAID) >= self._paid)
        assert sorted(PAID, key=int) == self._begun


@pytest.fixture(autouse=True)
def nothing_yet() -> None:
    BEGUN.clear()
    PAID.clear()


async def receiver(endpoints: Endpoints, version: int) -> rowbus.Endpoint:
    made = endpoints.make("Sales")
    for saga in RECEIVERS[version]:
        made.add(saga)
    await made.start()
    return made


async def test_sagas_that_have_begun_go_on_while_they_become_found_by_another_value(
    endpoints: Endpoints, backend: Backend
) -> None:
    client = endpoints.make("Web")
    await client.start()
    old = await receiver(endpoints, 0)
    traffic = Traffic(client)
    await traffic.begin(0)

    both = await receiver(endpoints, 1)
    await traffic.begin(0)
    await traffic.pay(0)
    await traffic.begin(0)
    await old.stop(5)

    await traffic.begin(0, 1)
    await traffic.pay(1)  # the last of the old saga
    await traffic.begin(1)

    new = await receiver(endpoints, 2)
    await traffic.begin(1)
    await traffic.pay(1)
    await traffic.begin(1)
    await both.stop(5)

    await traffic.begin(1, 2)
    await traffic.pay(2)
    await new.stop(5)
    assert await backend.count("error") == 0
