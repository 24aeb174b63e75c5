"""The contracts on transactions, on enlisting in the queues' own, and on locks.

What happens in a transaction is kept or undone with it; what one instance has in hand no other gets, until it is let
go.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING

from rowbus.testing.delayed_store.stores import (
    Contract,
    UndoneError,
    both,
    counts,
    empty,
    fetch,
    glance,
    make_message,
    minutes,
    removes,
    require,
    require_same,
    take,
)
from rowbus.transport.delayed_store.protocol import DelayedMessageStore

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from contextlib import AbstractAsyncContextManager

    from rowbus.testing.delayed_store.stores import Stores
    from rowbus.transport.delayed_store.protocol import DelayedMessage

    Work = Callable[[DelayedMessageStore], Awaitable[object]]


class TransactionContract(Contract):
    """The behaviour of `transaction`."""

    def test_what_was_done_in_a_transaction_is_kept(self) -> None:
        """For every instance, when the block has ended."""

        async def check(stores: Stores) -> None:
            one, other = await stores.pair()
            await one.store(make_message("1"))
            require(await take(one) == "1", "a message was not fetched after it was stored")
            require(
                await glance(other) is None,
                "a message was fetched again after the transaction that removed it had ended: it is not committed",
            )

        self.run(check)

    def test_an_error_in_a_transaction_comes_out_of_it(self) -> None:
        """The store swallows no error of its caller's."""

        async def check(stores: Stores) -> None:
            store = await stores.open()
            came_out = False
            try:
                async with store.transaction():
                    raise UndoneError  # noqa: TRY301 - what the store does with it is the test
            except UndoneError:
                came_out = True
            require(came_out, "transaction swallows the error that is raised in its block")

        self.run(check)

    def test_a_transaction_that_fails_leaves_the_message_as_it_was(self) -> None:
        """Neither removed nor locked. Only for stores that have transactions."""

        async def check(stores: Stores) -> None:
            store = await stores.open()
            await store.store(make_message("1"))
            with suppress(UndoneError):
                async with store.transaction() as inside:
                    message = await fetch(inside)
                    require(message is not None, "a message was not fetched after it was stored")
                    await removes(inside, make_message("1"))
                    raise UndoneError
            when = "after the transaction that had removed it failed: its work is not undone"
            require_same(await glance(store), make_message("1"), when)

        if self.has_transactions:
            self.run(check)

    def test_a_failed_transaction_undoes_nothing_of_another(self) -> None:
        """Two overlap on one instance; only one of them fails."""

        async def check(stores: Stores) -> None:
            store, other = await stores.pair()
            for number in (1, 2):
                await store.store(make_message(str(number), minutes(number)))
            with suppress(UndoneError):
                async with store.transaction() as failing:
                    await fetch(failing)
                    async with store.transaction() as kept:
                        message = await fetch(kept)
                        require(
                            message is not None, "two transactions of one instance do not get a message each"
                        )
                        if message is not None:
                            await removes(kept, message)
                    raise UndoneError
            found = [await take(other), await take(other)]
            require(
                found == ["1", None],
                f"a transaction that failed undid another's work on the same instance: {found} were there then",
            )

        if self.has_transactions:
            self.run(check)


class _NoConnection:
    """No connection of any driver."""


class EnlistmentContract(Contract):
    """The promise of `enlist`. Only for stores that override it."""

    def test_a_store_that_takes_part_in_no_transaction_says_so(self) -> None:
        """`enlist` answers None, unless it was given a connection that it can work on."""

        async def check(stores: Stores) -> None:
            store = await stores.open()
            enlisted: object = None
            with suppress(Exception):  # refusing what is no connection is right
                enlisted = store.enlist(_NoConnection())
            require(
                enlisted is None,
                "enlist takes what is no connection: it is in name only, and loses messages when a process is killed "
                "(if it does take part in transactions, write `open_connection` in your subclass)",
            )

        if self.open_connection() is None:
            self.run(check)

    def test_what_an_enlisted_store_keeps_goes_with_the_transaction(self) -> None:
        """Rolled back, the message is not there."""

        async def check(stores: Stores) -> None:
            store = await stores.open()
            await self._fail(stores, lambda enlisted: enlisted.store(make_message("1")))
            require(
                await glance(store) is None,
                "a message stays that an enlisted store has stored in a transaction that was rolled back",
            )

        self._run_enlisted(check)

    def test_what_an_enlisted_store_removes_comes_back_with_the_transaction(self) -> None:
        """Rolled back, the message is there again, and free."""

        async def check(stores: Stores) -> None:
            store = await stores.open()
            await store.store(make_message("1"))

            async def work(enlisted: DelayedMessageStore) -> None:
                message = await fetch(enlisted)
                require(message is not None, "an enlisted store does not fetch what was stored")
                await removes(enlisted, make_message("1"))

            await self._fail(stores, work)
            when = "after the transaction was rolled back in which an enlisted store removed it: enlist is in name only"
            require_same(await glance(store), make_message("1"), when)

        self._run_enlisted(check)

    def test_an_enlisted_store_holds_what_it_has_in_hand_and_ends_no_transaction(self) -> None:
        """Until the connection's transaction ends; then it is done."""

        async def check(stores: Stores) -> None:
            store = await stores.open()
            await store.store(make_message("1"))
            enlisted_store = await stores.initialize(self.make_enlisted_store())
            async with self._connection() as connection:
                enlisted = _enlisted(enlisted_store, connection)
                await fetch(enlisted)
                await removes(enlisted, make_message("1"))
                require(
                    await store.next() is not None,
                    "what an enlisted store removes is gone before the transaction ends: it commits by itself",
                )
            require(
                await glance(store) is None,
                "a message stays that an enlisted store has removed in a transaction that was committed",
            )

        self._run_enlisted(check)

    def _run_enlisted(self, check: Callable[[Stores], Awaitable[None]]) -> None:
        if self.open_connection() is not None:
            self.run(check)

    def _connection(self) -> AbstractAsyncContextManager[object]:
        connection = self.open_connection()
        if connection is None:
            raise AssertionError("open_connection gave a connection before, and now gives none")
        return connection

    async def _fail(self, stores: Stores, work: Work) -> None:
        """Do something on an enlisted store, in a transaction that is rolled back."""
        store = await stores.initialize(self.make_enlisted_store())
        with suppress(UndoneError):
            async with self._connection() as connection:
                await work(_enlisted(store, connection))
                raise UndoneError


def _enlisted(store: DelayedMessageStore, connection: object) -> DelayedMessageStore:
    enlisted = store.enlist(connection)
    if enlisted is None:
        raise AssertionError("enlist answers None for a connection to the queues' database")
    return enlisted


class LockContract(Contract):
    """The transaction that has a message."""

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
