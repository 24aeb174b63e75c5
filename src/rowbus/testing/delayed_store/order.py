"""The contracts on time and on failures: the earliest due message first, and each failure counted in the storage.

No message comes early, and `next` knows of all of them. A failure is counted once, against one message.

Invariant: these tests hold with any clock and time zone of the machine.
"""

from __future__ import annotations

import os
import time
from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING

from rowbus import TransactionMode
from rowbus.testing.delayed_store.stores import (
    ENDPOINT,
    EXACT,
    LATER,
    NOON,
    ROUNDED,
    Contract,
    counts,
    empty,
    fetch,
    glance,
    make_message,
    minutes,
    removes,
    require,
    require_next,
    require_same,
)

if TYPE_CHECKING:
    from collections.abc import Generator

    from rowbus.testing.delayed_store.stores import Stores
    from rowbus.transport.delayed_store.protocol import DelayedMessageStore


class OrderContract(Contract):
    """The messages that are due when."""

    def test_nothing_is_fetched_before_it_is_due(self) -> None:
        """Fetching looks at the instant it is given, not at a clock."""

        async def check(stores: Stores) -> None:
            store = await stores.open()
            await store.store(make_message("1", NOON))
            require(await fetch(store, NOON - 2 * EXACT) is None, "a message was fetched before it was due")
            require(
                await glance(store, NOON + ROUNDED) is not None, "a message was not fetched when it was due"
            )
            await store.store(make_message("2", LATER))
            require(
                (found := await fetch(store, LATER - timedelta(days=1))) is None or found.message_id == "1",
                "a message of the far future was fetched before it was due",
            )

        self.run(check)

    def test_the_earliest_message_is_fetched_first(self) -> None:
        """In any order of storing, and with any ids."""

        async def check(stores: Stores) -> None:
            store = await stores.open()
            for message_id, due in (("b", 3), ("d", 1), ("a", 2), ("c", 0.001)):
                await store.store(make_message(message_id, minutes(due)))
            found = await empty(store)
            require(
                found == ["c", "d", "a", "b"],
                f"messages due in the order c, d, a, b came in the order {found}",
            )

        self.run(check)

    def test_next_is_the_earliest_time_and_nothing_when_nothing_is_stored(self) -> None:
        """As an aware instant, also of a message that is not due for long, or long since."""

        async def check(stores: Stores) -> None:
            store = await stores.open()
            await require_next(store, None, "of an empty store")
            for number, due in enumerate((LATER, minutes(60), LATER)):
                await store.store(make_message(str(number), due))
            await require_next(store, minutes(60), "the earliest of three")

        self.run(check)

    def test_next_knows_of_what_was_stored_since(self) -> None:
        """An earlier message counts from the moment it is stored, by any instance."""

        async def check(stores: Stores) -> None:
            one, other = await stores.pair()
            await one.store(make_message("1", minutes(60)))
            await require_next(one, minutes(60), "the only one")
            await one.store(make_message("2", minutes(30)))
            await require_next(one, minutes(30), "though an earlier message was stored since")
            await other.store(make_message("3", minutes(10)))
            await require_next(
                one, minutes(10), "though another instance has stored an earlier message since"
            )

        self.run(check)

    def test_next_forgets_what_was_removed(self) -> None:
        """Then the one after it is next."""

        async def check(stores: Stores) -> None:
            one, other = await stores.pair()
            for number in (1, 2):
                await one.store(make_message(str(number), minutes(number)))
            await require_next(other, minutes(1), "the earliest of two")
            await removes(one, make_message("1"))
            await require_next(other, minutes(2), "though the earlier message was removed since")

        self.run(check)

    def test_asking_for_the_next_takes_nothing(self) -> None:
        """`next` neither locks nor removes."""

        async def check(stores: Stores) -> None:
            store = await stores.open()
            await store.store(make_message("1"))
            for _ in range(2):
                await require_next(store, NOON, "the only one, asked for again")
            require_same(await glance(store), make_message("1"), "after `next` had been asked")

        self.run(check)

    def test_next_counts_what_is_in_hand(self) -> None:
        """A message that is locked is still stored."""

        async def check(stores: Stores) -> None:
            one, other = await stores.pair()
            await one.store(make_message("1"))
            async with one.transaction() as mine:
                await fetch(mine)
                await require_next(other, NOON, "of a message that another instance has in hand")

        self.run(check)

    def test_times_do_not_depend_on_the_machines_time_zone(self) -> None:
        """An instant comes back as the same instant."""

        async def check(stores: Stores) -> None:
            store = await stores.open()
            await store.store(make_message("1"))
            await require_next(store, NOON, "on a machine whose time zone is not UTC")
            require(
                await fetch(store, NOON - timedelta(minutes=1)) is None,
                "on a machine whose time zone is not UTC a message was fetched before it was due",
            )
            require_same(
                await glance(store, NOON + ROUNDED),
                make_message("1"),
                "on a machine whose time zone is not UTC",
            )
            await removes(store, make_message("1"))

        for zone in ("XYZ-5:30", "XYZ+7"):
            with _time_zone(zone):
                self.run(check)


class FailureCountContract(Contract):
    """The number of times that a message has failed."""

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


@contextmanager
def _time_zone(name: str) -> Generator[None]:
    """Set the machine's time zone for this process, where that can be done."""
    before = os.environ.get("TZ")
    try:
        _set_time_zone(name)
        yield
    finally:
        _set_time_zone(before)


def _set_time_zone(name: str | None) -> None:
    if name is None:
        os.environ.pop("TZ", None)
    else:
        os.environ["TZ"] = name
    if hasattr(time, "tzset"):
        time.tzset()


async def _require_count(store: DelayedMessageStore, message_id: str, failures: int, when: str) -> None:
    message = await glance(store)
    if message is None:
        raise AssertionError(
            "a message was not fetched again after its failure was counted: that has to let go of it"
        )
    require(message.message_id == message_id, f"message {message.message_id} was fetched, not {message_id}")
    found = message.number_of_retries
    require(found == failures, f"a message came with {found} failures, not with the {failures}, {when}")
