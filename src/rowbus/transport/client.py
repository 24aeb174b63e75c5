"""Clients: sending and publishing on a connection of the user's own, in the user's own transaction.

`Inserts` are the statements by which messages leave, of clients and of others that run them.

Invariants: nothing is committed or rolled back here: a message exists when the caller's transaction commits. (In
autocommit mode each call is its own transaction.) `Inserts` do no I/O: their sender runs them, in the transaction that
it chooses.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from datetime import timedelta
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple, Unpack

from rowbus.database.backends import borrow, borrow_async
from rowbus.database.statements import BlockingSession, UserSession, run_as_one, run_now
from rowbus.errors import ConfigurationError
from rowbus.messages.address import DEFAULT_DELAYED_SUFFIX, Addresses, QueueAddress, address_of
from rowbus.messages.bodies.serializer import Serializer
from rowbus.messages.dispatch import AnySend, DelayedSend, Multicast, Send
from rowbus.messages.headers import Identity
from rowbus.messages.message_types import DEFAULT
from rowbus.messages.mutators import Mutator, bound_mutators, checked_mutator
from rowbus.messages.outgoing import Due, Options, Origin, UniqueMessageId
from rowbus.settings import LARGEST_MESSAGE
from rowbus.transport.claims.claim_check import ClaimCheck
from rowbus.transport.claims.table import claimed_values, keeping
from rowbus.transport.composition import Composer, Destination, identity_of
from rowbus.transport.delayed.table import delayed_table
from rowbus.transport.long_work.table import WorkStatus, work_status
from rowbus.transport.pubsub.publication import Publication, publish, topics_of
from rowbus.transport.pubsub.table import subscription_routing
from rowbus.transport.queues.installer import create_missing
from rowbus.transport.queues.table import destination_table
from rowbus.transport.send_verbs import AsyncSendVerbs, SendOptions, SendVerbs, Verbs, asked, options_of
from rowbus.transport.uniqueness.sending import leave_once
from rowbus.transport.uniqueness.table import UniqueSend, unique_address, unique_table

if TYPE_CHECKING:
    from rowbus.database.statements import Query, Row, Statement
    from rowbus.transport.composition import Incoming
    from rowbus.transport.delayed.table import DelayedTable
    from rowbus.transport.pubsub.table import SubscriptionRouting
    from rowbus.transport.queues.table import MessageTable, RecordTable


class Inserts:
    """Puts messages into the queues of one database, and into the tables where delayed ones wait."""

    def __init__(
        self,
        subscriptions: QueueAddress,
        *,
        delay_through: QueueAddress | None = None,
        notify: bool = True,
    ) -> None:
        """Look for subscribers in a table; have delayed messages wait in another, or in their destination's own."""
        self.subscriptions = subscriptions
        self._delay_through = delay_through
        self.notify = notify

    @cached_property
    def _routing(self) -> SubscriptionRouting:
        """The table of subscriptions; most clients are made for a transaction, and never ask."""
        return subscription_routing(self.subscriptions)

    def of(self, send: AnySend) -> list[Statement[None]]:
        """Return the statements that send a message, or store it until it is due, with the values that it keeps."""
        destination, message = send[:2]
        if isinstance(send, Send):
            sending = destination_table(destination).send(message, notify=self.notify)
            return [*keeping(message), sending] if message.kept else [sending]
        waiting = message.bound_for(destination_table(destination).address)
        storing = self._delayed_table(destination).store(waiting, send.due, notify=self.notify)
        return [*keeping(message, send.due), storing]

    def publication(self, event: Multicast) -> Publication:
        """Return an event as it goes to its subscribers, with the question who they are."""
        subscribers = self._routing.subscribers(topics_of(event.types))
        return Publication(
            event.message, keeping(event.message), self.subscriptions, subscribers, notify=self.notify
        )

    def cancelling(self, destination: QueueAddress, message_id: str) -> Statement[int]:
        """Return the statement that cancels a message for a queue where it waits until it is due."""
        return self._delayed_table(destination).cancel(message_id)

    def bulk(self, destination: QueueAddress, due: Due, time_to_be_received: timedelta | None) -> Bulk:
        """Return how many messages are sent by COPY, or stored until they are due."""
        if due is None:
            table = destination_table(destination)
            moment = table.expiry(time_to_be_received)
            return Bulk(moment, table.copy, table.copy_rows, table.notify() if self.notify else ())
        delayed = self._delayed_table(destination)
        return Bulk(
            delayed.due(due),
            delayed.copy,
            delayed.copy_rows,
            delayed.notify() if self.notify else (),
            forward_to=destination,
        )

    def tables(
        self, destination: QueueAddress, due: Due, mutators: Iterable[Mutator]
    ) -> Iterator[MessageTable | RecordTable]:
        """Give the tables that a message needs: its queue, where it waits if delayed, and where its values are."""
        yield destination_table(destination)
        if due is not None:
            yield self._delayed_table(destination)
        for mutator in mutators:
            if isinstance(mutator, ClaimCheck) and mutator.address is not None:
                yield claimed_values(mutator.address)

    def refuse_elsewhere(self, unique: UniqueSend) -> None:
        """Raise ConfigurationError for a delayed unique message that would wait apart from others of its value."""
        if self._delay_through is not None and not isinstance(unique.send, Send):
            raise ConfigurationError(
                f"A delayed message for {unique.send.destination} is unique where its queue's other delayed messages "
                "wait: send it by a client without delay_through."
            )

    def _delayed_table(self, destination: QueueAddress) -> DelayedTable:
        """Return where a message for a queue waits: in the table of the endpoint named, else in the destination's."""
        return delayed_table(self._delay_through or destination.satellite(DEFAULT_DELAYED_SUFFIX))


