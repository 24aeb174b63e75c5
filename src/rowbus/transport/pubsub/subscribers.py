"""Subscribers of an event: asked of the database, and remembered for a few seconds.

A subscription names the queue that a copy goes to, and who may write one is another endpoint: it must be a queue that
runs no stranger's code.

Invariants: what is remembered is whole answers of the database, none older than the endpoint's setting says; a caller
that stops waiting for an answer leaves it to the others that wait; nothing here is locked or changed.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple

from rowbus.database.statements import answer_steps
from rowbus.errors import InvalidAddressError, QueueNotFoundError
from rowbus.transport.pubsub.publication import check_subscription, topics_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from rowbus.database.sessions import Session, SessionPool
    from rowbus.database.statements import Statement
    from rowbus.messages.address import QueueAddress
    from rowbus.transport.pubsub.publication import TopicSubscription
    from rowbus.transport.pubsub.table import SubscriptionRouting
    from rowbus.transport.queues.catalog.table import Catalog
    from rowbus.transport.queues.destination_rule import Destinations

logger = logging.getLogger("rowbus.subscriptions")

Addresses = tuple["QueueAddress", ...]
Ask = Callable[["Statement[Any]"], Awaitable[Any]]
MOST_REMEMBERED = 1000  # events whose subscribers are remembered


class _Answer(NamedTuple):
    """The database's answer, or the one on its way, and when it was asked."""

    asked: float
    task: asyncio.Future[Addresses]


class Subscribers:
    """Looks up subscribers for one endpoint, and writes down its own subscriptions. For one event loop."""

    def __init__(
        self,
        pool: SessionPool,
        table: SubscriptionRouting,
        *,
        remember: float,
        destinations: Destinations | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Ask through the pool's sessions; an answer is good for `remember` seconds from the question on.

        `destinations` looks at the queues that subscribed (None: nothing is looked at).
        """
        self._destinations = destinations
        self._pool = pool
        self._table = table
        self._remember = remember
        self._clock = clock
        self._answers: dict[tuple[str, ...], _Answer] = {}
        self._changes = 0  # of own subscriptions
        self._asking: set[asyncio.Task[Addresses]] = set()

    async def of(self, types: tuple[str, ...], ask: Ask | None = None) -> Addresses:
        """Return the queues that get a copy of an event of these types, each once.

        Raises StorageError, and DestinationRefusedError for a table that is no queue, or a stranger's.

        `ask` runs the question in a transaction that is open: its owner waits neither for a connection nor for the
        answer to another. Without, of several who ask the same at once, one asks the database. A failure is not
        remembered.
        """
        addresses = await self._known(topics_of(types), ask)
        if self._destinations is not None and not all(map(self._destinations.knows, addresses)):
            await self._look(self._destinations, addresses, ask)
        return addresses

    async def _known(self, topics: tuple[str, ...], ask: Ask | None) -> Addresses:
        """Return the queues that subscribe to any of these topics."""
        answer = self._answers.get(topics)
        if ask is not None and (answer is None or not answer.task.done() or self._is_stale(answer)):
            return await self._ask_on(ask, topics)
        if answer is None or self._is_stale(answer):
            answer = self._ask(topics)
        return answer.task.result() if answer.task.done() else await asyncio.shield(answer.task)

    async def subscribe(self, endpoint: str, topics: Sequence[str], queue: QueueAddress) -> int:
        """Have an endpoint's copies go to a queue, in a transaction of its own; say for how many topics that is news.

        Raises ConfigurationError for what does not fit the table, StorageError.
        """
        check_subscription(endpoint, topics, queue)
        if not topics:
            return 0
        try:
            async with self._pool.session() as session:
                return await session.run(self._table.subscribe(endpoint, topics, queue))
        finally:
            self._forget(topics)

    async def unsubscribe(self, endpoint: str, topics: Sequence[str]) -> list[str]:
        """End subscriptions of an endpoint, in a transaction of its own, and return those it had."""
        try:
            async with self._pool.session() as session:
                return await session.run(self._table.unsubscribe(endpoint, topics))
        finally:
            self._forget(topics)

    async def close(self) -> None:
        """Ask no more; those who still wait for an answer are cancelled."""
        tasks = list(self._asking)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._answers.clear()

    def _is_stale(self, answer: _Answer) -> bool:
        return answer.task.done() and self._clock() - answer.asked >= self._remember

    def _ask(self, topics: tuple[str, ...]) -> _Answer:
        """Ask the database in a task of its own, which outlives the caller that asked first."""
        task = asyncio.create_task(self._look_up(topics), name="rowbus subscribers")
        answer = _Answer(self._clock(), task)
        self._make_room()
        self._answers[topics] = answer
        self._asking.add(task)
        task.add_done_callback(lambda done: self._settle(topics, done))
        return answer

    async def _ask_on(self, ask: Ask, topics: tuple[str, ...]) -> Addresses:
        """Ask on a connection of the caller's; what was asked before own subscriptions changed is not remembered."""
        asked, changes = self._clock(), self._changes
        addresses: Addresses = await ask(self._table.subscribers(topics))
        if changes == self._changes:
            settled: asyncio.Future[Addresses] = asyncio.get_running_loop().create_future()
            settled.set_result(addresses)
            self._make_room()
            self._answers[topics] = _Answer(asked, settled)
        return addresses

    async def _look_up(self, topics: tuple[str, ...]) -> Addresses:
        async with self._pool.session() as session:
            return await session.run(self._table.subscribers(topics))

    async def _look(self, destinations: Destinations, addresses: Addresses, ask: Ask | None) -> None:
        """Look at queues that subscribed; on a connection of the pool's, unless the caller has one."""
        if ask is None:
            async with self._pool.session() as session:
                await self._look(destinations, addresses, session.run)
            return
        with suppress(QueueNotFoundError):  # the send says so, and what to do
            await answer_steps(ask, destinations.look(*addresses))

    def _settle(self, topics: tuple[str, ...], task: asyncio.Task[Addresses]) -> None:
        """Forget an answer that is none: cancelled, or failed (which those who wait for it are told)."""
        self._asking.discard(task)
        failed = task.cancelled() or task.exception() is not None
        known = self._answers.get(topics)
        if failed and known is not None and known.task is task:
            del self._answers[topics]

    def _make_room(self) -> None:
        if len(self._answers) >= MOST_REMEMBERED:
            self._answers = {
                topics: answer for topics, answer in self._answers.items() if not answer.task.done()
            }

    def _forget(self, changed: Sequence[str]) -> None:
        """Forget what was asked before own subscriptions changed."""
        self._changes += 1
        for topics in [topics for topics in self._answers if not set(topics).isdisjoint(changed)]:
            del self._answers[topics]


def existing_queues(
    session: Session, catalog: Catalog, table: QueueAddress, subscriptions: Iterable[TopicSubscription]
) -> set[str]:
    """Return those of the addresses in a table of subscriptions, as they are written, whose tables exist."""
    queues = {
        one.queue: address for one in subscriptions if (address := _meant(table, one.queue)) is not None
    }
    found = session.run(catalog.find_queues(set(queues.values())))
    tables = {shape.address for shape in found}
    return {text for text, address in queues.items() if address in tables}


def _meant(table: QueueAddress, text: str) -> QueueAddress | None:
    try:
        return table.neighbour(text)
    except InvalidAddressError:
        return None
