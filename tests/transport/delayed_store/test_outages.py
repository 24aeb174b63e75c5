"""Stores that are away, hang, or answer nonsense, under an endpoint: waited out, reported, held against no message."""

from __future__ import annotations

import asyncio
import sqlite3
import time
from contextlib import closing
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

import rowbus
from rowbus import DelayedMessage, DelayedMessageStore, TransactionMode
from rowbus.running.backoff import CircuitBreaker
from rowbus.running.telemetry import process
from rowbus.testing import FakeClock
from rowbus.transport.delayed_store import guarded_store, stores
from rowbus.transport.delayed_store.decisions import is_outage
from tests.conformance.transport import eventually
from tests.transport.delayed_store.documented import file_store
from tests.transport.delayed_store.place import BILLING, ERROR, LATER, SOON, TIMEOUTS, Place, order
from tests.transport.delayed_store.stores import MemoryStore

pytestmark = [
    pytest.mark.only("PostgreSQL", reason="it looks into PostgreSQL's tables"),
    pytest.mark.usefixtures("quick_breakers"),
    pytest.mark.one_version,
]

QUICKLY = timedelta(milliseconds=100)
Anything = Any  # for answers that are wrong on purpose
NAIVE = datetime(2026, 1, 1)  # noqa: DTZ001 - naive on purpose


class Unsteady(MemoryStore):
    """A right store, of which a test replaces a method for a while: by what is called in place of it."""

    def __init__(self) -> None:
        super().__init__({}, {}, FakeClock())
        self.instead: dict[str, Any] = {}
        self.calls = 0

    async def _step(self, method: str) -> Anything:
        if method in self.instead:
            self.calls += 1
            answer = self.instead[method]()
            return await answer if hasattr(answer, "__await__") else answer
        return self

    async def initialize(self, endpoint_name: str, transaction_mode: TransactionMode) -> None:
        await self._step("initialize")

    async def store(self, message: DelayedMessage) -> None:
        await self._step("store")
        await super().store(message)

    async def next(self) -> datetime | None:
        answer = await self._step("next")
        return await super().next() if answer is self else answer

    async def fetch_next_due(self, at: datetime) -> DelayedMessage | None:
        await self._step("fetch_next_due")
        return await super().fetch_next_due(at)

    @property
    def kept(self) -> int:
        return len(self._messages)


def settings(store: DelayedMessageStore, **given: Anything) -> rowbus.DelayedDeliverySettings:
    quick = {f"time_to_trigger_{kind}_circuit_breaker": QUICKLY for kind in ("store", "fetch", "dispatch")}
    return rowbus.DelayedDeliverySettings(store, **{**quick, **given})


def cancel() -> None:
    raise asyncio.CancelledError


def refuse() -> None:
    raise PermissionError(13, "read-only")


@pytest.mark.parametrize(
    "answer, says",
    [(lambda: NAIVE, "no time zone"), (lambda: 7.5, "(float)"), (cancel, "CancelledError")],
    ids=["naive", "number", "cancelled"],
)
async def test_a_wrong_answer_of_next_is_logged_and_critical_and_the_poller_goes_on(
    shared: Place, answer: Anything, says: str, caplog: pytest.LogCaptureFixture
) -> None:
    await shared.backend.create_queue(BILLING)
    store = Unsteady()
    store.instead["next"] = answer

    async with shared.sales(settings(store)) as sales:
        await eventually(lambda: bool(shared.critical))  # though every fetch succeeds
        assert "Unsteady.next" in caplog.text
        assert says in caplog.text
        store.instead.clear()
        await sales.send("Billing", order(1), delay=SOON)
        await shared.wait_for_rows(1)

    assert shared.critical == ["Failed to ask the storage when the next delayed message is due"]


