"""Stores with one fault each, small changes of two right ones: the contract fails each, in a sentence that names it."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

from rowbus import DelayedMessage, DelayedMessageStore
from rowbus.testing import DelayedMessageStoreContract, FakeClock
from tests.fixtures.every import every
from tests.transport.delayed_store.stores import MemoryStore, Shelf, ShelfConnection, TransactionalStore

Changed = Callable[[DelayedMessage], DelayedMessage]
Messages = dict[str, DelayedMessage]
Leases = dict[str, float]
Undo = list[tuple[str, DelayedMessage | None]]
Anything = Any  # for answers that are wrong on purpose


class Storage:
    """State that the stores of one test share."""

    def __init__(self) -> None:
        self.messages: dict[str, DelayedMessage] = {}
        self.leases: dict[str, float] = {}
        self.clock = FakeClock()
        self.shelf = Shelf()


# ---------------------------------------------------------------------------------------- what is kept, with leases


def keeps(change: Changed) -> type[MemoryStore]:
    """Make a store that changes what it keeps."""

    class Changes(MemoryStore):
        async def store(self, message: DelayedMessage) -> None:
            await super().store(change(message))

    return Changes


def gives(change: Callable[[DelayedMessage], Any]) -> type[MemoryStore]:
    """Make a store that changes what it gives."""

    class Gives(MemoryStore):
        async def fetch_next_due(self, at: datetime) -> Anything:
            message = await super().fetch_next_due(at)
            return None if message is None else change(message)

    return Gives


def tells(change: Callable[[datetime], Any]) -> type[MemoryStore]:
    """Make a store that changes what is next."""

    class Tells(MemoryStore):
        async def next(self) -> Anything:
            due = await super().next()
            return None if due is None else change(due)

    return Tells


def local(time: datetime) -> datetime:
    return time.astimezone().replace(tzinfo=UTC)


class OnePerInstant(MemoryStore):
    async def store(self, message: DelayedMessage) -> None:
        if message.time not in {one.time for one in self._messages.values()}:
            await super().store(message)


class OverwritesWhatIsStored(MemoryStore):
    async def store(self, message: DelayedMessage) -> None:
        self._messages[message.message_id] = message


class StoresTwice(MemoryStore):
    async def store(self, message: DelayedMessage) -> None:
        if message.message_id in self._messages:
            message = replace(message, message_id=message.message_id + "'")
        await super().store(message)


class KeepsToItself(MemoryStore):
    """In the memory of one instance."""

    def __init__(self, _messages: object, _leases: object, clock: FakeClock) -> None:
        super().__init__({}, {}, clock)


class ForgetsWhenClosed(MemoryStore):
    async def close(self) -> None:
        self._messages.clear()


class SetsUpAnew(MemoryStore):
    async def setup_infrastructure(self) -> None:
        self._messages.clear()


class FetchingRemoves(MemoryStore):
    async def fetch_next_due(self, at: datetime) -> DelayedMessage | None:
        message = await super().fetch_next_due(at)
        if message is None and self._messages:
            self._messages.pop(min(self._messages))
        return message


# ------------------------------------------------------------------------------------------------------------ order


class LooksIntoTheFuture(MemoryStore):
    async def fetch_next_due(self, at: datetime) -> DelayedMessage | None:
        return await super().fetch_next_due(at + timedelta(minutes=1))


class GoesByItsOwnClock(MemoryStore):
    async def fetch_next_due(self, at: datetime) -> DelayedMessage | None:
        return await super().fetch_next_due(datetime(2026, 6, 1, tzinfo=UTC))


class LatestFirst(MemoryStore):
    async def fetch_next_due(self, at: datetime) -> DelayedMessage | None:
        free = [one for one in self._messages.values() if self._is_free(one) and one.time <= at]
        late = max(free, key=lambda one: one.time, default=None)
        return None if late is None else await super().fetch_next_due(late.time) and late


class FirstStoredFirst(MemoryStore):
    async def fetch_next_due(self, at: datetime) -> DelayedMessage | None:
        for message in self._messages.values():
            if self._is_free(message) and message.time <= at:
                self._leases[message.message_id] = self._clock() + 30
                return message
        return None


class RemembersWhatWasNext(MemoryStore):
    """And does not hear of earlier messages."""

    _next: datetime | None = None

    async def next(self) -> datetime | None:
        self._next = self._next or await super().next()
        return self._next if self._messages else None


class HearsOnlyOfItsOwn(MemoryStore):
    """An earlier message of another instance does not count."""

    def __init__(self, messages: Messages, leases: Leases, clock: FakeClock) -> None:
        super().__init__(messages, leases, clock)
        self._own: set[str] = set()

    async def store(self, message: DelayedMessage) -> None:
        self._own.add(message.message_id)
        await super().store(message)

    async def next(self) -> datetime | None:
        own = [one.time for one in self._messages.values() if one.message_id in self._own]
        return min(own, default=None) or await super().next()


class HidesWhatIsInHand(MemoryStore):
    async def next(self) -> datetime | None:
        free = [message for message in self._messages.values() if self._is_free(message)]
        return min((message.time for message in free), default=None)


class AskingTakes(MemoryStore):
    async def next(self) -> datetime | None:
        message = await self.fetch_next_due(datetime(2100, 1, 1, tzinfo=UTC))
        return None if message is None else message.time


# ----------------------------------------------------------------------------------------------- removing, counting


class AlwaysRemoves(MemoryStore):
    async def remove(self, message: DelayedMessage) -> bool:
        await super().remove(message)
        return True


class RemovesNothing(MemoryStore):
    async def remove(self, message: DelayedMessage) -> bool:
        return message.message_id in self._messages


class RemovesAnother(MemoryStore):
    async def remove(self, message: DelayedMessage) -> bool:
        there = message.message_id in self._messages
        first = min(self._messages, default=message.message_id)
        return await super().remove(replace(message, message_id=first)) and there


class RemovesAllOfAnInstant(MemoryStore):
    async def remove(self, message: DelayedMessage) -> bool:
        there = [one for one in self._messages.values() if one.time == message.time]
        for one in there:
            await super().remove(one)
        return bool(there)


class RemovesOnlyWhatIsEqual(MemoryStore):
    async def remove(self, message: DelayedMessage) -> bool:
        return self._messages.get(message.message_id) == message and await super().remove(message)


class RemovingSaysNothing(MemoryStore):
    async def remove(self, message: DelayedMessage) -> Anything:
        await super().remove(message)


class NeverCounts(MemoryStore):
    async def increment_failure_count(self, message: DelayedMessage) -> bool:
        self._leases.clear()
        return message.message_id in self._messages


class CountsTwice(MemoryStore):
    async def increment_failure_count(self, message: DelayedMessage) -> bool:
        await super().increment_failure_count(message)
        return await super().increment_failure_count(message)


class CountsAll(MemoryStore):
    async def increment_failure_count(self, message: DelayedMessage) -> bool:
        counted = [
            await super(CountsAll, self).increment_failure_count(one) for one in [*self._messages.values()]
        ]
        return bool(counted)


class CountsInMemory(MemoryStore):
    def __init__(self, messages: Messages, leases: Leases, clock: FakeClock) -> None:
        super().__init__(messages, leases, clock)
        self._counts: dict[str, int] = {}

    async def increment_failure_count(self, message: DelayedMessage) -> bool:
        self._leases.pop(message.message_id, None)
        self._counts[message.message_id] = self._counts.get(message.message_id, 0) + 1
        return message.message_id in self._messages

    async def fetch_next_due(self, at: datetime) -> DelayedMessage | None:
        message = await super().fetch_next_due(at)
        return message and replace(message, number_of_retries=self._counts.get(message.message_id, 0))


class ForgetsCountsWhenClosed(CountsInMemory):
    """Shared by the instances, as in a server's memory, and lost at the end of one."""

    shared: dict[int, dict[str, int]] = {}  # noqa: RUF012 - shared on purpose

    def __init__(self, messages: Messages, leases: Leases, clock: FakeClock) -> None:
        super().__init__(messages, leases, clock)
        self._counts = self.shared.setdefault(id(messages), {})

    async def close(self) -> None:
        self._counts.clear()