class Bulk(NamedTuple):
    """Many messages by COPY: what to ask the clock first, what to copy into, how rows are made, whom to wake."""

    moment: Statement[Any]
    copy: Query
    rows: Callable[[Iterable[tuple[str, bytes]], Any], Iterator[Row]]
    notify: Sequence[Statement[None]]
    forward_to: QueueAddress | None = None
    """The destination, if the messages are delayed."""


class CountedMessages:
    """Knows how many messages it gave."""

    def __init__(self) -> None:
        self.count = 0

    def of(self, items: Iterable[tuple[str, bytes]]) -> Iterator[tuple[str, bytes]]:
        """Give these, counted."""
        for item in items:
            self.count += 1
            yield item


class ConnectionVerbs(Verbs):
    """The verbs of both clients: they insert messages on a connection of the user's."""

    _alone: AbstractAsyncContextManager[object] = nullcontext()
    """A turn, which a verb takes where several tasks may use the connection."""

    def __init__(  # noqa: PLR0913 - what both clients are given
        self,
        addresses: Addresses,
        sender: Identity,
        reply_to: Destination | None,
        subscription_table: Destination,
        *,
        delay_through: str | None,
        notify: bool,
        serializer: Serializer,
        mutators: Sequence[Mutator],
        create_missing: bool,
    ) -> None:
        replies = None if reply_to is None else address_of(reply_to, addresses).canonical
        bound = mutators and bound_mutators(map(checked_mutator, mutators), addresses, LARGEST_MESSAGE)
        self._composer = Composer(addresses, Origin(sender, replies), serializer=serializer, mutators=bound)
        self._inserts = Inserts(
            self._composer.address(subscription_table),
            delay_through=None if delay_through is None else _delayed_queue(delay_through, addresses),
            notify=notify,
        )
        self._create_missing = create_missing

    @abstractmethod
    async def _session(self) -> UserSession:
        """Return a session on the connection, for one use."""

    def _composing(self) -> tuple[Composer, Incoming]:
        return self._composer, None

    async def _leave(self, send: AnySend, *, immediate: bool) -> None:
        if immediate:
            raise _not_now()
        async with self._alone:
            session = await self._session()
            if self._create_missing:
                due = send.due if isinstance(send, DelayedSend) else None
                await self._create(session, send.destination, due)
            await run_as_one(session, self._inserts.of(send))

    async def _leave_once(self, unique: UniqueSend, *, immediate: bool) -> UniqueMessageId:
        if immediate:
            raise _not_now()
        self._inserts.refuse_elsewhere(unique)
        async with self._alone:
            session, destination = await self._session(), unique.send.destination
            if self._create_missing:
                await self._create(session, destination, timedelta())
                await create_missing(session, [unique_table(unique_address(destination))])
            return await leave_once(session, unique, notify=self._inserts.notify)

    async def _leave_to_all(self, event: Multicast, *, immediate: bool) -> None:
        if immediate:
            raise _not_now()
        async with self._alone:
            await publish(await self._session(), self._inserts.publication(event))

    async def _send_many(self, destination: Destination, messages: Iterable[object], options: Options) -> int:
        if options.immediate:
            raise _not_now()
        address, counted = self._composer.address(destination), CountedMessages()
        messages, options = self._composer.lasting(messages, options)
        bulk = self._inserts.bulk(address, options.due, options.time_to_be_received)
        async with self._alone:
            session = await self._session()
            if self._create_missing:
                await self._create(session, address, options.due)
            async with session.transaction():
                moment = await session.run(bulk.moment)
                for batch in self._composer.batches(address, messages, options, bulk.forward_to):
                    await session.run_all(batch.kept)
                    await session.copy(bulk.copy, bulk.rows(counted.of(batch.texts), moment))
                await session.run_all(bulk.notify)
        return counted.count

    async def _cancel(self, destination: Destination, message_id: str) -> bool:
        session = await self._session()
        return (
            await session.run(self._inserts.cancelling(self._composer.address(destination), message_id)) > 0
        )

    async def _status(self, destination: Destination, message_id: str) -> WorkStatus | None:
        question = work_status(self._composer.address(destination), message_id)
        return await (await self._session()).run(question)

    async def _create(self, session: UserSession, destination: QueueAddress, due: Due) -> None:
        """Create the tables that a message needs, where they are missing."""
        await create_missing(session, self._inserts.tables(destination, due, self._composer.mutators))


