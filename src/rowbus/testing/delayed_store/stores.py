"""The stores of one test of the contract: opened as an endpoint would; messages, and what is required.

Invariant: each requirement that fails is an AssertionError whose text is one sentence about the store.
"""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final

from rowbus import TransactionMode
from rowbus.transport.delayed_store.decisions import wrong_message, wrong_time, wrong_truth
from rowbus.transport.delayed_store.protocol import DelayedMessage

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable
    from contextlib import AbstractAsyncContextManager

    from rowbus.transport.delayed_store.protocol import DelayedMessageStore

    MakeStore = Callable[[], DelayedMessageStore]

NOON: Final = datetime(2026, 1, 1, 12, tzinfo=UTC)
LATER: Final = NOON + timedelta(days=3650)
EXACT: Final = timedelta(milliseconds=1)
ROUNDED: Final = timedelta(milliseconds=4)
"""The time that a message may be due later than asked for: SQL Server's `datetime` keeps 1/300 s."""

TEST_LASTS: Final = 12
"""The number of times the patience with one call that a whole test may take."""

ENDPOINT: Final = "Contract"


class UndoneError(Exception):
    """Ends a transaction that is to be undone."""


class Contract:
    """The ground of every part of the contract: the subclass's ways to make a store, and how a test is run."""

    has_transactions = True
    """Whether `transaction` undoes what happened in it when it raises; False for a store that locks by leases."""

    patience = 10.0
    """Seconds that a call may take before the store is said to wait for what another has in hand."""

    def make_store(self) -> DelayedMessageStore:
        """Give an instance of the store."""
        raise NotImplementedError

    def make_enlisted_store(self) -> DelayedMessageStore:
        """Give an instance that can be enlisted; the one of `make_store`, unless that needs another."""
        return self.make_store()

    def open_connection(self) -> AbstractAsyncContextManager[object] | None:
        """Give a connection that a store can be enlisted on, for a store that overrides `enlist`.

        The block is a transaction: it commits in the end, and rolls back when it raises. A psycopg.AsyncConnection is
        such a thing. By default None: the store is enlisted nowhere.
        """
        return None

    def expire_leases(self) -> None:
        """Let every lease run out, for a store that has no transactions: set the clock that you gave it."""
        raise AssertionError(
            "write `expire_leases` in your subclass: a store that locks by leases has to let go of what a dead process "
            "had in hand, and only you can set its clock"
        )

    def run(self, check: Callable[[Stores], Awaitable[None]]) -> None:
        """Run one check on fresh instances, and close them."""

        async def checked() -> None:
            stores = Stores(self.make_store)
            try:
                await _in_time(check(stores), TEST_LASTS * self.patience)
            finally:
                await stores.close()

        asyncio.run(checked())


class Stores:
    """The instances of one test."""

    def __init__(self, make: MakeStore) -> None:
        """Open nothing yet."""
        self._make = make
        self._opened: list[DelayedMessageStore] = []

    async def open(self) -> DelayedMessageStore:
        """Make an instance as an endpoint would."""
        store = await self.initialize(self._make())
        await store.setup_infrastructure()
        return store

    async def initialize(self, store: DelayedMessageStore) -> DelayedMessageStore:
        """Initialize an instance and have it closed in the end."""
        await store.initialize(ENDPOINT, TransactionMode.SENDS_ATOMIC_WITH_RECEIVE)
        self._opened.append(store)
        return store

    async def pair(self) -> tuple[DelayedMessageStore, DelayedMessageStore]:
        """Make two instances, as two processes would have them."""
        return await self.open(), await self.open()

    async def close(self) -> None:
        """Close all instances."""
        for store in self._opened:
            await store.close()


def make_message(
    message_id: str,
    due: datetime = NOON,
    *,
    destination: str = '"public"."Sales"',
    headers: bytes = b"{}",
    body: bytes = b"body",
) -> DelayedMessage:
    """Make a message to be stored."""
    return DelayedMessage(
        message_id=message_id, destination=destination, time=due, headers=headers, body=body
    )


