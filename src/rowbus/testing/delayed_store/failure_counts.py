"""The contract on failures: they are counted in the storage, each once, against one message."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rowbus import TransactionMode
from rowbus.testing.delayed_store.stores import (
    ENDPOINT,
    Contract,
    counts,
    fetch,
    glance,
    make_message,
    minutes,
    removes,
    require,
    require_next,
)

if TYPE_CHECKING:
    from rowbus.testing.delayed_store.stores import Stores
    from rowbus.transport.delayed_store.protocol import DelayedMessageStore


class FailureCountContract(Contract):
    """How often a message has failed."""

    def test_failures_are_counted(self) -> None:
        """The count is fetched with the message; others keep theirs."""

        async def check(stores: Stores) -> None:
            store = await stores.open()
            await store.store(make_message("1"))
            await store.store(make_message("2", minutes(1)))
            for failures in range(3):
                await _require_count(store, "1", failures, "counted by the same instance")
                require(
                    await counts(store, make_message("1")),
                    "increment_failure_count answered False for a message that was there",
                )
            await removes(store, make_message("1"))
            await _require_count(store, "2", 0, "though only another message had failed")

        self.run(check)

    def test_counting_a_failure_says_whether_the_message_was_there(self) -> None:
        """False when it is gone, and that does not bring it back."""

        async def check(stores: Stores) -> None:
            store = await stores.open()
            message = make_message("1")
            require(
                not await counts(store, message),
                "increment_failure_count answered True for a message that was not there",
            )
            await store.store(message)
            await removes(store, message)
            require(
                not await counts(store, message),
                "increment_failure_count answered True for a message that was removed",
            )
            await require_next(store, None, "after a failure of a message that was gone had been counted")

        self.run(check)

    def test_another_instance_sees_the_failures_counted(self) -> None:
        """The count is in the storage, not in the memory of a process."""

        async def check(stores: Stores) -> None:
            one, other = await stores.pair()
            await one.store(make_message("1"))
            await counts(one, make_message("1"))
            await counts(other, make_message("1"))
            await _require_count(other, "1", 2, "one of them counted by another instance")

        self.run(check)

    def test_failures_outlive_the_instance(self) -> None:
        """A process that ends takes no count with it."""

        async def check(stores: Stores) -> None:
            store = await stores.open()
            await store.store(make_message("1"))
            await counts(store, make_message("1"))
            await store.close()
            await store.initialize(ENDPOINT, TransactionMode.SENDS_ATOMIC_WITH_RECEIVE)
            await _require_count(store, "1", 1, "before the store was closed and opened again")

        self.run(check)

    def test_failures_outlive_the_lock(self) -> None:
        """When a process dies that has the message in hand, its count stays."""

        async def check(stores: Stores) -> None:
            one, other = await stores.pair()
            await one.store(make_message("1"))
            async with one.transaction() as mine:
                await fetch(mine)
                await counts(mine, make_message("1"))
            await glance(one)
            if not self.has_transactions:
                self.expire_leases()
            await _require_count(other, "1", 1, "before the lock on it ended")

        self.run(check)


async def _require_count(store: DelayedMessageStore, message_id: str, failures: int, when: str) -> None:
    message = await glance(store)
    if message is None:
        raise AssertionError(
            "a message was not fetched again after its failure was counted: that has to let go of it"
        )
    require(message.message_id == message_id, f"message {message.message_id} was fetched, not {message_id}")
    found = message.number_of_retries
    require(found == failures, f"a message came with {found} failures, not with the {failures}, {when}")