class Client(ConnectionVerbs, SendVerbs):
    """Sends messages on your synchronous connection: psycopg's, or SQLAlchemy's over psycopg.

    ```python
    with psycopg.connect(dsn) as connection, connection.transaction():
        rowbus.Client(connection).send("Sales", PlaceOrder("42", 9.5))
    ```
    """

    def __init__(  # noqa: PLR0913 - options, each by keyword
        self,
        connection: object,
        *,
        schema: str | None = None,
        reply_to: Destination | None = None,
        subscription_table: Destination = "SubscriptionRouting",
        delay_through: str | None = None,
        notify: bool = True,
        serializer: Serializer = DEFAULT,
        endpoint: str | None = None,
        machine: str | None = None,
        host_id: str | None = None,
        mutators: Sequence[Mutator] = (),
        create_missing: bool = False,
    ) -> None:
        """Use a connection, which stays yours.

        `schema` is that of queues given by name alone, None the database's default; `reply_to` is where handlers'
        replies go; `subscription_table` is where `publish` looks for subscribers; `delay_through` is the endpoint in
        whose table delayed messages wait (None: in the destination's own); `notify` wakes receivers when your
        transaction commits; `serializer` writes the bodies. Headers say who sends: `endpoint` (None: the name of the
        program), `machine` (None: this one's name) and `host_id`, a UUID (None: made of machine and program).
        `mutators` change what is sent, in their order. Raises ConfigurationError for connections of other libraries,
        for a host id that is no UUID and for what is no mutator.

        With `create_missing`, `send` and `send_many` create a destination's queue, and the table in which a delayed
        message waits, in your transaction, if they are missing: for endpoints that were never started. That takes the
        right to create tables in the schema, and one more question to the server for each call; two transactions that
        create one table wait for each other. A misspelt name then makes a queue without a receiver. `send` then also
        raises PermissionDeniedError when a table is missing and may not be created, and ConfigurationError when its
        schema is; your transaction stays usable.
        """
        borrowed = borrow(connection, schema)
        super().__init__(
            borrowed.addresses,
            identity_of(endpoint, machine, host_id),
            reply_to,
            subscription_table,
            delay_through=delay_through,
            notify=notify,
            serializer=serializer,
            mutators=mutators,
            create_missing=create_missing,
        )
        self._borrowed = borrowed.session

    def cancel(self, destination: Destination, message_id: str) -> bool:
        """Cancel a delayed message in your transaction, by the id that `send` returned; say whether it still waited.

        `destination` is that of the send: the message waits in its table, or in that of `delay_through`. To change a
        message, cancel it and, if it still waited, send another in the same transaction. Reads the whole table; waits
        for a mover that is moving the message: then it is not cancelled. Raises QueueNotFoundError when there is no
        such table, StorageError, InvalidAddressError.
        """
        return run_now(self._cancel(destination, message_id))

    def status(self, destination: Destination, message_id: str) -> WorkStatus | None:
        """Say how far a handler that takes long is with a message, by the id that `send` returned.

        `destination` is that of the send, or the endpoint's name where its queue is called otherwise. None: the message
        still waits in its queue, is done, or has failed for good. Needs no right but to read the endpoint's table of
        running work. Raises StorageError, for a missing table, too (no handler of the endpoint takes long, or it never
        started), ConfigurationError on SQL Server, InvalidAddressError.
        """
        return run_now(self._status(destination, message_id))

    @options_of(SendOptions)
    def send_many(
        self, destination: Destination, messages: Iterable[object], **options: Unpack[SendOptions]
    ) -> int:
        """Send many messages by COPY, all or none, in your transaction; return how many.

        `messages` may be a generator, which may use the connection: they are streamed. TimeSent is when the first of
        its type was made. Raises as `send`.
        """
        return run_now(self._send_many(destination, messages, asked(SendOptions, options)))

    async def _session(self) -> UserSession:
        return BlockingSession(self._borrowed())


