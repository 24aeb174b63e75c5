"""The tests that every delayed message store must pass: `rowbus.testing.DelayedMessageStoreContract`.

Invariant: each test is one sentence of `rowbus.DelayedMessageStore`, and fails for a store that breaks it; none asks
for more. Plain functions under the hood, so that any test runner, with or without asynchronous tests, can run them.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from rowbus.settings import TransactionMode
from rowbus.transport.delayed_store.protocol import DelayedMessage

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from rowbus.transport.delayed_store.protocol import DelayedMessageStore

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
LATER = NOON + timedelta(days=3650)
PRECISION = timedelta(milliseconds=1)
ENDPOINT = "Contract"
ALL_BYTES = bytes(range(256))


class _UndoneError(Exception):
    """Ends a transaction that is to be undone."""


class DelayedMessageStoreContract:
    """Tests of a store: subclass it in a module of tests, for pytest, and write `make_store`.

    ```python
    class TestMyStore(rowbus.testing.DelayedMessageStoreContract):
        def make_store(self) -> rowbus.DelayedMessageStore:
            return MyStore("…")
    ```

    `make_store` is called once or more in a test: each call gives another instance on the same storage, as another
    process would have; before each test that storage is empty (have a fixture empty it). What is left is initialized,
    set up and closed here.
    """

    has_transactions = True
    """Whether `transaction` undoes what happened in it when it raises; False for a store that locks by leases."""

    def make_store(self) -> DelayedMessageStore:
        """Give an instance of the store."""
        raise NotImplementedError

    def test_a_message_comes_back_as_it_was_stored(self) -> None:
        """What is stored is fetched: id, destination, time, headers and body, byte for byte."""

        async def check(stores: _Stores) -> None:
            store = await stores.open()
            message = _message(
                "m" * 250, NOON, destination='"public"."Ünï.✓"', headers=ALL_BYTES, body=ALL_BYTES * 4096
            )
            await store.store(message)
            fetched = await _fetch(store)
            _same(fetched, message)

        self._run(check)

    def test_an_empty_body_stays_empty(self) -> None:
        """No bytes are still bytes."""

        async def check(stores: _Stores) -> None:
            store = await stores.open()
            await store.store(_message("1", NOON, body=b""))
            _same(await _fetch(store), _message("1", NOON, body=b""))

        self._run(check)

    def test_nothing_is_fetched_before_it_is_due(self) -> None:
        """Fetching looks at the instant it is given."""

        async def check(stores: _Stores) -> None:
            store = await stores.open()
            await store.store(_message("1", NOON))
            _require(await _fetch(store, NOON - 2 * PRECISION) is None, "fetched before it was due")
            _require(await _fetch(store, NOON + 2 * PRECISION) is not None, "not fetched when it was due")

        self._run(check)

    def test_the_earliest_message_is_fetched_first(self) -> None:
        """In any order of storing."""

        async def check(stores: _Stores) -> None:
            store = await stores.open()
            for minutes in (3, 1, 2):
                await store.store(_message(str(minutes), NOON + timedelta(minutes=minutes)))
            fetched = [await _take(store) for _ in range(4)]
            _require(fetched == ["1", "2", "3", None], f"fetched in the order {fetched}")

        self._run(check)

    def test_next_is_the_earliest_time_and_nothing_when_nothing_is_stored(self) -> None:
        """As an aware instant, also of a message that is not due for long."""

        async def check(stores: _Stores) -> None:
            store = await stores.open()
            _require(await store.next() is None, "an empty store has no next message")
            for number, due in enumerate((LATER, NOON + timedelta(hours=1), LATER)):
                await store.store(_message(str(number), due))
            await _require_next(store, NOON + timedelta(hours=1))

        self._run(check)

    def test_remove_says_whether_the_message_was_there(self) -> None:
        """True once; then false, and it is not fetched any more."""

        async def check(stores: _Stores) -> None:
            store = await stores.open()
            await store.store(_message("1", NOON))
            answers = [await store.remove(_message("1", NOON)) for _ in range(2)]
            _require(answers == [True, False], f"remove answered {answers}")
            _require(await _fetch(store) is None, "a removed message was fetched")
            _require(await store.next() is None, "a removed message is next")

        self._run(check)

    def test_failures_are_counted(self) -> None:
        """The count is fetched with the message; others keep theirs."""

        async def check(stores: _Stores) -> None:
            store = await stores.open()
            await store.store(_message("1", NOON))
            await store.store(_message("2", NOON + timedelta(minutes=1)))
            for failures in range(3):
                message = await _fetch(store)
                _require(message is not None and message.number_of_retries == failures, f"not {failures}")
                counted = await store.increment_failure_count(_message("1", NOON))
                _require(counted, "the message was there")
            await store.remove(_message("1", NOON))
            other = await _fetch(store)
            _require(other is not None and other.number_of_retries == 0, "another message was counted")

        self._run(check)

    def test_counting_a_failure_says_whether_the_message_was_there(self) -> None:
        """False when it is gone, and that does not bring it back."""

        async def check(stores: _Stores) -> None:
            store = await stores.open()
            _require(
                not await store.increment_failure_count(_message("1", NOON)), "counted without a message"
            )
            _require(await store.next() is None, "counting has stored a message")

        self._run(check)

    def test_a_message_that_is_stored_again_stays_as_it_is(self) -> None:
        """After a crash a message may be stored a second time: there is still one, with its count."""

        async def check(stores: _Stores) -> None:
            store = await stores.open()
            await store.store(_message("1", NOON))
            await store.increment_failure_count(_message("1", NOON))
            await store.store(_message("1", NOON))
            message = await _fetch(store)
            _require(message is not None and message.number_of_retries == 1, "the count was lost")
            await store.remove(_message("1", NOON))
            _require(await store.next() is None, "the message was there twice")

        self._run(check)

    def test_what_one_instance_has_in_hand_another_does_not_get(self) -> None:
        """Fetching locks, and passes over what is locked without waiting."""

        async def check(stores: _Stores) -> None:
            one, other = await stores.open(), await stores.open()
            for number in (1, 2):
                await one.store(_message(str(number), NOON + timedelta(minutes=number)))
            async with one.transaction() as mine, other.transaction() as others:
                first = await mine.fetch_next_due(LATER)
                second = await asyncio.wait_for(others.fetch_next_due(LATER), 10)
                third = await asyncio.wait_for(others.fetch_next_due(LATER), 10)
            ids = [None if message is None else message.message_id for message in (first, second)]
            _require(ids == ["1", "2"], f"two instances fetched {ids}")
            _require(third is None or third.message_id == "2", "fetched what another instance has in hand")

        self._run(check)

    def test_next_counts_what_is_in_hand(self) -> None:
        """A message that is locked is still stored."""

        async def check(stores: _Stores) -> None:
            one, other = await stores.open(), await stores.open()
            await one.store(_message("1", NOON))
            async with one.transaction() as mine:
                await mine.fetch_next_due(LATER)
                await _require_next(other, NOON)

        self._run(check)

    def test_a_transaction_that_fails_leaves_the_message_as_it_was(self) -> None:
        """Neither removed nor locked. Only for stores that have transactions."""

        async def check(stores: _Stores) -> None:
            store = await stores.open()
            await store.store(_message("1", NOON))
            with suppress(_UndoneError):
                async with store.transaction() as inside:
                    message = await inside.fetch_next_due(LATER)
                    _require(message is not None and await inside.remove(message), "the message was there")
                    raise _UndoneError
            _same(await _fetch(store), _message("1", NOON))

        if self.has_transactions:
            self._run(check)

    def test_a_counted_message_can_be_fetched_again(self) -> None:
        """By any instance: counting a failure, and the transaction's end, release it."""

        async def check(stores: _Stores) -> None:
            one, other = await stores.open(), await stores.open()
            await one.store(_message("1", NOON))
            async with one.transaction() as mine:
                message = await mine.fetch_next_due(LATER)
                _require(message is not None, "the message was there")
                await mine.increment_failure_count(_message("1", NOON))
            again = await _fetch(other)
            _require(again is not None and again.number_of_retries == 1, "not to be had again, once counted")

        self._run(check)

    def test_instances_that_work_side_by_side_get_each_message_once(self) -> None:
        """Four instances empty one store."""

        async def check(stores: _Stores) -> None:
            workers = [await stores.open() for _ in range(4)]
            for number in range(40):
                await workers[0].store(_message(str(number), NOON + timedelta(seconds=number)))
            given = await asyncio.gather(*(_empty(worker) for worker in workers))
            ids = sorted(int(message_id) for several in given for message_id in several)
            _require(ids == list(range(40)), f"given out: {ids}")

        self._run(check)

    def test_messages_outlive_the_instance_and_setting_up_again(self) -> None:
        """Closing and starting again loses nothing; setting up what is there changes nothing."""

        async def check(stores: _Stores) -> None:
            store = await stores.open()
            await store.store(_message("1", NOON))
            await store.close()
            await store.initialize(ENDPOINT, TransactionMode.SENDS_ATOMIC_WITH_RECEIVE)
            await store.setup_infrastructure()
            _same(await _fetch(store), _message("1", NOON))

        self._run(check)

    def _run(self, check: Callable[[_Stores], Awaitable[None]]) -> None:
        async def run() -> None:
            stores = _Stores(self.make_store)
            try:
                await check(stores)
            finally:
                await stores.close()

        asyncio.run(run())


