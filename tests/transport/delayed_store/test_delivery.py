"""From `delay=` through the Timeouts queue and the store to the handler: when, in which shape, and by whom."""

from __future__ import annotations

import asyncio
import time
from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest

import rowbus
from rowbus.errors import InvalidHeaderError, QueueNotFoundError
from rowbus.messages.headers import Header
from rowbus.transport.delayed_store.poller import DatabaseClock
from rowbus.transport.queues.catalog import postgresql as catalog
from tests.conformance.endpoints import Endpoints, OrderAccepted, PlaceOrder
from tests.conformance.on_postgresql import queue
from tests.conformance.transport import eventually, in_all_modes, never, within
from tests.transport.delayed_store.place import BILLING, ERROR, LATER, SOON, TIMEOUTS, Place, order

pytestmark = pytest.mark.only("PostgreSQL", reason="it looks into PostgreSQL's tables")


@in_all_modes
async def test_a_message_sent_with_a_delay_arrives_then_and_not_before(place: Place) -> None:
    sales = place.sales()
    sent: list[float] = []
    arrived: asyncio.Future[float] = asyncio.get_running_loop().create_future()

    @sales.handler
    async def place_order(message: PlaceOrder, context: rowbus.Context) -> None:
        sent.append(time.monotonic())
        await context.send("Sales", OrderAccepted(message.order_id), delay=SOON)

    @sales.handler
    async def accepted(message: OrderAccepted, context: rowbus.Context) -> None:
        assert not [name for name in context.headers if "Timeout" in name]
        assert message == OrderAccepted("001")
        arrived.set_result(time.monotonic())

    async with sales:
        await sales.send("Sales", order(1))
        waited = await within(arrived) - sent[0]
        await place.wait_until_nothing_is_left()

    assert SOON.total_seconds() <= waited < SOON.total_seconds() + 5


async def test_it_waits_in_the_store_in_its_own_shape(place: Place) -> None:
    sales = place.sales()

    async with sales:
        before = datetime.now(UTC)
        message_id = await sales.send("Billing", order(1), delay=LATER, headers={"Nöte": "✓"})
        await place.wait_until_kept(1)
        after = datetime.now(UTC)
        (kept,) = await place.kept()

    assert kept.destination == '"public"."Billing"'
    assert kept.headers[Header.MESSAGE_ID] == message_id
    assert kept.headers["Nöte"] == "✓"
    assert not [name for name in kept.headers if "Timeout" in name]
    assert kept.body == b'{"order_id":"001"}'
    assert kept.retries == 0
    tolerance = timedelta(milliseconds=50)  # of the database's clock, against ours
    assert before + LATER - tolerance <= kept.time <= after + LATER + tolerance


async def test_the_endpoint_has_no_table_of_delayed_messages_of_its_own(place: Place) -> None:
    async with place.sales():
        named = "select count(*) from information_schema.tables where table_name = 'Sales.Delayed'"
        assert await place.backend.values(named) == [0]  # a store's own table is `Sales.delayed`


APART = timedelta(seconds=3)
"""Those that are due together are forwarded side by side, in any order; a busy machine is not to make them so."""


async def test_of_two_messages_the_one_due_first_arrives_first_whichever_was_sent_first(place: Place) -> None:
    sales = place.sales(concurrency=1)
    arrived: list[str] = []

    @sales.handler
    async def handle(message: PlaceOrder) -> None:
        arrived.append(message.order_id)

    async with sales:
        await sales.send("Sales", order(3), delay=LATER + APART)
        await sales.send("Sales", order(1), delay=LATER)
        await place.wait_until_kept(2)
    await place.bring_forward(LATER)
    async with sales:
        await eventually(lambda: arrived == ["001", "003"])


async def test_an_instant_that_has_passed_means_at_once_and_nothing_is_stored(place: Place) -> None:
    sales = place.sales()
    arrived = asyncio.Event()

    @sales.handler
    async def handle(message: PlaceOrder) -> None:
        arrived.set()

    async with sales:
        await sales.send("Sales", order(1), deliver_at=datetime.now(UTC) - LATER)
        await within(arrived.wait())
        if place.faults.calls:
            assert "store" not in place.faults.calls


async def test_what_an_attempt_delays_and_then_fails_is_not_delayed(place: Place) -> None:
    sales = place.sales()
    attempts: list[str] = []

    @sales.handler
    async def handle(message: PlaceOrder, context: rowbus.Context) -> None:
        await context.send("Billing", OrderAccepted(message.order_id), delay=LATER)
        attempts.append(message.order_id)
        if len(attempts) < 3:
            raise ValueError

    async with sales:
        await sales.send("Sales", order(1))
        await eventually(lambda: len(attempts) == 3)
        await place.wait_until_kept(1)
        assert await place.backend.count(ERROR) == 0


async def test_delaying_a_message_that_may_expire_is_refused(shared: Place) -> None:
    async with shared.sales() as sales:
        with pytest.raises(InvalidHeaderError):
            await sales.send("Billing", order(1), delay=LATER, time_to_be_received=LATER)