class AsyncClient(ConnectionVerbs, AsyncSendVerbs):
    """The asynchronous twin of `Client`, for psycopg's and SQLAlchemy's asynchronous connections."""

    def __init__(  # noqa: PLR0913 - options, each by keyword
        self,
        connection: object,
        *,
        schema: str | None = None,
        reply_to: Destination | None = None,
        subscription_table: Destination = "SubscriptionRouting",
        delay_through: str | None = None,
        notify: bool = True,
        serializer: Serializer = DEFAULT,
        endpoint: str | None = None,
        machine: str | None = None,
        host_id: str | None = None,
        mutators: Sequence[Mutator] = (),
        create_missing: bool = False,
    ) -> None:
        """Use a connection, which stays yours, also by several tasks at a time; see `Client`."""
        borrowed = borrow_async(connection, schema)
        super().__init__(
            borrowed.addresses,
            identity_of(endpoint, machine, host_id),
            reply_to,
            subscription_table,
            delay_through=delay_through,
            notify=notify,
            serializer=serializer,
            mutators=mutators,
            create_missing=create_missing,
        )
        self._borrowed, self._alone = borrowed.session, borrowed.alone

    async def cancel(self, destination: Destination, message_id: str) -> bool:
        """Cancel a delayed message in your transaction; say whether it still waited. See `Client.cancel`."""
        return await self._cancel(destination, message_id)

    async def status(self, destination: Destination, message_id: str) -> WorkStatus | None:
        """Say how far a handler that takes long is with a message. See `Client.status`."""
        return await self._status(destination, message_id)

    @options_of(SendOptions)
    async def send_many(
        self, destination: Destination, messages: Iterable[object], **options: Unpack[SendOptions]
    ) -> int:
        """Send many messages by COPY, all or none, in your transaction; return how many. See `Client.send_many`."""
        return await self._send_many(destination, messages, asked(SendOptions, options))

    async def _session(self) -> UserSession:
        return await self._borrowed()


def _not_now() -> ConfigurationError:
    return ConfigurationError(
        "What a client sends is there when your transaction commits: for `immediate`, give a client a connection "
        "of its own in autocommit mode."
    )


def _delayed_queue(endpoint: str, addresses: Addresses) -> QueueAddress:
    return addresses.for_endpoint(endpoint, qualifier=DEFAULT_DELAYED_SUFFIX)
