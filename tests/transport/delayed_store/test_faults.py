"""A fault at each step: with a store elsewhere at least once, with a shared one exactly once, and never nowhere.

Each fault is one that a network or a server makes: the call did nothing, or it did what it should and the answer was
lost. Messages are then counted where they arrive.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from datetime import timedelta

import pytest

from rowbus.transport.delayed_store.forwarder import SharedScopes
from rowbus.transport.delayed_store.protocol import DelayedMessage
from tests.conformance.transport import eventually
from tests.transport.delayed_store.place import BILLING, ERROR, LATER, SOON, Place, order

pytestmark = [
    pytest.mark.only("PostgreSQL", reason="it looks into PostgreSQL's tables"),
    pytest.mark.usefixtures("quick_breakers"),
    pytest.mark.one_version,
]

FAULTS = [ValueError("broken"), ConnectionResetError("away")]


@pytest.mark.parametrize("fault", FAULTS, ids=str)
@pytest.mark.parametrize(
    "step, arrivals",
    [
        ("store", 1),
        ("stored", 1),  # stored twice under the same id, so once
        ("next", 1),
        ("fetch_next_due", 1),
        ("remove", 1),  # sent, not removed: this process remembers that it was sent
        ("commit", 1),  # the removal was rolled back
        ("committed", 1),  # and here it was not
    ],
)
async def test_a_message_survives_a_fault_at_each_step_to_its_destination(
    foreign: Place, step: str, arrivals: int, fault: Exception
) -> None:
    await foreign.backend.create_queue(BILLING)
    foreign.faults.plan(step, fault)
    await foreign.keep_due("Billing", foreign.retrying(1))

    async with foreign.sales(foreign.retrying(1)):
        await foreign.wait_for_rows(arrivals)
        await eventually(lambda: foreign.faults.to_come == 0)
        await foreign.wait_until_nothing_is_left()

    assert await foreign.orders() == ["001"] * arrivals
    assert await foreign.backend.count(ERROR) == 0


@pytest.mark.parametrize("fault", FAULTS, ids=str)
@pytest.mark.parametrize(
    "step, arrivals",
    [("remove", 1), ("commit", 1), ("committed", 1)],
)
async def test_a_message_survives_a_fault_at_each_step_to_the_error_queue(
    foreign: Place, step: str, arrivals: int, fault: Exception
) -> None:
    foreign.faults.plan(step, fault)
    await foreign.keep_due("Missing")

    async with foreign.sales():
        await foreign.wait_for_rows(arrivals, ERROR)
        await eventually(lambda: foreign.faults.to_come == 0)
        await foreign.wait_until_nothing_is_left()

    assert await foreign.orders(ERROR) == ["001"] * arrivals


@pytest.mark.parametrize("fault", FAULTS, ids=str)
@pytest.mark.parametrize("step", ["increment_failure_count", "commit", "committed"])
async def test_a_message_survives_a_fault_when_its_failure_is_counted(
    foreign: Place, step: str, fault: Exception
) -> None:
    await foreign.backend.create_queue(BILLING)
    await foreign.refuse_messages()
    foreign.faults.plan(step, fault)
    await foreign.keep_due("Billing", foreign.retrying(1))

    async with foreign.sales(foreign.retrying(1)):
        await foreign.wait_for_rows(1, ERROR)
        await foreign.wait_until_nothing_is_left()

    # What could not be counted was tried once more than it was counted; what was counted, was.
    assert await foreign.attempts() == (2 if step == "committed" else 3)


async def test_a_message_that_was_sent_and_could_not_be_removed_is_sent_once_by_each_process(
    foreign: Place,
) -> None:
    await foreign.backend.create_queue(BILLING)
    await foreign.keep_due("Billing")
    foreign.faults.plan("remove", ValueError("broken"), times=1_000)

    async with foreign.sales():  # no retries
        await eventually(lambda: foreign.faults.calls.count("remove") >= 5)
        assert await foreign.orders() == ["001"]
    foreign.faults.forget()
    async with foreign.sales():  # which knows nothing of it: at least once
        await foreign.wait_until_nothing_is_left()

    assert await foreign.orders() == ["001", "001"]
    assert await foreign.backend.count(ERROR) == 0


async def test_one_that_somebody_else_removed_from_a_store_elsewhere_is_reported(
    foreign: Place, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    await foreign.backend.create_queue(BILLING)

    async def gone(self: object, message: DelayedMessage) -> bool:
        return False

    monkeypatch.setattr("rowbus.transport.delayed_store.stores._TableStore.remove", gone)
    await foreign.keep_due("Billing")
    async with foreign.sales():
        await eventually(lambda: "may have been sent more than once" in caplog.text)


async def test_one_that_somebody_else_removed_from_a_shared_store_is_not_sent(
    shared: Place, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    await shared.backend.create_queue(BILLING)

    async def gone(self: object, message: DelayedMessage) -> bool:
        return False

    monkeypatch.setattr("rowbus.transport.delayed_store.stores._TableStore.remove", gone)
    await shared.keep_due("Billing")
    async with shared.sales():
        await eventually(lambda: "is not sent from here" in caplog.text)

    assert await shared.backend.count(BILLING) == 0


async def test_a_failed_send_in_a_shared_transaction_keeps_the_message_in_hand(
    shared: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Until it is counted: else another instance would make an attempt that counts from the same number."""
    await shared.backend.create_queue(BILLING)
    await shared.refuse_messages()
    locked: list[int] = []
    sends = SharedScopes._send

    async def send(self: SharedScopes, *what: object) -> None:
        try:
            await sends(self, *what)  # type: ignore[arg-type]  # passed on
        except Exception:
            query = 'select count(*) from (select from "Sales.delayed" for update skip locked) as free'
            locked.extend(await shared.backend.values(query))
            raise

    monkeypatch.setattr(SharedScopes, "_send", send)
    await shared.keep_due("Billing")
    async with shared.sales():
        await shared.wait_for_rows(1, ERROR)

    assert locked == [0]


