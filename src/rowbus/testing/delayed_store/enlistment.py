"""The contract on enlisting: a store that takes part in the queues' transaction ends with it, in everything it does."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from rowbus.testing.delayed_store.stores import (
    Contract,
    UndoneError,
    fetch,
    glance,
    make_message,
    removes,
    require,
    require_same,
)
from rowbus.transport.delayed_store.protocol import DelayedMessageStore

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from contextlib import AbstractAsyncContextManager

    from rowbus.testing.delayed_store.stores import Stores

    Work = Callable[[DelayedMessageStore], Awaitable[object]]


class _NoConnection:
    """No connection of any driver."""


class EnlistmentContract(Contract):
    """What `enlist` promises. Only for stores that override it."""

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