@pytest.mark.parametrize("method", ["next", "fetch_next_due", "store"])
async def test_a_store_that_hangs_is_critical_and_keeps_no_stop_waiting(
    shared: Place, method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(guarded_store, "WHEN_STOPPING", 0.05)
    store = Unsteady()
    store.instead[method] = asyncio.Event().wait

    async with shared.sales(settings(store, store_timeout=QUICKLY)) as sales:
        await sales.send("Billing", order(1), delay=LATER)
        await eventually(lambda: bool(shared.critical))
        store.instead[method] = asyncio.Event().wait
        began = time.monotonic()
    assert time.monotonic() - began < 20

    assert not [activity for activity in process.going_on() if "delayed message" in activity]
    assert await shared.backend.count(TIMEOUTS) + store.kept == 1
    assert await shared.backend.count(ERROR) == 0


async def test_the_built_in_store_behind_a_locked_table_is_critical_and_keeps_no_stop_waiting(
    place: Place,
) -> None:
    async with place.sales(settings(place.store(), store_timeout=QUICKLY)) as sales:
        async with place.connection.transaction():
            await place.connection.execute('lock table "Sales.delayed" in access exclusive mode')
            await sales.send("Billing", order(1), delay=LATER)
            await eventually(lambda: "Failed to store delayed message" in place.critical)
            await eventually(
                lambda: "Failed to fetch due delayed messages from the storage" in place.critical
            )
            began = time.monotonic()
            await sales.stop()
            assert time.monotonic() - began < 20
        assert await place.backend.count(ERROR) == 0
    async with place.sales():
        await place.wait_until_kept(1)


async def test_an_outage_of_the_store_is_held_against_no_message(shared: Place) -> None:
    store = Unsteady()
    store.instead["store"] = refuse

    async with shared.sales(settings(store)) as sales:  # no retries
        for number in range(10):
            await sales.send("Billing", order(number), delay=LATER)
        await eventually(lambda: store.calls >= 20)
        assert await shared.backend.count(ERROR) == 0
        assert await shared.backend.count(TIMEOUTS) == 10
        store.instead.clear()
        await eventually(lambda: store.kept == 10)

    assert await shared.backend.count(ERROR) == 0
    assert shared.critical == ["Failed to store delayed message"]


async def test_while_a_store_is_away_the_slots_that_wait_hold_no_message(
    shared: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rowbus.running.backoff.WAIT_WHEN_ARMED", 600.0)
    store = Unsteady()
    store.instead["store"] = refuse

    async with shared.sales(settings(store)) as sales:
        for number in range(6):
            await sales.send("Billing", order(number), delay=LATER)
        await eventually(lambda: store.calls > 0)

        async def free() -> bool:
            query = 'select count(*) from (select from "Sales.Timeouts" for update skip locked) as free'
            return (await shared.backend.values(query)) == [6]

        await eventually(free)


async def test_an_endpoint_whose_store_is_away_starts_handles_and_delays_when_the_store_is_there(
    shared: Place, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "rowbus.delaying")
    store = Unsteady()
    store.instead["initialize"] = refuse

    async with shared.sales(settings(store)) as sales:
        await sales.send("Billing", order(1), delay=LATER)
        await eventually(lambda: store.calls > 3)
        assert "The delayed message store of Sales is away" in caplog.text
        assert await shared.backend.count(TIMEOUTS) == 1
        store.instead.clear()
        await eventually(lambda: store.kept == 1)

    assert "Opening the delayed message store works again" in caplog.text


async def test_an_endpoint_stops_at_once_while_its_store_is_away(shared: Place) -> None:
    store = Unsteady()
    store.instead["initialize"] = refuse

    async with shared.sales(settings(store)):
        await eventually(lambda: store.calls > 1)


async def test_the_server_gives_up_what_a_store_of_its_own_waits_for(
    foreign: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stores, "LOCK_TIMEOUT", 0.05)
    store = rowbus.PostgresDelayedMessageStore(foreign.dsn)
    await store.initialize("Sales", TransactionMode.NONE)
    await store.setup_infrastructure()

    async with foreign.connection.transaction():
        await foreign.connection.execute('lock table "Sales.delayed" in access exclusive mode')
        with pytest.raises(rowbus.StorageError) as raised:
            await store.next()
    await store.close()

    assert is_outage(raised.value)


FILE_LOCKED = "database is locked"


def file_settings(path: Path) -> rowbus.DelayedDeliverySettings:
    return settings(file_store(path), time_to_trigger_store_circuit_breaker=timedelta(minutes=1))


async def test_the_documented_store_in_a_folder_that_cannot_be_written_loses_and_blames_no_message(
    shared: Place, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The folder is missing: root, who runs tests, may write into any that is there."""
    folder, away = tmp_path / "store", tmp_path / "away"
    folder.mkdir()
    await shared.backend.create_queue(BILLING)

    async with shared.sales(file_settings(folder / "delayed.db")) as sales:
        folder.rename(away)
        for number in range(10):
            await sales.send("Billing", order(number), delay=timedelta(seconds=1))
        await eventually(lambda: "unable to open database file" in caplog.text)
        assert await shared.backend.count(ERROR) == 0
        away.rename(folder)
        await shared.wait_for_rows(10)

    assert await shared.orders() == [f"{number:03}" for number in range(10)]
    assert await shared.backend.count(ERROR) == 0
    assert await shared.backend.count(TIMEOUTS) == 0


@pytest.mark.slow
async def test_the_documented_store_behind_a_lock_of_fifteen_seconds_loses_and_blames_no_message(
    shared: Place, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "delayed.db"
    await shared.backend.create_queue(BILLING)

    async with shared.sales(file_settings(path)) as sales:
        with closing(sqlite3.connect(path, isolation_level=None)) as other:
            other.execute("begin exclusive")
            for number in range(10):
                await sales.send("Billing", order(number), delay=timedelta(seconds=1))
            await asyncio.sleep(15)  # long sleep: SQLite itself waits 10 s for a lock
            assert FILE_LOCKED in caplog.text
            assert await shared.backend.count(ERROR) == 0
            other.execute("rollback")
        await shared.wait_for_rows(10)

    assert await shared.orders() == [f"{number:03}" for number in range(10)]
    assert await shared.backend.count(ERROR) == 0


def test_an_outage_of_which_nothing_is_heard_any_more_lapses() -> None:
    clock = FakeClock()
    breaker = CircuitBreaker(30.0, clock, lapses_after=100.0)
    assert breaker.failed().first
    clock.advance(99)
    assert breaker.failed().critical
    clock.advance(101)  # what had failed was due meanwhile, and was not stored

    again = breaker.failed()
    assert again.first
    assert not again.critical


def test_without_a_lapse_only_a_success_ends_an_outage() -> None:
    clock = FakeClock()
    breaker = CircuitBreaker(30.0, clock)
    breaker.failed()
    clock.advance(10_000)

    assert breaker.failed().critical
