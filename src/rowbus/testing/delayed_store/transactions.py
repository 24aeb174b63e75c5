"""The contract on transactions: what happens in one is kept when the block ends, and undone when it raises."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from rowbus.testing.delayed_store.stores import (
    Contract,
    UndoneError,
    fetch,
    glance,
    make_message,
    minutes,
    removes,
    require,
    require_same,
    take,
)

if TYPE_CHECKING:
    from rowbus.testing.delayed_store.stores import Stores


class TransactionContract(Contract):
    """What `transaction` does."""

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
