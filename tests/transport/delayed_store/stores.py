"""Stores for tests: one in memory that locks by leases, and one that fails when it is told to.

Invariant: a planned fault happens once for each time it was planned, and `faults` says which are still to come.
"""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import datetime
from typing import Self

from rowbus import DelayedMessage, DelayedMessageStore, TransactionMode
from rowbus.testing import FakeClock

LEASE = 30.0


class MemoryStore(DelayedMessageStore):
    """Keeps messages in a dictionary; several instances may share one. Has no transactions: it leases."""

    def __init__(
        self, messages: dict[str, DelayedMessage], leases: dict[str, float], clock: FakeClock
    ) -> None:
        self._messages = messages
        self._leases = leases
        self._clock = clock

    async def initialize(self, endpoint_name: str, transaction_mode: TransactionMode) -> None:
        """Do nothing."""

    async def store(self, message: DelayedMessage) -> None:
        self._messages.setdefault(message.message_id, message)

    async def remove(self, message: DelayedMessage) -> bool:
        self._leases.pop(message.message_id, None)
        return self._messages.pop(message.message_id, None) is not None

    async def increment_failure_count(self, message: DelayedMessage) -> bool:
        self._leases.pop(message.message_id, None)
        stored = self._messages.get(message.message_id)
        if stored is None:
            return False
        self._messages[message.message_id] = replace(stored, number_of_retries=stored.number_of_retries + 1)
        return True

    async def next(self) -> datetime | None:
        return min((message.time for message in self._messages.values()), default=None)

    async def fetch_next_due(self, at: datetime) -> DelayedMessage | None:
        free = [message for message in self._messages.values() if self._is_free(message)]
        due = min((message for message in free if message.time <= at), key=_when, default=None)
        if due is not None:
            self._leases[due.message_id] = self._clock() + LEASE
        return due

    def _is_free(self, message: DelayedMessage) -> bool:
        return self._leases.get(message.message_id, 0) <= self._clock()


class Shelf:
    """The storage of `TransactionalStore`s: messages, and which transaction holds which."""

    def __init__(self) -> None:
        self.messages: dict[str, DelayedMessage] = {}
        self.holders: dict[str, object] = {}


class TransactionalStore(DelayedMessageStore):
    """Keeps messages on a shelf; has transactions, which undo what was done in them, and can be enlisted on one."""

    def __init__(self, shelf: Shelf, undo: list[tuple[str, DelayedMessage | None]] | None = None) -> None:
        self.shelf = shelf
        self.undo = undo
        self.mark = object()

    async def initialize(self, endpoint_name: str, transaction_mode: TransactionMode) -> None:
        """Do nothing."""

    async def store(self, message: DelayedMessage) -> None:
        if message.message_id not in self.shelf.messages:
            self.change(message.message_id, replace(message, number_of_retries=0))

    async def remove(self, message: DelayedMessage) -> bool:
        there = message.message_id in self.shelf.messages
        if there:
            self.change(message.message_id, None)
        return there

    async def increment_failure_count(self, message: DelayedMessage) -> bool:
        stored = self.shelf.messages.get(message.message_id)
        if stored is None:
            return False
        self.change(message.message_id, replace(stored, number_of_retries=stored.number_of_retries + 1))
        return True

    async def next(self) -> datetime | None:
        # What another transaction has removed is there until that is committed.
        kept = [*self.shelf.messages.values(), *self.removed_elsewhere()]
        return min((message.time for message in kept), default=None)

    async def fetch_next_due(self, at: datetime) -> DelayedMessage | None:
        due = [
            message
            for message in self.shelf.messages.values()
            if message.time <= at and self.is_free(message)
        ]
        found = min(due, key=_when, default=None)
        if found is not None and self.undo is not None:
            self.shelf.holders[found.message_id] = self.mark
        return found

    def is_free(self, message: DelayedMessage) -> bool:
        return self.shelf.holders.get(message.message_id) in {None, self.mark}

    def change(self, message_id: str, to: DelayedMessage | None) -> None:
        if self.undo is not None:
            before = self.shelf.messages.get(message_id)
            self.undo.append((message_id, before))
            if to is None and before is not None:
                self.shelf.holders[message_id] = before
        if to is None:
            self.shelf.messages.pop(message_id, None)
        else:
            self.shelf.messages[message_id] = to

    def removed_elsewhere(self) -> list[DelayedMessage]:
        return [one for one in self.shelf.holders.values() if isinstance(one, DelayedMessage)]

    def inside(self) -> TransactionalStore:
        return type(self)(self.shelf, [])

    def roll_back(self) -> None:
        for message_id, before in reversed(self.undo or []):
            if before is None:
                self.shelf.messages.pop(message_id, None)
            else:
                self.shelf.messages[message_id] = before

    def release(self) -> None:
        touched = {message_id for message_id, _ in self.undo or []}
        for message_id, holder in list(self.shelf.holders.items()):
            if holder is self.mark or message_id in touched:
                del self.shelf.holders[message_id]

    @asynccontextmanager
    async def transaction(self) -> AsyncGenerator[DelayedMessageStore]:
        inside = self.inside()
        try:
            yield inside
        except BaseException:
            inside.roll_back()
            raise
        finally:
            inside.release()

    def enlist(self, connection: object) -> DelayedMessageStore | None:
        if not isinstance(connection, ShelfConnection):
            return None
        inside = self.inside()
        connection.enlisted.append(inside)
        return inside