class LosesCountsWithTheLease(CountsInMemory):
    """The count is kept with the lease, and ends with it."""

    shared: dict[int, dict[str, int]] = {}  # noqa: RUF012 - shared on purpose

    def __init__(self, messages: Messages, leases: Leases, clock: FakeClock) -> None:
        super().__init__(messages, leases, clock)
        self._counts = self.shared.setdefault(id(messages), {})

    async def fetch_next_due(self, at: datetime) -> DelayedMessage | None:
        for message_id in [one for one, until in self._leases.items() if until <= self._clock()]:
            self._counts.pop(message_id, None)
        return await super().fetch_next_due(at)


class CountingBringsBack(MemoryStore):
    async def increment_failure_count(self, message: DelayedMessage) -> bool:
        there = await super().increment_failure_count(message)
        self._messages.setdefault(message.message_id, replace(message, number_of_retries=1))
        return there


class CountingAlwaysWorks(MemoryStore):
    async def increment_failure_count(self, message: DelayedMessage) -> bool:
        await super().increment_failure_count(message)
        return True


# ------------------------------------------------------------------------------------------------------------ locks


class NeverLocks(MemoryStore):
    async def fetch_next_due(self, at: datetime) -> DelayedMessage | None:
        self._leases.clear()
        return await super().fetch_next_due(at)


