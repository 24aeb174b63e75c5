"""The contract on what is kept: messages as they were stored, each once, for every instance, until they are removed."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

from rowbus import TransactionMode
from rowbus.testing.delayed_store.stores import (
    ENDPOINT,
    LATER,
    NOON,
    Contract,
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
    from collections.abc import Awaitable

    from rowbus.testing.delayed_store.stores import Stores

ALL_BYTES: Final = bytes(range(256))
MANY: Final = 12


class StorageContract(Contract):
    """Messages that are stored come back."""

    def test_a_message_comes_back_as_it_was_stored(self) -> None:
        """A stored message is fetched whole: id, destination, time, headers and body, byte for byte."""

        async def check(stores: Stores) -> None:
            store = await stores.open()
            message = make_message(
                "M" * 250, NOON, destination='"public"."Ünï.✓"', headers=ALL_BYTES, body=ALL_BYTES * 4096
            )
            await store.store(message)
            require_same(await glance(store), message, "after it was stored")

        self.run(check)

    def test_an_empty_body_stays_empty(self) -> None:
        """No bytes are still bytes."""

        async def check(stores: Stores) -> None:
            store = await stores.open()
            message = make_message("1", body=b"")
            await store.store(message)
            require_same(await glance(store), message, "when its body was empty")

        self.run(check)

    def test_a_message_is_due_to_the_fraction_of_a_second(self) -> None:
        """A due time is kept to some milliseconds, and never made earlier."""

        async def check(stores: Stores) -> None:
            store = await stores.open()
            due = NOON + timedelta(milliseconds=860)
            await store.store(make_message("1", due))
            early = await fetch(store, due - timedelta(milliseconds=2))
            require(early is None, "a message was fetched before it was due: its time was cut")
            require_same(await glance(store), make_message("1", due), "when it was due within a second")

        self.run(check)

    def test_messages_that_are_due_at_one_instant_are_all_kept(self) -> None:
        """The id tells messages apart, not the time."""

        async def check(stores: Stores) -> None:
            store = await stores.open()
            for number in range(3):
                await store.store(make_message(str(number)))
            found = sorted(await empty(store, MANY))
            require(found == ["0", "1", "2"], f"of three messages due at one instant {found} were fetched")

        self.run(check)

    def test_ids_are_told_apart_to_their_last_character(self) -> None:
        """Up to 250 characters, in upper and lower case as they are."""

        async def check(stores: Stores) -> None:
            store = await stores.open()
            ids = ["a" * 249 + "x", "a" * 249 + "y"]
            for message_id in ids:
                await store.store(make_message(message_id))
            found = sorted(await empty(store, MANY))
            require(found == ids, f"of two messages with long ids {len(found)} came back with their ids")

        self.run(check)

    def test_a_message_that_is_stored_again_stays_as_it_is(self) -> None:
        """After a crash a message may be stored a second time: there is still one, with its count."""

        async def check(stores: Stores) -> None:
            store = await stores.open()
            message = make_message("1")
            await store.store(message)
            await store.increment_failure_count(message)
            await store.store(message)
            again = await glance(store)
            require(
                again is not None and again.number_of_retries == 1,
                "the failure count was lost when a message was stored again",
            )
            await removes(store, message)
            await require_next(store, None, "after a message that had been stored twice was removed")

        self.run(check)

    def test_a_new_message_begins_with_no_failures(self) -> None:
        """Also if the message that is given to `store` has another number."""

        async def check(stores: Stores) -> None:
            store = await stores.open()
            await store.store(make_message("1"))
            message = await glance(store)
            require(message is not None, "a message was not fetched after it was stored")
            require(
                message is not None and message.number_of_retries == 0,
                "a new message has failures counted against it",
            )

        self.run(check)

    def test_remove_says_whether_the_message_was_there(self) -> None:
        """True once; then false, and it is not fetched any more."""

        async def check(stores: Stores) -> None:
            store = await stores.open()
            await store.store(make_message("1"))
            answers = [await removes(store, make_message("1")) for _ in range(2)]
            require(
                answers == [True, False], f"remove answered {answers} for one message that was removed twice"
            )
            require(await glance(store) is None, "a removed message was fetched")
            await require_next(store, None, "after the only message was removed")

        self.run(check)

    def test_remove_takes_the_message_that_it_is_given(self) -> None:
        """By its id: neither the earliest, nor all that are due then."""

        async def check(stores: Stores) -> None:
            store = await stores.open()
            for message_id in ("1", "2", "3"):
                await store.store(make_message(message_id))
            require(
                await removes(store, replace(make_message("2"), number_of_retries=7)),
                "remove answered False for a message that was there: it goes by more than the id",
            )
            found = sorted(await empty(store, MANY))
            require(found == ["1", "3"], f"remove of message 2 of three left {found}: another was removed")

        self.run(check)

    def test_what_one_instance_stores_another_sees(self) -> None:
        """At once: the storage is shared."""

        async def check(stores: Stores) -> None:
            one, other = await stores.pair()
            await one.store(make_message("1"))
            await require_next(other, NOON, "for a message that another instance has stored")
            require_same(
                await glance(other), make_message("1"), "by another instance than the one that stored it"
            )

        self.run(check)

    def test_messages_outlive_the_instance_and_setting_up_again(self) -> None:
        """Closing and starting again loses nothing; setting up what is there changes nothing."""

        async def check(stores: Stores) -> None:
            store = await stores.open()
            await store.store(make_message("1"))
            await store.close()
            await store.initialize(ENDPOINT, TransactionMode.SENDS_ATOMIC_WITH_RECEIVE)
            await store.setup_infrastructure()
            require_same(
                await glance(store), make_message("1"), "after the store was closed and set up again"
            )

        self.run(check)

    def test_calls_may_overlap(self) -> None:
        """On one instance: handlers store while the poller looks and fetches."""

        async def check(stores: Stores) -> None:
            store = await stores.open()
            storing = [store.store(make_message(str(number), minutes(number))) for number in range(MANY)]
            looking = [store.next() for _ in range(MANY)]
            await _without_fault("calls that overlap on one instance", *storing, *looking)
            given = await _without_fault(
                "transactions that overlap on one instance", *(empty(store, MANY) for _ in range(2))
            )
            found = sorted((message_id for several in given for message_id in several), key=int)
            wanted = [str(number) for number in range(MANY)]
            require(
                found == wanted, f"calls that overlap on one instance gave out {found}, not each message once"
            )

        self.run(check)

    def test_fetching_what_is_not_due_leaves_it(self) -> None:
        """A look in vain changes nothing."""

        async def check(stores: Stores) -> None:
            store = await stores.open()
            await store.store(make_message("1"))
            await glance(store, NOON - timedelta(hours=1))
            require_same(await glance(store, LATER), make_message("1"), "after a look before it was due")

        self.run(check)


async def _without_fault(what: str, *calls: Awaitable[Any]) -> list[Any]:
    """Make calls at the same time; an error of one is the store's fault."""
    try:
        return await asyncio.gather(*calls)
    except AssertionError:
        raise
    except Exception as error:
        raise AssertionError(f"{what} fail: {type(error).__name__}: {error}") from error