async def test_two_destinations_of_one_message_each_get_it(place: Place) -> None:
    sales = place.sales()
    for address in (BILLING, queue("Shipping")):
        await place.backend.create_queue(address)

    @sales.handler
    async def handle(message: PlaceOrder, context: rowbus.Context) -> None:
        for destination in ("Billing", "Shipping"):
            headers = {Header.MESSAGE_ID: "the same"}
            await context.send(destination, OrderAccepted(message.order_id), delay=SOON, headers=headers)

    async with sales:
        await sales.send("Sales", order(1))
        await place.wait_for_rows(1, BILLING)
        await place.wait_for_rows(1, queue("Shipping"))


async def test_many_messages_all_arrive_once(place: Place) -> None:
    sales = place.sales()
    await place.backend.create_queue(BILLING)

    async with sales:
        for number in range(100):
            await sales.send("Billing", order(number), delay=SOON)
        await place.wait_for_rows(100)
        await place.wait_until_nothing_is_left()

    assert await place.orders() == [f"{number:03}" for number in range(100)]


async def test_a_message_that_became_due_while_the_endpoint_was_stopped_is_sent_when_it_starts(
    place: Place,
) -> None:
    await place.backend.create_queue(BILLING)
    async with place.sales() as sales:
        await sales.send("Billing", order(1), delay=LATER)
        await place.wait_until_kept(1)
    await place.bring_forward(LATER)

    async with place.sales():
        await place.wait_for_rows(1)


async def test_an_instance_sends_what_another_one_stored(place: Place) -> None:
    await place.backend.create_queue(BILLING)
    async with place.sales() as first:
        await first.send("Billing", order(1), delay=LATER)
        await place.wait_until_kept(1)
        await place.bring_forward(LATER)  # which the first, asleep, does not see
        second = place.sales()
        await second.start()
    # The first has stopped.
    await place.wait_for_rows(1)


async def test_two_instances_send_each_message_once(place: Place) -> None:
    await place.backend.create_queue(BILLING)
    first, second = place.sales(), place.sales()

    async with first, second:
        for number in range(60):
            await (first, second)[number % 2].send("Billing", order(number), delay=SOON)
        await place.wait_until_nothing_is_left()

    assert await place.orders() == [f"{number:03}" for number in range(60)]


async def test_stopping_finishes_what_is_in_hand_and_leaves_the_rest(place: Place) -> None:
    await place.backend.create_queue(BILLING)
    sales = place.sales()
    await sales.start()
    for number in range(50):
        await sales.send("Billing", order(number), delay=LATER)
    await place.wait_until_kept(50)
    await place.bring_forward(LATER)
    await sales.send("Billing", order(50), delay=SOON)  # wakes the poller
    await eventually_some(place)

    await sales.stop()

    sent = await place.orders()
    assert len(sent) == len(set(sent))
    waiting = await place.backend.count(TIMEOUTS) + len(await place.kept())
    assert len(sent) + waiting == 51


async def eventually_some(place: Place) -> None:
    async def some() -> bool:
        return await place.backend.count(BILLING) > 0

    await eventually(some)


async def test_the_handlers_of_the_endpoint_never_see_the_timeouts_queue(place: Place) -> None:
    sales = place.sales()
    seen: list[dict[str, str | None]] = []

    @sales.handler
    async def handle(message: PlaceOrder, context: rowbus.Context) -> None:
        seen.append(context.headers)

    async with sales:
        await sales.send("Sales", order(1), delay=LATER)
        await place.wait_until_kept(1)
        await never(lambda: bool(seen))


async def test_install_creates_the_queue_and_the_table_and_leaves_nothing_running(place: Place) -> None:
    await place.sales().install()

    assert TIMEOUTS.table.lower() in await place.backend.tables()
    assert await place.kept() == []


async def test_without_install_the_missing_timeouts_queue_is_named(place: Place) -> None:
    await place.backend.create_queue("Sales")
    await place.backend.create_queue(ERROR)
    sales = place.sales(install=False, auto_subscribe=False)

    with pytest.raises(QueueNotFoundError, match=r"Sales\.Timeouts"):
        await sales.start()


async def test_setting_up_is_initialize_first_and_nothing_is_set_up_without_install(
    endpoints: Endpoints,
) -> None:
    calls: list[str] = []

    class Noting(rowbus.PostgresDelayedMessageStore):
        async def initialize(self, endpoint_name: str, transaction_mode: rowbus.TransactionMode) -> None:
            calls.append(f"initialize {endpoint_name} {transaction_mode.value}")
            await super().initialize(endpoint_name, transaction_mode)

        async def setup_infrastructure(self) -> None:
            calls.append("setup")
            await super().setup_infrastructure()

        async def close(self) -> None:
            calls.append("close")
            await super().close()

    def make(*, install: bool) -> rowbus.Endpoint:
        settings = rowbus.DelayedDeliverySettings(Noting(endpoints.backend.dsn))
        return endpoints.make("Sales", delayed_delivery=settings, install=install)

    async with make(install=True):
        pass
    async with make(install=False):
        pass

    initialized = "initialize Sales sends-atomic-with-receive"
    assert calls == [initialized, "setup", "close", initialized, "close"]


