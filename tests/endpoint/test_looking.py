"""A receiver's look for messages: it locks nothing, asks no more than it must, and overlooks nothing."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any

import pytest

import rowbus
from rowbus.database.statements import Statement
from rowbus.messages.message import MessageRow
from rowbus.transport.queues.postgresql import QueueTable
from rowbus.transport.receiving import receiver as receiver_module
from rowbus.transport.receiving.decisions import Round
from rowbus.transport.receiving.delivery import Delivery
from tests.conformance.endpoints import Endpoints, PlaceOrder
from tests.conformance.transport import (
    A_WHILE,
    SENDS_ATOMIC_ROLLBACK,
    SimulatedError,
    Transport,
    eventually,
    headers_text,
    ignored,
    retried,
    within,
)
from tests.endpoint.spying import Spy

pytestmark = pytest.mark.only("PostgreSQL", reason="it looks into PostgreSQL's tables")

SLOWLY = timedelta(seconds=10)  # a peek delay that no test waits for
SOON = 5.0  # seconds: much less than that, much more than it takes
FROM_THE_START = -(2**31)


class Slow:
    """A handler that keeps the first message until it is released, and lets all others pass."""

    def __init__(self) -> None:
        self.entered = asyncio.Event()
        self.release = asyncio.Event()
        self.passed = 0

    async def __call__(self, delivery: Delivery) -> None:
        if not self.entered.is_set():
            self.entered.set()
            await within(self.release.wait())
        self.passed += 1


@pytest.mark.parametrize("notifications", [True, False])
async def test_a_slow_handler_hides_no_other_message(transport: Transport, *, notifications: bool) -> None:
    slow = Slow()
    await transport.start(slow, concurrency=2, notifications=notifications)
    spy = Spy(transport.receiver)
    await transport.send()
    await within(slow.entered.wait())
    await spy.rounds_to_be_over()

    await transport.send()

    await eventually(lambda: slow.passed == 1, SOON)
    assert not slow.release.is_set()
    slow.release.set()


async def test_a_receiver_with_a_slow_handler_does_not_spin(transport: Transport) -> None:
    slow = Slow()
    await transport.start(slow, notifications=False)
    spy = Spy(transport.receiver)
    await transport.send()
    await within(slow.entered.wait())
    await spy.rounds_to_be_over()
    started, peeks, receives = time.monotonic(), spy.peeks, spy.receives

    await eventually(lambda: spy.peeks >= peeks + 4)

    assert time.monotonic() - started > 3 * 0.08  # the peek delay is 100 ms less a fifth at most
    assert spy.receives == receives
    slow.release.set()


async def test_an_empty_queue_is_peeked_and_not_received_from(transport: Transport) -> None:
    await transport.start(ignored)
    spy = Spy(transport.receiver)
    await eventually(lambda: spy.peeks >= 4)
    assert spy.receives == 0


async def test_competing_for_one_message_costs_each_other_instance_at_most_one_empty_receive(
    transport: Transport,
) -> None:
    instances = [transport, *[await transport.another() for _ in range(3)]]
    handled: list[Delivery] = []

    async def on_message(delivery: Delivery) -> None:
        handled.append(delivery)

    spies = []
    for instance in instances:
        await instance.start(on_message, peek_delay=SLOWLY)
        spies.append(Spy(instance.receiver))
    await eventually(lambda: all(spy.peeks >= 1 for spy in spies))

    await transport.send()

    await eventually(lambda: len(handled) == 1)
    await eventually(lambda: all(spy.peeks >= 1 for spy in spies))
    await asyncio.gather(*(instance.stop() for instance in instances))
    assert sorted(spy.full for spy in spies) == [0, 0, 0, 1]
    assert all(spy.empty <= 1 + 2 * spy.full for spy in spies), [spy.empty for spy in spies]


async def test_receiving_stops_when_the_queue_is_empty_whatever_the_range_of_its_positions(
    transport: Transport,
) -> None:
    await transport.send_numbered(1000)
    await transport.backend.execute("delete from input where seq % 22 <> 0")
    await transport.start(ignored, concurrency=4)
    spy = Spy(transport.receiver)

    await transport.wait_until_empty()
    await transport.stop()

    assert spy.full == 45
    assert spy.empty <= 4


async def test_max_records_to_peek_bounds_a_round(
    transport: Transport, monkeypatch: pytest.MonkeyPatch
) -> None:
    rounds: list[Round] = []

    class Noted(Round):
        def __init__(self, *, concurrency: int, records: int | None = None) -> None:
            super().__init__(concurrency=concurrency, records=records)
            rounds.append(self)

    monkeypatch.setattr(receiver_module, "Round", Noted)
    await transport.send_numbered(20)
    await transport.start(ignored, max_records_to_peek=3)

    await transport.wait_until_empty()
    assert [noted.received for noted in rounds][:6] == [3] * 6
    assert sum(noted.received for noted in rounds) == 20


# --- waking up


async def test_a_notification_wakes_an_idle_receiver_every_time(transport: Transport) -> None:
    received: asyncio.Queue[Delivery] = asyncio.Queue()
    await transport.start(received.put, peek_delay=SLOWLY)

    for pause in (0, 0, 0, 0, 0.001, 0.002, 0.005, 0.01, 0.02, 0.04):  # whatever it is doing just then
        await transport.send()
        await within(received.get(), SOON)
        await asyncio.sleep(pause)


async def test_a_notification_wakes_each_of_several_instances_that_are_needed(transport: Transport) -> None:
    other = await transport.another()
    held = asyncio.Event()
    inside = 0

    async def on_message(delivery: Delivery) -> None:
        nonlocal inside
        inside += 1
        await within(held.wait())

    await transport.start(on_message, concurrency=2, peek_delay=SLOWLY)
    await other.start(on_message, concurrency=2, peek_delay=SLOWLY)

    await transport.send_numbered(4)

    await eventually(lambda: inside == 4, SOON)
    held.set()


async def test_a_message_that_commits_while_the_queue_is_peeked_is_not_forgotten(
    transport: Transport,
) -> None:
    """200 sends, each as soon as the last was handled: a wake-up lost in any phase would take ten seconds."""
    received: asyncio.Queue[Delivery] = asyncio.Queue()
    await transport.start(received.put, peek_delay=SLOWLY)

    for _ in range(200):
        await transport.send()
        await within(received.get(), SOON)


async def test_an_insert_by_other_software_wakes_where_the_trigger_is_installed(endpoints: Endpoints) -> None:
    received: asyncio.Queue[PlaceOrder] = asyncio.Queue()
    sales = endpoints.make("Sales", foreign_notifications=True, peek_delay=SLOWLY)
    sales.handler(_putting(received))
    headers = headers_text(NServiceBus__EnclosedMessageTypes="Shop.Messages.PlaceOrder")

    async with sales:
        for number in range(5):
            await asyncio.sleep(A_WHILE)  # it has nothing more to do, and waits
            await endpoints.backend.insert(sales.address, headers, b'{"order_id":"%d"}' % number)
            assert await within(received.get(), SOON) == PlaceOrder(str(number))


@pytest.mark.parametrize("notifications", [True, False])
async def test_an_insert_that_notifies_nobody_is_found_by_polling(
    endpoints: Endpoints, *, notifications: bool
) -> None:
    received: asyncio.Queue[PlaceOrder] = asyncio.Queue()
    sales = endpoints.make("Sales", notifications=notifications)
    sales.handler(_putting(received))
    headers = headers_text(NServiceBus__EnclosedMessageTypes="Shop.Messages.PlaceOrder")

    async with sales:
        for number in range(3):
            await endpoints.backend.insert(sales.address, headers, b'{"order_id":"%d"}' % number)
            assert await within(received.get(), SOON) == PlaceOrder(str(number))


async def test_a_row_inserted_without_a_notification_is_found_soon_after_work(transport: Transport) -> None:
    """Eight looks after work fit into 5 s; the next one of an idle receiver comes after 8 s."""
    received: asyncio.Queue[Delivery] = asyncio.Queue()
    await transport.backend.insert(transport.address, "{}", b"{}")
    await transport.start(received.put, peek_delay=SLOWLY, notifications=False)
    await within(received.get())

    for pause in (0, 0.02, 0.1, 0.3):
        await asyncio.sleep(pause)
        await transport.backend.insert(transport.address, "{}", b"{}")
        await within(received.get(), SOON)


async def test_what_answers_a_slow_handler_is_found_soon_after_that(transport: Transport) -> None:
    slow = Slow()
    await transport.backend.insert(transport.address, "{}", b"{}")
    await transport.start(slow, peek_delay=SLOWLY, notifications=False)
    spy = Spy(transport.receiver)
    await within(slow.entered.wait())
    await eventually(lambda: spy.peeks >= 1)
    await asyncio.sleep(A_WHILE)  # the receiver has peeked in vain, and waits for the peek delay

    slow.release.set()
    await eventually(lambda: slow.passed == 1, SOON)
    await transport.backend.insert(transport.address, "{}", b"{}")

    await eventually(lambda: slow.passed == 2, SOON)


async def test_an_idle_receiver_looks_no_more_often_than_the_peek_delay(transport: Transport) -> None:
    await transport.start(ignored, peek_delay=SLOWLY)
    spy = Spy(transport.receiver)
    other = await transport.another()
    await other.start(ignored)
    clock = Spy(other.receiver)

    await eventually(lambda: clock.peeks >= 10)  # a second: looks after 20, 40, 80 … ms would be six
    assert spy.peeks <= 1


def _putting(received: asyncio.Queue[PlaceOrder]) -> Callable[[PlaceOrder], Awaitable[None]]:
    async def place(message: PlaceOrder) -> None:
        await received.put(message)

    return place


# --- below the lower bound


async def test_a_look_begins_near_what_the_one_before_found(
    transport: Transport, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, receive = set[int](), QueueTable.receive

    def noting(self: QueueTable, most: int, bound: int, **given: Any) -> Statement[list[MessageRow]]:  # noqa: ANN401 - as it takes
        begun.add(bound)
        return receive(self, most, bound, **given)

    monkeypatch.setattr(QueueTable, "receive", noting)
    await transport.send_numbered(200)
    await transport.start(ignored)
    await transport.wait_until_empty()

    assert max(begun) > 100


async def test_an_older_message_that_commits_late_is_found(transport: Transport) -> None:
    late = await transport.backend.database.connect()
    received: list[str | None] = []

    async def on_message(delivery: Delivery) -> None:
        received.append(delivery.headers["Number"])

    await transport.start(on_message)
    async with late.transaction():
        await late.connection.execute(
            """insert into input (id, headers, body) values (gen_random_uuid(), '{"Number":"late"}', '')"""
        )
        await transport.send_numbered(200)
        await eventually(lambda: len(received) == 200)

    await eventually(lambda: len(received) == 201, SOON)
    await late.close()
    assert received[-1] == "late"


async def test_an_older_message_that_was_rolled_back_elsewhere_is_found(transport: Transport) -> None:
    await transport.send_numbered(201)
    elsewhere = await transport.backend.database.connect_receiver()
    (held,) = await elsewhere.begin(QueueTable(transport.address).receive(1, FROM_THE_START))
    received: list[str] = []

    async def on_message(delivery: Delivery) -> None:
        received.append(delivery.id)

    await transport.start(on_message)
    await eventually(lambda: len(received) == 200)
    assert held.id not in received

    await elsewhere.rollback()

    await eventually(lambda: held.id in received, SOON)
    await elsewhere.close()


# --- the peek delay


@pytest.mark.one_version
async def test_a_peek_delay_below_100_ms_is_an_error() -> None:
    with pytest.raises(rowbus.ConfigurationError, match="at least 100 ms"):
        rowbus.EndpointSettings(peek_delay=timedelta(milliseconds=99))


async def test_a_peek_delay_above_10_s_is_warned_about(
    transport: Transport, caplog: pytest.LogCaptureFixture
) -> None:
    await transport.start(ignored, peek_delay=timedelta(seconds=10))
    assert caplog.records == []
    await transport.stop()
    await transport.start(ignored, peek_delay=timedelta(seconds=10.5))
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert "above 10 s" in caplog.text


async def test_a_message_that_goes_back_to_its_queue_is_looked_for_at_once(transport: Transport) -> None:
    """Also when nothing wakes the receiver but its own rollback."""
    transport.case = SENDS_ATOMIC_ROLLBACK
    attempts: list[str] = []

    async def on_message(delivery: Delivery) -> None:
        attempts.append(delivery.id)
        await within(transport.receiver.permits.over.wait())
        await asyncio.sleep(A_WHILE)  # the receiver has peeked in vain, and waits for the peek delay
        if len(attempts) < 3:
            raise SimulatedError

    await transport.start(on_message, retried, peek_delay=SLOWLY)
    await transport.send()

    await eventually(lambda: len(attempts) == 3, SOON)
    await transport.wait_until_empty()