class LeasesNeverExpire(MemoryStore):
    def _is_free(self, message: DelayedMessage) -> bool:
        return message.message_id not in self._leases


class CountingKeepsTheLease(MemoryStore):
    async def increment_failure_count(self, message: DelayedMessage) -> bool:
        lease = self._leases.get(message.message_id)
        there = await super().increment_failure_count(message)
        if lease is not None:
            self._leases[message.message_id] = lease
        return there


class LocksEverything(MemoryStore):
    async def fetch_next_due(self, at: datetime) -> DelayedMessage | None:
        if any(not self._is_free(message) for message in self._messages.values()):
            return None
        return await super().fetch_next_due(at)


class WaitsForWhatIsLocked(MemoryStore):
    async def fetch_next_due(self, at: datetime) -> DelayedMessage | None:
        if any(not self._is_free(message) for message in self._messages.values()):
            await asyncio.Event().wait()  # for ever: nothing is let go meanwhile
        return await super().fetch_next_due(at)


class CallsCollide(MemoryStore):
    """One connection, on which one call can be made at a time."""

    _busy = False

    async def store(self, message: DelayedMessage) -> None:
        if self._busy:
            raise RuntimeError("another operation is in progress")
        self._busy = True
        await asyncio.sleep(0)
        self._busy = False
        await super().store(message)


class WritesLater(MemoryStore):
    """A store whose messages are seen by others some messages later."""

    def __init__(self, messages: Messages, leases: Leases, clock: FakeClock) -> None:
        super().__init__(messages, leases, clock)
        self._shared, self._messages = messages, dict(messages)

    async def close(self) -> None:
        self._shared.update(self._messages)


# ---------------------------------------------------------------------------------------------------- transactions


class NothingIsEverReleased(TransactionalStore):
    def release(self) -> None:
        """Do nothing."""


class CancellingKeepsTheLock(TransactionalStore):
    @asynccontextmanager
    async def transaction(self) -> AsyncGenerator[DelayedMessageStore]:
        inside = self.inside()
        try:
            yield inside
        except Exception:
            inside.roll_back()
            inside.release()
            raise
        inside.release()


class NeverUndoes(TransactionalStore):
    def roll_back(self) -> None:
        """Do nothing."""


class NeverCommits(TransactionalStore):
    @asynccontextmanager
    async def transaction(self) -> AsyncGenerator[DelayedMessageStore]:
        inside = self.inside()
        try:
            yield inside
        finally:
            inside.roll_back()
            inside.release()


class SwallowsErrors(TransactionalStore):
    @asynccontextmanager
    async def transaction(self) -> AsyncGenerator[DelayedMessageStore]:
        with suppress(Exception):
            async with super().transaction() as inside:
                yield inside


class OneTransactionForAll(TransactionalStore):
    """Two transactions of an instance are one: on the same connection."""

    _current: TransactionalStore | None = None
    _depth = 0

    @asynccontextmanager
    async def transaction(self) -> AsyncGenerator[DelayedMessageStore]:
        if self._current is None:
            self._current = self.inside()
        self._depth += 1
        inside = self._current
        try:
            yield inside
        except BaseException:
            inside.roll_back()
            raise
        finally:
            self._depth -= 1
            if self._depth == 0:
                inside.release()
                self._current = None