class ShelfConnection:
    """A connection to the shelf: as a context manager, a transaction."""

    def __init__(self) -> None:
        self.enlisted: list[TransactionalStore] = []

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: object, *_error: object) -> None:
        for store in self.enlisted:
            if kind is not None:
                store.roll_back()
            store.release()


def _when(message: DelayedMessage) -> tuple[datetime, str]:
    return message.time, message.message_id


class Faults:
    """Errors to come: by the name of a step, those that its next calls raise."""

    def __init__(self) -> None:
        self._planned: dict[str, deque[Exception]] = {}
        self.calls: list[str] = []

    def plan(self, step: str, error: Exception, times: int = 1) -> None:
        self._planned.setdefault(step, deque()).extend([error] * times)

    def forget(self) -> None:
        self._planned.clear()

    def step(self, name: str) -> None:
        self.calls.append(name)
        if self._planned.get(name):
            raise self._planned[name].popleft()

    @property
    def to_come(self) -> int:
        return sum(len(errors) for errors in self._planned.values())


class FaultyStore(DelayedMessageStore):
    """Another store, with faults.

    Steps: the methods' names (the method did nothing), `stored` (it has stored, and the answer was lost), `commit`
    (the transaction is rolled back), `committed` (it is not, and the answer was lost).
    """

    def __init__(self, inner: DelayedMessageStore, faults: Faults) -> None:
        self._inner = inner
        self._faults = faults
        self._changed = False

    async def setup_infrastructure(self) -> None:
        await self._inner.setup_infrastructure()

    async def initialize(self, endpoint_name: str, transaction_mode: TransactionMode) -> None:
        await self._inner.initialize(endpoint_name, transaction_mode)

    async def store(self, message: DelayedMessage) -> None:
        self._faults.step("store")
        await self._inner.store(message)
        self._faults.step("stored")

    async def remove(self, message: DelayedMessage) -> bool:
        self._faults.step("remove")
        self._changed = True
        return await self._inner.remove(message)

    async def increment_failure_count(self, message: DelayedMessage) -> bool:
        self._faults.step("increment_failure_count")
        self._changed = True
        return await self._inner.increment_failure_count(message)

    async def next(self) -> datetime | None:
        self._faults.step("next")
        return await self._inner.next()

    async def fetch_next_due(self, at: datetime) -> DelayedMessage | None:
        self._faults.step("fetch_next_due")
        return await self._inner.fetch_next_due(at)

    @asynccontextmanager
    async def transaction(self) -> AsyncGenerator[DelayedMessageStore]:
        async with self._inner.transaction() as inner:
            inside = FaultyStore(inner, self._faults)
            yield inside
            if inside._changed:
                self._faults.step("commit")
        if inside._changed:
            self._faults.step("committed")

    async def close(self) -> None:
        await self._inner.close()
