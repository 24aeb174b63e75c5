"""The contract suite: our store passes it, one with leases passes it, and stores that break a promise do not."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import datetime, timedelta

import pytest

import rowbus
from rowbus import DelayedMessage, DelayedMessageStore
from rowbus.testing import DelayedMessageStoreContract, FakeClock
from tests.conformance.backend import Backend
from tests.transport.delayed_store.stores import MemoryStore


class TestPostgresStore(DelayedMessageStoreContract):
    """`PostgresDelayedMessageStore` by itself, in a database of its own."""

    dsn = ""

    @pytest.fixture(autouse=True)
    def empty_storage(self, database: str) -> None:
        self.dsn = database

    def make_store(self) -> DelayedMessageStore:
        return rowbus.PostgresDelayedMessageStore(self.dsn)


@pytest.mark.only("SQL Server", reason="PostgreSQL has a store of its own, above")
class TestSqlServerStore(DelayedMessageStoreContract):
    """The store in SQL Server, on each of the servers there are."""

    @pytest.fixture(autouse=True)
    def schema(self, backend: Backend) -> None:
        self.backend = backend

    def make_store(self) -> DelayedMessageStore:
        return rowbus.SqlServerDelayedMessageStore(self.backend.dsn, schema=self.backend.schema)

    @pytest.mark.passes_over_locked
    def test_what_one_instance_has_in_hand_another_does_not_get(self) -> None:
        super().test_what_one_instance_has_in_hand_another_does_not_get()

    @pytest.mark.passes_over_locked
    def test_instances_that_work_side_by_side_get_each_message_once(self) -> None:
        super().test_instances_that_work_side_by_side_get_each_message_once()


class TestMemoryStore(DelayedMessageStoreContract):
    """A store that has no transactions, and so locks by leases."""

    has_transactions = False

    @pytest.fixture(autouse=True)
    def empty_storage(self) -> None:
        self.messages: dict[str, DelayedMessage] = {}
        self.leases: dict[str, float] = {}

    def make_store(self) -> DelayedMessageStore:
        return MemoryStore(self.messages, self.leases, FakeClock())


class LooksIntoTheFuture(MemoryStore):
    async def fetch_next_due(self, at: datetime) -> DelayedMessage | None:
        return await super().fetch_next_due(at + timedelta(minutes=1))


class NeverLocks(MemoryStore):
    async def fetch_next_due(self, at: datetime) -> DelayedMessage | None:
        self._leases.clear()
        return await super().fetch_next_due(at)


class AlwaysRemoves(MemoryStore):
    async def remove(self, message: DelayedMessage) -> bool:
        await super().remove(message)
        return True


class NeverCounts(MemoryStore):
    async def increment_failure_count(self, message: DelayedMessage) -> bool:
        self._leases.clear()
        return message.message_id in self._messages


class OverwritesWhatIsStored(MemoryStore):
    async def store(self, message: DelayedMessage) -> None:
        self._messages[message.message_id] = message


class HidesWhatIsInHand(MemoryStore):
    async def next(self) -> datetime | None:
        free = [message for message in self._messages.values() if self._is_free(message)]
        return min((message.time for message in free), default=None)


class CutsBodies(MemoryStore):
    async def store(self, message: DelayedMessage) -> None:
        text = message.body.decode("ascii", "replace").encode()
        await super().store(replace(message, body=text))


class TellsNaiveTime(MemoryStore):
    async def next(self) -> datetime | None:
        due = await super().next()
        return None if due is None else due.replace(tzinfo=None)


def failing(make: Callable[..., DelayedMessageStore]) -> Iterator[str]:
    """Name the tests of the contract that a store fails."""
    for name in dir(DelayedMessageStoreContract):
        if name.startswith("test_"):
            messages: dict[str, DelayedMessage] = {}
            leases: dict[str, float] = {}
            contract = DelayedMessageStoreContract()
            contract.has_transactions = False
            contract.make_store = lambda m=messages, lease=leases: make(m, lease, FakeClock())  # type: ignore[method-assign, misc]  # a store of this loop's
            try:
                getattr(contract, name)()
            except (AssertionError, TypeError):
                yield name.removeprefix("test_")


@pytest.mark.parametrize(
    "store, broken",
    [
        (MemoryStore, None),
        (LooksIntoTheFuture, "nothing_is_fetched_before_it_is_due"),
        (NeverLocks, "what_one_instance_has_in_hand_another_does_not_get"),
        (AlwaysRemoves, "remove_says_whether_the_message_was_there"),
        (NeverCounts, "failures_are_counted"),
        (OverwritesWhatIsStored, "a_message_that_is_stored_again_stays_as_it_is"),
        (HidesWhatIsInHand, "next_counts_what_is_in_hand"),
        (CutsBodies, "a_message_comes_back_as_it_was_stored"),
        (TellsNaiveTime, "next_is_the_earliest_time_and_nothing_when_nothing_is_stored"),
    ],
)
def test_a_store_that_breaks_a_promise_fails_its_test(store: type[MemoryStore], broken: str | None) -> None:
    failed = list(failing(store))

    assert (broken in failed) if broken else not failed