async def test_stopping_without_patience_loses_nothing(place: Place) -> None:
    await place.backend.create_queue(BILLING)
    async with place.sales() as sales:
        await sales.send("Billing", order(1), delay=LATER)
        await place.wait_until_kept(1)
    await place.bring_forward(LATER)

    async with place.backend.connection.transaction():
        await place.backend.execute('lock table "Billing" in exclusive mode')  # no send gets through
        sales = place.sales()
        await sales.start()

        async def sending() -> bool:
            query = "select count(*) from pg_locks where not granted"
            return bool((await place.backend.values(query))[0])

        await eventually(sending)
        await sales.stop(0)

    assert len(await place.kept()) + await place.backend.count(BILLING) >= 1
    async with place.sales():
        await place.wait_until_nothing_is_left()
    assert await place.backend.count(BILLING) >= 1
    if place.kind == "shared":
        assert await place.backend.count(BILLING) == 1


MESSAGES = 150
BREAKS = 12
BREAK_SESSIONS = (
    b"select pg_terminate_backend(pid) from pg_stat_activity"
    b" where datname = current_database() and application_name like 'rowbus %'"
)


@pytest.mark.slow
async def test_sessions_that_break_at_random_lose_nothing_and_double_nothing_when_shared(
    place: Place,
) -> None:
    await place.backend.create_queue(BILLING)
    seed = random.randrange(1_000_000)
    chance = random.Random(seed)
    # Each break of either database may be a failure of the same message.
    first, second = (place.sales(place.retrying(2 * BREAKS)) for _ in range(2))
    await first.start()
    for number in range(MESSAGES):
        delay = timedelta(seconds=0.3 + chance.random())
        await first.send("Billing", order(number), delay=delay)
    await second.start()

    broken = 0
    for _ in range(BREAKS):
        for connection in (place.backend.connection, place.connection):
            broken += (await connection.execute(BREAK_SESSIONS)).rowcount
        await asyncio.sleep(chance.random() / 8)  # long sleep: breaks at random moments
    assert broken >= BREAKS
    await place.wait_until_nothing_is_left()

    arrived = Counter(await place.orders())
    assert set(arrived) == {f"{number:03}" for number in range(MESSAGES)}, f"seed {seed}"
    if place.kind == "shared":
        assert max(arrived.values()) == 1, f"seed {seed}"
    assert await place.backend.count(ERROR) == 0


async def test_a_message_that_can_never_be_removed_keeps_no_other_waiting(place: Place) -> None:
    await place.backend.create_queue(BILLING)
    await place.keep_due("Billing")  # it is due first
    for command in (
        "create function refuse() returns trigger language plpgsql as $$ begin raise exception 'kept'; end $$",
        (
            'create trigger refuse before delete on "Sales.delayed" for each row'
            " when (position('001' in convert_from(old.state, 'UTF8')) > 0) execute function refuse()"
        ),
    ):
        await place.connection.execute(command)

    async with place.sales() as sales:
        for number in range(2, 20):
            await sales.send("Billing", order(number), delay=SOON)
        others = [f"{number:03}" for number in range(2, 20)]

        async def have_come() -> bool:
            return [each for each in await place.orders() if each != "001"] == others

        await eventually(have_come)
        await place.wait_until_kept(1)
    assert await place.backend.count(ERROR) == 0