class FailureUndoesAll(TransactionalStore):
    """Messages are apart, yet a failure undoes what another transaction of the instance did."""

    def __init__(self, shelf: Shelf, undo: Undo | None = None) -> None:
        super().__init__(shelf, undo)
        self.all: list[TransactionalStore] = []

    def inside(self) -> TransactionalStore:
        inside = super().inside()
        self.all.append(inside)
        return inside

    @asynccontextmanager
    async def transaction(self) -> AsyncGenerator[DelayedMessageStore]:
        try:
            async with super().transaction() as inside:
                yield inside
        except BaseException:
            for one in self.all:
                one.roll_back()
            raise


# -------------------------------------------------------------------------------------------------------- enlisting


class EnlistsInNameOnly(TransactionalStore):
    """Works on the shelf itself, whatever becomes of the connection."""

    def enlist(self, connection: object) -> DelayedMessageStore | None:
        return self


class EnlistsOnWhateverItGets(MemoryStore):
    def enlist(self, connection: object) -> DelayedMessageStore | None:
        return self


class CommitsByItself(TransactionalStore):
    def enlist(self, connection: object) -> DelayedMessageStore | None:
        inside = super().enlist(connection)
        if isinstance(inside, CommitsByItself):
            inside.undo = None
        return inside


class NeverEnlists(TransactionalStore):
    def enlist(self, connection: object) -> DelayedMessageStore | None:
        return None


class WithLeases(DelayedMessageStoreContract):
    has_transactions = False
    patience = 0.2

    def __init__(self, make: type[MemoryStore]) -> None:
        self._make = make
        self._storage = Storage()

    def make_store(self) -> DelayedMessageStore:
        return self._make(self._storage.messages, self._storage.leases, self._storage.clock)

    def expire_leases(self) -> None:
        self._storage.clock.advance(31)


class WithTransactions(DelayedMessageStoreContract):
    patience = 0.2

    def __init__(self, make: type[TransactionalStore]) -> None:
        self._make = make
        self._storage = Storage()

    def make_store(self) -> DelayedMessageStore:
        return self._make(self._storage.shelf)

    def open_connection(self) -> AbstractAsyncContextManager[object] | None:
        return ShelfConnection()


class Failure(NamedTuple):
    """A test of the contract that a store failed, and its sentence."""

    test: str
    sentence: str


def failures(store: type[MemoryStore | TransactionalStore]) -> list[Failure]:
    """Run the whole contract against a store, each test on an empty storage."""
    found = []
    for name in dir(DelayedMessageStoreContract):
        if name.startswith("test_"):
            contract = WithLeases(store) if issubclass(store, MemoryStore) else WithTransactions(store)
            try:
                getattr(contract, name)()
            except AssertionError as error:
                found.append(Failure(name, str(error)))
    return found


@every("store", [MemoryStore, TransactionalStore])
def test_a_right_store_fails_nothing(store: type[MemoryStore | TransactionalStore]) -> None:
    assert failures(store) == []


