"""Subscriptions to topics, and an event on its way to its subscribers, each of which gets a copy.

A topic is a type's name on the wire. A publisher looks for the subscribers of an event's own type and of all its
parents; a subscriber is written down under exactly the types it asked for.

Where the database can, one statement sends many copies. It fails as a whole, and cannot say because of which queue; so
the copies are then sent one by one, and that fails with the name of the queue, and what to do. Or it succeeds, where
the plan of the one statement was gone, discarded behind the driver's back.

Who may write a subscription names the queue, so it must be one that runs no stranger's code. That is remembered of a
connection: what its role trusts, another's may not.

Invariants: all subscribers get a copy, or none does and the caller's transaction goes on. What does not fit the table
NServiceBus made is refused before any I/O, never cut.
"""

from __future__ import annotations

from contextlib import suppress
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar
from weakref import WeakKeyDictionary

from rowbus.database.statements import answer_steps, no_rows
from rowbus.errors import ConfigurationError, StorageError
from rowbus.transport.queues.destination_rule import ANY_QUEUE, Destinations
from rowbus.transport.queues.table import destination_table

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from rowbus.database.statements import Statement, UserSession
    from rowbus.messages.address import QueueAddress
    from rowbus.messages.message import OutgoingMessage

    Addresses = tuple[QueueAddress, ...]
    Copies = Callable[[Addresses], Sequence[Statement[None]]]

T = TypeVar("T")

LONGEST: Final = 200
"""Characters that fit into each column of the table: varchar(200)."""

EVERY_EVENT: Final = ("NServiceBus.IEvent", "NServiceBus.IMessage", "System.Object")
"""The types that every .NET event has too, so that .NET subscribers may be written down under these names."""

_OF_NO_QUEUE: Final = ("25", "57")  # the transaction had failed before; a user or a timeout cancelled it

_remembered: WeakKeyDictionary[object, dict[QueueAddress, Destinations]] = WeakKeyDictionary()


class TopicSubscription(NamedTuple):
    """One endpoint's subscription to one topic; its copies go to `queue`, a canonical address as it was written."""

    endpoint: str
    topic: str
    queue: str


class Publication(NamedTuple):
    """An event, what keeps its values, the table that says who subscribes to it, and whether receivers are woken."""

    event: OutgoingMessage
    kept: Sequence[Statement[None]]
    subscriptions: QueueAddress
    subscribers: Statement[tuple[QueueAddress, ...]]
    notify: bool

    @property
    def message_id(self) -> str:
        """The id that all copies have."""
        return self.event.message_id

    def together(self, addresses: Sequence[QueueAddress]) -> list[Statement[None]]:
        """Return the statements that send a copy to each of these queues, in as few as the database can."""
        tables = [destination_table(each) for each in addresses]  # raises for names that no queue can have
        together = tables[0].send_together(self.event, addresses, notify=self.notify) if tables else []
        return [*self.kept, *together] if together else self.one_by_one(addresses)

    def one_by_one(self, addresses: Sequence[QueueAddress]) -> list[Statement[None]]:
        """Return a statement for each of these queues, whose failure names it; the last wakes all receivers."""
        if not addresses:
            return []
        first, *others = [destination_table(each) for each in addresses]
        sent = first.send(self.event, notify=False)
        woken = first.notify_all(addresses) if self.notify else ()
        return [*self.kept, sent, *(table.send_copy(sent) for table in others), *woken]


class _UnknownQueue(Exception):  # noqa: N818 - nobody is told
    """A queue subscribes that was not looked at."""


@lru_cache(maxsize=1000)
def topics_of(types: tuple[str, ...]) -> tuple[str, ...]:
    """Return the topics under which subscribers of an event of these types, its own and its parents', may be found."""
    return tuple(dict.fromkeys((*types, *EVERY_EVENT)))


def check_subscription(endpoint: str, topics: Iterable[str], address: QueueAddress) -> None:
    """Raise ConfigurationError if a subscription cannot be written down."""
    _check("The endpoint's name", endpoint)
    _check("The queue's address", address.canonical)
    for topic in topics:
        _check("The type's name", topic)


async def publish(session: UserSession, publication: Publication) -> None:
    """Ask who subscribes and send the copies, in the session's transaction; raises as `Client.publish`."""
    destinations = _destinations_of(session.connection, publication.subscriptions)
    try:
        await _publish(session, publication.subscribers, publication.together, destinations)
    except StorageError as error:
        if not _may_be_a_queues(error):
            raise
        await _publish(session, publication.subscribers, publication.one_by_one, destinations)


def _check(what: str, text: str) -> None:
    if not text or "\0" in text:
        raise ConfigurationError(f"{what} {text!r} cannot be part of a subscription.")
    if len(text) > LONGEST:
        raise ConfigurationError(
            f"{what} {text[:LONGEST]!r}… has {len(text)} characters; the table of subscriptions, which is shared with "
            f"NServiceBus, holds {LONGEST}."
        )


async def _publish(
    session: UserSession, subscribers: Statement[Addresses], copies: Copies, destinations: Destinations
) -> None:
    """Send copies in few round trips, unless one of the queues is yet to be looked at."""

    def known(addresses: Addresses) -> Sequence[Statement[None]]:
        if not all(map(destinations.knows, addresses)):
            raise _UnknownQueue
        return copies(addresses)

    try:
        await session.run(subscribers, then=known)
    except _UnknownQueue:
        async with session.transaction():
            addresses = await _answer(session, subscribers)
            await answer_steps(partial(_answer, session), destinations.look(*addresses, keeps=True))
            await session.run_all(copies(addresses))


async def _answer(session: UserSession, question: Statement[T]) -> T:
    """Ask in a way that the user's pipelines allow."""
    if question.decode is no_rows:
        return await session.run(question)
    return await session.run(question, then=lambda _answered: ())


def _destinations_of(connection: object, subscriptions: QueueAddress) -> Destinations:
    """Return what is known, on a connection of a driver's, of the queues that a table of subscriptions names."""
    known: dict[QueueAddress, Destinations] = {}
    with suppress(TypeError):  # pymssql's and pyodbc's allow no weak references: each publish looks
        known = _remembered.setdefault(connection, known)
    if subscriptions not in known:
        named_by = f"A subscription in {subscriptions}"
        known[subscriptions] = Destinations(ANY_QUEUE, subscriptions, named_by=named_by)
    return known[subscriptions]


def _may_be_a_queues(error: StorageError) -> bool:
    """Say whether the statements of single queues could tell more of an error, or succeed."""
    return not error.transient and not (error.sqlstate or "").startswith(_OF_NO_QUEUE)