async def test_a_store_that_refuses_the_transaction_mode_keeps_the_endpoint_from_starting(
    endpoints: Endpoints,
) -> None:
    class Picky(rowbus.PostgresDelayedMessageStore):
        async def initialize(self, endpoint_name: str, transaction_mode: rowbus.TransactionMode) -> None:
            raise rowbus.ConfigurationError("Not in this mode.")

    sales = endpoints.make("Sales", delayed_delivery=rowbus.DelayedDeliverySettings(Picky()))

    with pytest.raises(rowbus.ConfigurationError, match="Not in this mode"):
        await sales.start()


async def test_an_idle_poller_asks_for_what_is_due_and_when_the_next_is_and_then_sleeps(
    foreign: Place,
) -> None:
    async with foreign.sales() as sales:
        await eventually(lambda: foreign.faults.calls == ["fetch_next_due", "next"])
        await sales.send("Billing", order(1), delay=LATER)
        await foreign.wait_until_kept(1)
        await eventually(lambda: foreign.faults.calls[-1] == "stored")
        calls = list(foreign.faults.calls)

        await never(lambda: foreign.faults.calls != calls, 0.3)

    assert calls == ["fetch_next_due", "next", "store", "stored"]


async def test_storing_what_is_due_soon_wakes_the_poller(foreign: Place) -> None:
    async with foreign.sales() as sales:
        await eventually(lambda: foreign.faults.calls == ["fetch_next_due", "next"])
        await sales.send("Billing", order(1), delay=timedelta(seconds=5))
        await eventually(lambda: len(foreign.faults.calls) == 6)

    assert foreign.faults.calls[2:] == ["store", "stored", "fetch_next_due", "next"]


async def test_it_fetches_the_next_message_while_one_is_being_sent_and_no_more(foreign: Place) -> None:
    await foreign.backend.create_queue(BILLING)

    async with foreign.sales() as sales:
        for number in range(5):
            await sales.send("Billing", order(number), delay=LATER)
        await foreign.wait_until_kept(5)
        async with foreign.backend.connection.transaction():
            await foreign.backend.execute('lock table "Billing" in exclusive mode')  # no send gets through
            await foreign.bring_forward(LATER)
            await sales.send("Sales", order(9), delay=SOON)  # wakes the poller

            async def in_hand() -> int:
                query = 'select from "Sales.delayed" for update skip locked'
                free = (await foreign.connection.execute(query)).rowcount
                return len(await foreign.kept()) - free

            async def two() -> bool:
                return await in_hand() == 2

            await eventually(two)
            for _ in range(10):
                assert await in_hand() == 2
        await foreign.wait_for_rows(5)


async def test_a_delayed_retry_waits_in_the_store(place: Place) -> None:
    settings = rowbus.DelayedDeliverySettings(place.store())
    policy = rowbus.Recoverability(immediate=0, delayed=2, increase=SOON)
    sales = place.endpoints.make("Sales", delayed_delivery=settings, recoverability=policy)
    attempts: list[float] = []

    @sales.handler
    async def handle(message: PlaceOrder, context: rowbus.Context) -> None:
        attempts.append(time.monotonic())
        if len(attempts) < 3:
            raise ValueError

    async with sales:
        await sales.send("Sales", order(1))
        await eventually(lambda: len(attempts) == 3)
        await place.wait_until_nothing_is_left()

    first, second = (later - sooner for sooner, later in pairwise(attempts))
    assert first >= SOON.total_seconds()
    assert second >= 2 * SOON.total_seconds()
    assert await place.backend.count(ERROR) == 0


async def test_messages_that_were_delayed_before_there_was_a_store_are_pointed_out(
    shared: Place, caplog: pytest.LogCaptureFixture
) -> None:
    async with shared.endpoints.make("Sales") as before:
        await before.send("Billing", order(1), delay=LATER)
        assert "does not look" not in caplog.text

    async with shared.sales():
        assert "`rowbus delayed move Sales` moves them" in caplog.text


async def test_a_stores_table_is_taken_for_no_queue(shared: Place) -> None:
    async with shared.sales():
        session = await shared.backend.database.connect()
        found = await session.run(catalog.find_queues())
        await session.close()

    assert "Sales.delayed" not in {shape.address.table for shape in found}


async def test_a_delay_begins_when_the_database_may_have_got_to_and_ends_when_it_surely_has(
    shared: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    await shared.backend.create_queue(BILLING)
    monkeypatch.setattr(DatabaseClock, "reaching", lambda clock: clock.reached() + LATER)

    async with shared.sales() as sales:
        await sales.send("Billing", order(1), delay=timedelta(milliseconds=1))
        await shared.wait_until_kept(1)
        await asyncio.sleep(0.05)

    assert await shared.backend.count(BILLING) == 0
