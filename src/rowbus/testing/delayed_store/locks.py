"""The contract on locks: what one instance has in hand no other gets, until it is let go."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from rowbus.testing.delayed_store.stores import (
    Contract,
    both,
    counts,
    empty,
    fetch,
    glance,
    make_message,
    minutes,
    require,
    require_same,
)

if TYPE_CHECKING:
    from rowbus.testing.delayed_store.stores import Stores
    from rowbus.transport.delayed_store.protocol import DelayedMessage, DelayedMessageStore


class LockContract(Contract):
    """Who has a message."""

    def test_what_one_instance_has_in_hand_another_does_not_get(self) -> None:
        """Fetching locks, and passes over what is locked without waiting."""

        async def check(stores: Stores) -> None:
            one, other = await stores.pair()
            await _require_apart(one, other, self.patience, "two instances")

        self.run(check)

    def test_two_transactions_of_one_instance_get_different_messages(self) -> None:
        """The poller of one process has two messages in hand at a time."""

        async def check(stores: Stores) -> None:
            store = await stores.open()
            await _require_apart(store, store, self.patience, "two transactions of one instance")

        self.run(check)

    def test_a_counted_message_can_be_fetched_again(self) -> None:
        """By any instance: counting a failure, and the transaction's end, release it."""

        async def check(stores: Stores) -> None:
            one, other = await stores.pair()
            await one.store(make_message("1"))
            async with one.transaction() as mine:
                require(await fetch(mine) is not None, "a message was not fetched after it was stored")
                await counts(mine, make_message("1"))
            require(
                await glance(other) is not None,
                "a message was not to be had again after its failure was counted: it is never released",
            )

        self.run(check)

    def test_what_a_process_had_in_hand_when_it_died_is_had_again(self) -> None:
        """A lock ends with its transaction, also when that is cancelled, or with its lease."""

        async def check(stores: Stores) -> None:
            one, other = await stores.pair()
            await one.store(make_message("1"))
            if self.has_transactions:
                await _die_in_a_transaction(one)
            else:
                require(await fetch(one) is not None, "a message was not fetched after it was stored")
                self.expire_leases()
            require_same(
                await glance(other),
                make_message("1"),
                "after the process that had it in hand was gone: it is never released",
            )

        self.run(check)

    def test_instances_that_work_side_by_side_get_each_message_once(self) -> None:
        """Four instances empty one store."""

        async def check(stores: Stores) -> None:
            workers = [await stores.open() for _ in range(4)]
            for number in range(40):
                await workers[0].store(make_message(str(number), minutes(number)))
            given = await asyncio.gather(*(empty(worker) for worker in workers))
            ids = sorted(int(message_id) for several in given for message_id in several)
            require(
                ids == list(range(40)), f"four instances side by side were given {ids}, not each message once"
            )

        self.run(check)


async def _require_apart(
    one: DelayedMessageStore, other: DelayedMessageStore, patience: float, who: str
) -> None:
    for number in (1, 2):
        await one.store(make_message(str(number), minutes(number)))
    async with both(one, other) as (mine, others):
        first = await fetch(mine)
        second = await _without_waiting(others, patience, "what another has in hand")
        third = await _without_waiting(others, patience, "what others have in hand")
    ids = [None if message is None else message.message_id for message in (first, second)]
    require(
        ids == ["1", "2"],
        f"{who} fetched {ids} of the messages 1 and 2: what is fetched is not locked, or too much is",
    )
    require(
        third is None or third.message_id == "2", f"{who} fetched one message: what is fetched is not locked"
    )


async def _without_waiting(store: DelayedMessageStore, patience: float, what: str) -> DelayedMessage | None:
    try:
        async with asyncio.timeout(patience):
            return await fetch(store)
    except TimeoutError:
        raise AssertionError(f"fetch_next_due waits for {what}, which it has to pass over") from None


async def _die_in_a_transaction(store: DelayedMessageStore) -> None:
    """Be cancelled with a message in hand, as a process that is ended is."""
    has_it = asyncio.Event()

    async def work() -> None:
        async with store.transaction() as mine:
            require(await fetch(mine) is not None, "a message was not fetched after it was stored")
            has_it.set()
            await asyncio.Event().wait()

    working = asyncio.ensure_future(work())
    await asyncio.wait([working, asyncio.ensure_future(has_it.wait())], return_when=asyncio.FIRST_COMPLETED)
    working.cancel()
    await asyncio.wait([working])
    if not working.cancelled() and (error := working.exception()) is not None:
        raise error