class _Stores:
    """The instances of one test."""

    def __init__(self, make: Callable[[], DelayedMessageStore]) -> None:
        self._make = make
        self._opened: list[DelayedMessageStore] = []

    async def open(self) -> DelayedMessageStore:
        """Make an instance as an endpoint would."""
        store = self._make()
        await store.initialize(ENDPOINT, TransactionMode.SENDS_ATOMIC_WITH_RECEIVE)
        self._opened.append(store)
        await store.setup_infrastructure()
        return store

    async def close(self) -> None:
        """Close all instances."""
        for store in self._opened:
            await store.close()


def _message(
    message_id: str,
    due: datetime,
    *,
    destination: str = '"public"."Sales"',
    headers: bytes = b"{}",
    body: bytes = b"body",
) -> DelayedMessage:
    return DelayedMessage(
        message_id=message_id, destination=destination, time=due, headers=headers, body=body
    )


async def _fetch(store: DelayedMessageStore, at: datetime = LATER) -> DelayedMessage | None:
    """Fetch a message, and let go of it by undoing the transaction."""
    message = None
    with suppress(_UndoneError):
        async with store.transaction() as inside:
            message = await inside.fetch_next_due(at)
            raise _UndoneError
    return message


async def _take(store: DelayedMessageStore) -> str | None:
    """Fetch a message and remove it; return its id."""
    async with store.transaction() as inside:
        message = await inside.fetch_next_due(LATER)
        if message is None:
            return None
        _require(await inside.remove(message), "a message in hand is there to be removed")
        return message.message_id


async def _empty(store: DelayedMessageStore) -> list[str]:
    """Take messages until there are none."""
    taken: list[str] = []
    while (message_id := await _take(store)) is not None:
        taken.append(message_id)
        await asyncio.sleep(0)
    return taken


async def _require_next(store: DelayedMessageStore, due: datetime) -> None:
    found = await store.next()
    _require(found is not None and found.utcoffset() is not None, f"next is {found}, not an aware datetime")
    _require(found is not None and abs(found - due) < PRECISION, f"next is {found}, not {due}")


def _same(fetched: DelayedMessage | None, stored: DelayedMessage) -> None:
    _require(fetched is not None, "the message was not fetched")
    if fetched is None:
        return
    for name in ("message_id", "destination", "headers", "body"):
        _require(getattr(fetched, name) == getattr(stored, name), f"{name} has changed")
    _require(fetched.time.utcoffset() is not None, "time is not aware")
    _require(abs(fetched.time - stored.time) < PRECISION, f"time is {fetched.time}, not {stored.time}")


def _require(holds: bool, otherwise: str) -> None:  # noqa: FBT001 - the condition of an assertion
    """Raise AssertionError; not `assert`, which pytest does not rewrite here and -O removes."""
    if not holds:
        raise AssertionError(otherwise)