def minutes(number: float) -> datetime:
    """Return a time so many minutes after noon."""
    return NOON + timedelta(minutes=number)


async def fetch(store: DelayedMessageStore, at: datetime = LATER) -> DelayedMessage | None:
    """Call `fetch_next_due` and look at the answer."""
    message = await store.fetch_next_due(at)
    wrong = wrong_message(message, LATER)
    require(wrong is None, f"fetch_next_due answered {wrong}")
    return message


async def glance(store: DelayedMessageStore, at: datetime = LATER) -> DelayedMessage | None:
    """Fetch a message, and let go of it by undoing the transaction (or, with leases, not at all)."""
    message = None
    with suppress(UndoneError):
        async with store.transaction() as inside:
            message = await fetch(inside, at)
            raise UndoneError
    return message


async def take(store: DelayedMessageStore, at: datetime = LATER) -> str | None:
    """Fetch a message and remove it; return its id."""
    async with store.transaction() as inside:
        message = await fetch(inside, at)
        if message is None:
            return None
        require(await removes(inside, message), "remove answered False for a message that was just fetched")
        return message.message_id


async def empty(store: DelayedMessageStore, most: int = 1_000) -> list[str]:
    """Take messages until there are none."""
    taken: list[str] = []
    while len(taken) < most and (message_id := await take(store)) is not None:
        taken.append(message_id)
        await asyncio.sleep(0)
    return taken


async def removes(store: DelayedMessageStore, message: DelayedMessage) -> bool:
    """Call `remove` and look at the answer."""
    answer = await store.remove(message)
    wrong = wrong_truth(answer)
    require(wrong is None, f"remove answered {wrong}")
    return bool(answer)


async def counts(store: DelayedMessageStore, message: DelayedMessage) -> bool:
    """Call `increment_failure_count` and look at the answer."""
    answer = await store.increment_failure_count(message)
    wrong = wrong_truth(answer)
    require(wrong is None, f"increment_failure_count answered {wrong}")
    return bool(answer)


async def require_next(store: DelayedMessageStore, due: datetime | None, when: str) -> None:
    """Require that `next` answers so; `when` says in which situation."""
    found = await store.next()
    wrong = wrong_time(found)
    require(wrong is None, f"next answered {wrong}")
    if found is None or due is None:
        require(found is due, f"next answered {found}, not {due}, {when}")
    else:
        require(-EXACT < found - due <= ROUNDED, f"next answered {found}, not {due}, {when}")


def require_same(fetched: DelayedMessage | None, stored: DelayedMessage, when: str) -> None:
    """Require that a message came back as it was stored."""
    if fetched is None:
        raise AssertionError(f"a message was not fetched {when}")
    for name in ("message_id", "destination", "headers", "body"):
        require(getattr(fetched, name) == getattr(stored, name), f"a message's {name} was not kept as it was")
    late = fetched.time - stored.time
    require(
        -EXACT < late <= ROUNDED,
        f"a message's time was not kept: it is due at {fetched.time}, not at {stored.time}",
    )


def require(holds: bool, otherwise: str) -> None:  # noqa: FBT001 - the condition of an assertion
    """Raise AssertionError; not `assert`, which pytest does not rewrite here and -O removes."""
    if not holds:
        raise AssertionError(otherwise)


@asynccontextmanager
async def both(
    one: DelayedMessageStore, other: DelayedMessageStore
) -> AsyncGenerator[tuple[DelayedMessageStore, DelayedMessageStore]]:
    """Give two transactions that overlap."""
    async with AsyncExitStack() as stack:
        yield (
            await stack.enter_async_context(one.transaction()),
            await stack.enter_async_context(other.transaction()),
        )


async def _in_time(check: Awaitable[None], seconds: float) -> None:
    limit = asyncio.timeout(seconds)
    try:
        async with limit:
            await check
    except TimeoutError:
        if not limit.expired():
            raise
        raise AssertionError(
            f"the calls of the store do not end within {seconds:g} s: one of them hangs"
        ) from None