WRONG: dict[str, tuple[type[MemoryStore | TransactionalStore], str]] = {
    "time cut to seconds": (
        keeps(lambda one: replace(one, time=one.time.replace(microsecond=0))),
        "its time was cut",
    ),
    "time rounded up to seconds": (
        keeps(lambda one: replace(one, time=one.time.replace(microsecond=0) + timedelta(seconds=1))),
        "time was not kept",
    ),
    "naive message times": (
        gives(lambda one: replace(one, time=one.time.replace(tzinfo=None))),
        "no time zone",
    ),
    "local message times": (
        gives(lambda one: replace(one, time=local(one.time))),
        "time was not kept",
    ),
    "naive next": (tells(lambda due: due.replace(tzinfo=None)), "next answered .* no time zone"),
    "local next": (tells(local), "next answered .* on a machine whose time zone is not UTC"),
    "next as a number": (tells(datetime.timestamp), r"next answered .*\(float\)"),
    "looks into the future": (LooksIntoTheFuture, "before it was due|when it was asked for"),
    "its own clock": (GoesByItsOwnClock, "before it was due"),
    "bodies cut": (keeps(lambda one: replace(one, body=one.body[:65536])), "body was not kept"),
    "bodies as text": (
        keeps(lambda one: replace(one, body=one.body.decode("ascii", "replace").encode())),
        "body was not kept",
    ),
    "empty bodies become None": (
        gives(lambda one: replace(one, body=one.body or None)),  # type: ignore[arg-type]  # wrong on purpose
        "body is None",
    ),
    "headers changed": (
        keeps(lambda one: replace(one, headers=one.headers.decode("latin-1").encode())),
        "headers was not kept",
    ),
    "ids cut": (keeps(lambda one: replace(one, message_id=one.message_id[:100])), "message_id was not kept"),
    "ids in lower case": (
        keeps(lambda one: replace(one, message_id=one.message_id.lower())),
        "message_id was not kept",
    ),
    "destinations in ASCII": (
        keeps(lambda one: replace(one, destination=ascii(one.destination))),
        "destination was not kept",
    ),
    "a tuple for a message": (gives(lambda one: (one.message_id, one.time)), "not a DelayedMessage"),
    "one message per instant": (OnePerInstant, "of three messages due at one instant"),
    "overwrites": (OverwritesWhatIsStored, "failure count was lost when a message was stored again"),
    "stores twice": (StoresTwice, "stored twice"),
    "keeps to itself": (KeepsToItself, "another instance"),
    "writes later": (WritesLater, "another instance has stored"),
    "forgets when closed": (ForgetsWhenClosed, "after the store was closed and set up again"),
    "sets up anew": (SetsUpAnew, "set up again"),
    "a look in vain removes": (FetchingRemoves, "after a look before it was due"),
    "latest first": (LatestFirst, "came in the order"),
    "first stored first": (FirstStoredFirst, "came in the order"),
    "remembers what was next": (RemembersWhatWasNext, "though an earlier message was stored since"),
    "hears only of its own": (HearsOnlyOfItsOwn, "another instance has stored an earlier message since"),
    "hides what is in hand": (HidesWhatIsInHand, "another instance has in hand"),
    "asking takes": (AskingTakes, "asked for again"),
    "always removes": (AlwaysRemoves, r"remove answered \[True, True\]"),
    "removes nothing": (RemovesNothing, r"remove answered \[True, True\]"),
    "removes another": (RemovesAnother, "another was removed"),
    "removes all of an instant": (RemovesAllOfAnInstant, "another was removed"),
    "removes only what is equal": (RemovesOnlyWhatIsEqual, "goes by more than the id"),
    "removing says nothing": (RemovingSaysNothing, "remove answered None"),
    "never counts": (NeverCounts, "came with 0 failures, not with the 1"),
    "counts twice": (CountsTwice, "came with 2 failures, not with the 1"),
    "counts all": (CountsAll, "only another message had failed"),
    "counts in memory": (CountsInMemory, "counted by another instance"),
    "forgets counts when closed": (ForgetsCountsWhenClosed, "before the store was closed"),
    "loses counts with the lease": (LosesCountsWithTheLease, "before the lock on it ended"),
    "counting brings back": (CountingBringsBack, "a message that was gone had been counted"),
    "counting always works": (CountingAlwaysWorks, "answered True for a message that was not there"),
    "never locks": (NeverLocks, "what is fetched is not locked"),
    "leases never expire": (LeasesNeverExpire, "it is never released"),
    "counting keeps the lease": (
        CountingKeepsTheLease,
        "after its failure was counted: it is never released",
    ),
    "locks everything": (LocksEverything, "or too much is"),
    "waits for what is locked": (WaitsForWhatIsLocked, "fetch_next_due waits for what another has in hand"),
    "calls collide": (CallsCollide, "calls that overlap on one instance fail: RuntimeError"),
    "nothing is ever released": (NothingIsEverReleased, "it is never released"),
    "cancelling keeps the lock": (CancellingKeepsTheLock, "the process that had it in hand was gone"),
    "never undoes": (NeverUndoes, "its work is not undone"),
    "never commits": (NeverCommits, "it is not committed"),
    "swallows errors": (SwallowsErrors, "swallows the error"),
    "one transaction for all": (OneTransactionForAll, "two transactions of one instance"),
    "a failure undoes all": (FailureUndoesAll, "undid another's work"),
    "enlists in name only": (EnlistsInNameOnly, "enlist is in name only"),
    "enlists on whatever it gets": (EnlistsOnWhateverItGets, "enlist takes what is no connection"),
    "commits by itself": (CommitsByItself, "commits by itself|that was rolled back"),
    "never enlists": (NeverEnlists, "enlist answers None"),
}


@every("fault", WRONG)
def test_a_wrong_store_fails_with_a_sentence_that_names_its_fault(fault: str) -> None:
    store, sentence = WRONG[fault]

    found = failures(store)

    assert any(re.search(sentence, one.sentence) for one in found), found
