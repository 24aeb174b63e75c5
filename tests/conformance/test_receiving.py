"""Receiving, as `behaviours.md` lists it: what a message looks like, and how many are processed at a time."""

from __future__ import annotations

import asyncio

import pytest

from rowbus.messages.address import QueueAddress
from rowbus.transport.receiving.delivery import Delivery
from tests.conformance.backend import Backend
from tests.conformance.transport import (
    SimulatedError,
    Transport,
    eventually,
    handled,
    in_all_modes,
    in_all_modes_failing,
    in_transaction_modes,
    never,
    within,
)


@in_all_modes
async def test_when_message_is_available(transport: Transport) -> None:
    received: asyncio.Queue[Delivery] = asyncio.Queue()
    await transport.start(received.put)

    await transport.send(b"\x01\x02\x03", {"MyHeader": "MyValue"})

    delivery = await within(received.get())
    assert delivery.id
    assert delivery.headers == {"MyHeader": "MyValue"}
    assert delivery.body == b"\x01\x02\x03"
    await transport.wait_until_empty()
    assert received.empty()


@in_all_modes_failing
async def test_when_receiving_message(transport: Transport) -> None:
    addresses: list[QueueAddress] = []

    async def on_message(delivery: Delivery) -> None:
        addresses.append(delivery.receive_address)
        raise SimulatedError

    await transport.start(on_message, handled)
    await transport.send()

    await eventually(lambda: len(transport.failures) == 1)
    assert addresses == [transport.address]
    assert transport.failures[0].delivery.receive_address == transport.address


@in_all_modes
async def test_when_using_unicode_characters_in_headers(transport: Transport) -> None:
    headers = {
        "a-B1": "a-B",
        "a-B2": "a-ɤϡ֎ᾣ♥-b",
        "a-ɤϡ֎ᾣ♥-B3": "a-B",
        "a-B4": "a-\U0001f60d-b",
        "a-\U0001f605-B5": "a-B",
        "a-B6": "a-😍-b",
        "a-😅-B7": "a-B",
        "controls": '\0\x1f\x7f\x85\u2028"\\/\t',
    }
    received: asyncio.Queue[Delivery] = asyncio.Queue()
    await transport.start(received.put)

    await transport.send(headers=headers)

    assert (await within(received.get())).headers == headers


class Crowd:
    """A handler that notes how many messages are in its hands, and keeps each until it is told to let go."""

    def __init__(self) -> None:
        self.inside = 0
        self.most = 0
        self.done = 0
        self.gate = asyncio.Event()

    async def __call__(self, delivery: Delivery) -> None:
        self.inside += 1
        self.most = max(self.most, self.inside)
        gate = self.gate
        await within(gate.wait())
        self.inside -= 1
        self.done += 1

    async def grows_to(self, size: int) -> None:
        """Wait until so many are inside, and see that no more come."""
        await eventually(lambda: self.inside >= size)
        await never(lambda: self.inside > size)

    def let_go(self) -> None:
        """Let those inside finish, keep those who come now, and count the most anew."""
        self.gate.set()
        self.gate = asyncio.Event()
        self.most = 0

    def open(self) -> None:
        self.gate.set()


@pytest.mark.passes_over_locked
@in_all_modes
async def test_when_multiple_messages_are_available(transport: Transport) -> None:
    crowd = Crowd()
    await transport.send_numbered(20)
    await transport.start(crowd, concurrency=10)

    await crowd.grows_to(10)
    crowd.open()

    await eventually(lambda: crowd.done == 20)
    assert crowd.most == 10
    await transport.wait_until_empty()


@pytest.mark.passes_over_locked
@in_all_modes
async def test_when_multiple_messages_are_available_and_concurrency_is_increased_after_pump_started(
    transport: Transport,
) -> None:
    crowd = Crowd()
    await transport.send_numbered(20)
    await transport.start(crowd, concurrency=2)
    await crowd.grows_to(2)

    transport.receiver.change_concurrency(10)

    await crowd.grows_to(10)
    crowd.open()
    await eventually(lambda: crowd.done == 20)
    assert crowd.most == 10


@pytest.mark.passes_over_locked
@in_all_modes
async def test_when_multiple_messages_are_available_and_concurrency_is_lowered_after_pump_started(
    transport: Transport,
) -> None:
    crowd = Crowd()
    await transport.send_numbered(30)
    await transport.start(crowd, concurrency=10)
    await crowd.grows_to(10)

    transport.receiver.change_concurrency(3)
    crowd.let_go()

    await eventually(lambda: crowd.done == 10)
    await crowd.grows_to(3)
    crowd.open()
    await eventually(lambda: crowd.done == 30)


@pytest.mark.passes_over_locked
@in_all_modes
async def test_when_multiple_messages_are_available_and_concurrency_is_increased_and_decreased_after_pump_started(
    transport: Transport,
) -> None:
    crowd = Crowd()
    await transport.send_numbered(30)
    await transport.start(crowd, concurrency=4)
    await crowd.grows_to(4)

    for concurrency in (12, 1, 9, 2):
        transport.receiver.change_concurrency(concurrency)
    crowd.let_go()

    await eventually(lambda: crowd.done >= 4)
    await crowd.grows_to(2)
    crowd.open()
    await eventually(lambda: crowd.done == 30)


async def _is_alone(backend: Backend) -> bool:
    return await backend.count_sessions() == 0


@pytest.mark.one_version
async def test_when_creating_send_only_transport(backend: Backend) -> None:
    """Our send-only transport is a client on a connection: it has nothing that receives."""
    await backend.create_queue("input")
    await eventually(lambda: _is_alone(backend))
    tasks = asyncio.all_tasks()

    await backend.client().send("input", b"body", type="Some.Message")

    assert asyncio.all_tasks() == tasks
    assert await _is_alone(backend)
    assert await backend.tables() == ["input"]
    assert await backend.count("input") == 1


@in_transaction_modes
async def test_an_older_message_waits_behind_nobody_in_the_order_of_one_receiver(
    transport: Transport,
) -> None:
    order: list[str | None] = []

    async def on_message(delivery: Delivery) -> None:
        order.append(delivery.headers["Number"])

    await transport.send_numbered(20)
    await transport.start(on_message, concurrency=1)

    await transport.wait_until_empty()
    assert order == [str(number) for number in range(20)]
