"""The contract suite: the stores that ship pass it, the documentation's does, and one of each way to lock."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import psycopg
import pytest

import rowbus
from rowbus import DelayedMessage, DelayedMessageStore
from rowbus.errors import ConfigurationError
from rowbus.testing import DelayedMessageStoreContract, FakeClock
from tests.conformance.backend import Backend
from tests.transport.delayed_store.documented import file_store
from tests.transport.delayed_store.stores import (
    LEASE,
    MemoryStore,
    Shelf,
    ShelfConnection,
    TransactionalStore,
)

MESSAGE = DelayedMessage(
    message_id="1", destination="Billing", time=datetime(2026, 1, 2, tzinfo=UTC), headers=b"{}", body=b"{}"
)


class TestPostgresStore(DelayedMessageStoreContract):
    """`PostgresDelayedMessageStore` by itself, in a database of its own."""

    dsn = ""

    @pytest.fixture(autouse=True)
    def empty_storage(self, database: str) -> None:
        self.dsn = database

    def make_store(self) -> DelayedMessageStore:
        return rowbus.PostgresDelayedMessageStore(self.dsn)

    def make_enlisted_store(self) -> DelayedMessageStore:
        return rowbus.PostgresDelayedMessageStore()

    @asynccontextmanager
    async def open_connection(self) -> AsyncGenerator[object]:
        async with await psycopg.AsyncConnection.connect(self.dsn) as connection:
            yield connection

    @pytest.mark.every_version
    def test_instances_that_work_side_by_side_get_each_message_once(self) -> None:
        super().test_instances_that_work_side_by_side_get_each_message_once()

    @pytest.mark.every_version
    def test_a_failed_transaction_undoes_nothing_of_another(self) -> None:
        super().test_a_failed_transaction_undoes_nothing_of_another()


@pytest.mark.only("SQL Server", reason="PostgreSQL has a store of its own, above")
class TestSqlServerStore(DelayedMessageStoreContract):
    """The store in SQL Server, on each of the servers there are."""

    @pytest.fixture(autouse=True)
    def schema(self, backend: Backend) -> None:
        self.backend = backend

    def make_store(self) -> DelayedMessageStore:
        return rowbus.SqlServerDelayedMessageStore(self.backend.dsn, schema=self.backend.schema)

    async def test_messages_in_the_table_of_earlier_versions_are_reported(
        self, caplog: pytest.LogCaptureFixture
    ) -> None:
        earlier = rowbus.SqlServerDelayedMessageStore(
            self.backend.dsn, schema=self.backend.schema, table_name="Sales.delayed"
        )
        for store, said in ((earlier, False), (self.make_store(), True)):
            await store.initialize("Sales", rowbus.TransactionMode.SENDS_ATOMIC_WITH_RECEIVE)
            await store.setup_infrastructure()
            if not said:
                await store.store(MESSAGE)
            await store.close()
            assert ("Sales.delayed" in caplog.text) is said

    async def test_a_message_that_was_kept_without_a_body_has_an_empty_one(self) -> None:
        store = self.make_store()
        await store.initialize("Sales", rowbus.TransactionMode.SENDS_ATOMIC_WITH_RECEIVE)
        await store.setup_infrastructure()
        await store.store(MESSAGE)
        await self.backend.execute(f"update [{self.backend.schema}].[Sales.timeouts] set State = null")
        assert await store.fetch_next_due(MESSAGE.time) == replace(MESSAGE, body=b"")
        await store.close()

    async def test_a_table_of_another_kind_is_refused(self) -> None:
        await self.backend.create_queue("Sales.timeouts")
        store = self.make_store()
        await store.initialize("Sales", rowbus.TransactionMode.SENDS_ATOMIC_WITH_RECEIVE)
        with pytest.raises(ConfigurationError, match="of another kind"):
            await store.setup_infrastructure()
        await store.close()

    @pytest.mark.passes_over_locked
    def test_what_one_instance_has_in_hand_another_does_not_get(self) -> None:
        super().test_what_one_instance_has_in_hand_another_does_not_get()

    @pytest.mark.passes_over_locked
    def test_instances_that_work_side_by_side_get_each_message_once(self) -> None:
        super().test_instances_that_work_side_by_side_get_each_message_once()

    @pytest.mark.passes_over_locked
    def test_two_transactions_of_one_instance_get_different_messages(self) -> None:
        super().test_two_transactions_of_one_instance_get_different_messages()

    @pytest.mark.passes_over_locked
    def test_calls_may_overlap(self) -> None:
        super().test_calls_may_overlap()

    @pytest.mark.passes_over_locked
    def test_a_failed_transaction_undoes_nothing_of_another(self) -> None:
        super().test_a_failed_transaction_undoes_nothing_of_another()


class TestMemoryStore(DelayedMessageStoreContract):
    """A store that has no transactions, and so locks by leases."""

    has_transactions = False

    @pytest.fixture(autouse=True)
    def empty_storage(self) -> None:
        self.messages: dict[str, DelayedMessage] = {}
        self.leases: dict[str, float] = {}
        self.clock = FakeClock()

    def make_store(self) -> DelayedMessageStore:
        return MemoryStore(self.messages, self.leases, self.clock)

    def expire_leases(self) -> None:
        self.clock.advance(LEASE + 1)


class TestTransactionalStore(DelayedMessageStoreContract):
    """A store in memory that has transactions, and takes part in others'."""

    @pytest.fixture(autouse=True)
    def empty_storage(self) -> None:
        self.shelf = Shelf()

    def make_store(self) -> DelayedMessageStore:
        return TransactionalStore(self.shelf)

    def open_connection(self) -> AbstractAsyncContextManager[object]:
        return ShelfConnection()


class TestFileStore(DelayedMessageStoreContract):
    """The store of the how-to page, in a file, with SQLite; its clock is the test's."""

    has_transactions = False

    @pytest.fixture(autouse=True)
    def empty_storage(self, tmp_path: Path) -> None:
        self.path = tmp_path / "delayed.db"
        self.clock = FakeClock()

    def make_store(self) -> DelayedMessageStore:
        return file_store(self.path, self.clock)

    def expire_leases(self) -> None:
        self.clock.advance(61)
