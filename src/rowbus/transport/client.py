"""Sending and publishing on a connection of the user's own, in the user's own transaction.

Invariant: nothing is committed or rolled back here: a message exists when the caller's transaction commits. (In
autocommit mode each call is its own transaction.)
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta

from rowbus.database.backends import borrow, borrow_async
from rowbus.database.steps import run_together, run_together_now
from rowbus.messages.address import DEFAULT_DELAYED_SUFFIX, QueueAddress
from rowbus.messages.addresses import Addresses, address_of
from rowbus.messages.bodies.serializer import Serializer
from rowbus.messages.identity import Identity
from rowbus.messages.message_types import DEFAULT
from rowbus.messages.mutators import Mutator, bound_mutators, checked_mutators
from rowbus.messages.outgoing import Options, Origin
from rowbus.transport.composition import Composer, Destination, identity_of
from rowbus.transport.inserts import CountedMessages, Inserts
from rowbus.transport.pubsub.publication import publish, publish_now
from rowbus.transport.queues.missing import create_missing, create_missing_now
from rowbus.transport.queues.table import MessageTable, RecordTable


class ConnectionVerbs:
    """What both clients are made of: messages are made, and inserted on a connection of the user's."""

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
        bound = bound_mutators(checked_mutators(mutators), addresses)
        self._composer = Composer(addresses, Origin(sender, replies), serializer=serializer, mutators=bound)
        self._inserts = Inserts(
            self._composer.address(subscription_table),
            delay_through=None if delay_through is None else _delayed_queue(delay_through, addresses),
            notify=notify,
        )
        self._create_missing = create_missing

    def _missing(self, destination: QueueAddress, options: Options) -> Iterable[MessageTable | RecordTable]:
        """Return the tables that a message needs, if they are to be created."""
        if not self._create_missing:
            return ()
        return self._inserts.tables(destination, options.due, self._composer.mutators)


class Client(ConnectionVerbs):
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
        create one table wait for each other. A misspelt name then makes a queue without a receiver.
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

    def send(
        self,
        destination: Destination,
        message: object,
        *,
        type: str | None = None,
        headers: Mapping[str, str] | None = None,
        time_to_be_received: timedelta | None = None,
        delay: timedelta | None = None,
        deliver_at: datetime | None = None,
    ) -> str:
        """Send one message in your transaction and return its message id.

        `type` names dicts and bytes on the wire. With `delay`, counted from now by the database's clock, or
        `deliver_at`, an aware datetime, the message waits until then, in the table of delayed messages of the
        destination or of the endpoint `delay_through`: that endpoint must run then, or `rowbus delayed move` for it.
        Never waits for receivers. Raises QueueNotFoundError (also when there is no such table), StorageError,
        InvalidAddressError, MessageSerializationError, InvalidHeaderError; after a StorageError your transaction is
        spoilt, as after any error of the database. With `create_missing`: PermissionDeniedError when a table is missing
        and may not be created, ConfigurationError when its schema is; your transaction stays usable then.
        """
        options = Options(headers, time_to_be_received, delay=delay, deliver_at=deliver_at, type=type)
        send = self._composer.send(destination, message, options)
        session = self._borrowed()
        create_missing_now(session, self._missing(send.destination, options))
        run_together_now(session, self._inserts.of(send))
        return send.message.message_id

    def cancel(self, destination: Destination, message_id: str) -> bool:
        """Cancel a delayed message in your transaction, by the id that `send` returned; say whether it still waited.

        `destination` is that of the send: the message waits in its table, or in that of `delay_through`. To change a
        message, cancel it and, if it still waited, send another in the same transaction. Reads the whole table; waits
        for a mover that is moving the message: then it is not cancelled. Raises QueueNotFoundError when there is no
        such table, StorageError, InvalidAddressError.
        """
        return (
            self._borrowed().run(self._inserts.cancelling(self._composer.address(destination), message_id))
            > 0
        )

    def publish(
        self,
        event: object,
        *,
        type: str | tuple[str, ...] | None = None,
        headers: Mapping[str, str] | None = None,
        time_to_be_received: timedelta | None = None,
    ) -> str:
        """Publish an event in your transaction and return its message id.

        Each endpoint that subscribes to it, or to a parent, gets a copy, all or none; who does is asked in your
        transaction, each time. An event without subscribers is no error. `type` names dicts and bytes; a tuple also
        gives their parents, most concrete first. Raises as `send`, and MessageSerializationError for a command.
        """
        published = self._composer.event(event, Options(headers, time_to_be_received, type=type))
        publication = self._inserts.publication(published)
        publish_now(self._borrowed(), publication)
        return publication.message_id

    def send_many(
        self,
        destination: Destination,
        messages: Iterable[object],
        *,
        type: str | None = None,
        headers: Mapping[str, str] | None = None,
        time_to_be_received: timedelta | None = None,
        delay: timedelta | None = None,
        deliver_at: datetime | None = None,
    ) -> int:
        """Send many messages by COPY, all or none, in your transaction; return how many.

        `messages` may be a generator: they are streamed. TimeSent is when the first of its type was made. Raises as
        `send`.
        """
        options = Options(headers, time_to_be_received, delay=delay, deliver_at=deliver_at, type=type)
        address, counted = self._composer.address(destination), CountedMessages()
        bulk = self._inserts.bulk(address, options.due, time_to_be_received)
        session = self._borrowed()
        create_missing_now(session, self._missing(address, options))
        with session.transaction():
            moment = session.run(bulk.moment)
            for batch in self._composer.batches(messages, options, bulk.forward_to):
                session.run_all(batch.kept)
                session.copy(bulk.copy, bulk.rows(counted.of(batch.texts), moment))
            session.run_all(bulk.notify)
        return counted.count


class AsyncClient(ConnectionVerbs):
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
        """Use a connection, which stays yours; see `Client`."""
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
        self._borrowed = borrowed.session

    async def send(
        self,
        destination: Destination,
        message: object,
        *,
        type: str | None = None,
        headers: Mapping[str, str] | None = None,
        time_to_be_received: timedelta | None = None,
        delay: timedelta | None = None,
        deliver_at: datetime | None = None,
    ) -> str:
        """Send one message in your transaction and return its message id; see `Client.send`."""
        options = Options(headers, time_to_be_received, delay=delay, deliver_at=deliver_at, type=type)
        send = self._composer.send(destination, message, options)
        session = await self._borrowed()
        await create_missing(session, self._missing(send.destination, options))
        await run_together(session, self._inserts.of(send))
        return send.message.message_id

    async def cancel(self, destination: Destination, message_id: str) -> bool:
        """Cancel a delayed message in your transaction; say whether it still waited. See `Client.cancel`."""
        session = await self._borrowed()
        return (
            await session.run(self._inserts.cancelling(self._composer.address(destination), message_id)) > 0
        )

    async def publish(
        self,
        event: object,
        *,
        type: str | tuple[str, ...] | None = None,
        headers: Mapping[str, str] | None = None,
        time_to_be_received: timedelta | None = None,
    ) -> str:
        """Publish an event in your transaction and return its message id; see `Client.publish`."""
        published = self._composer.event(event, Options(headers, time_to_be_received, type=type))
        publication = self._inserts.publication(published)
        await publish(await self._borrowed(), publication)
        return publication.message_id

    async def send_many(
        self,
        destination: Destination,
        messages: Iterable[object],
        *,
        type: str | None = None,
        headers: Mapping[str, str] | None = None,
        time_to_be_received: timedelta | None = None,
        delay: timedelta | None = None,
        deliver_at: datetime | None = None,
    ) -> int:
        """Send many messages by COPY, all or none, in your transaction; return how many. See `Client.send_many`."""
        options = Options(headers, time_to_be_received, delay=delay, deliver_at=deliver_at, type=type)
        address, counted = self._composer.address(destination), CountedMessages()
        bulk = self._inserts.bulk(address, options.due, time_to_be_received)
        session = await self._borrowed()
        await create_missing(session, self._missing(address, options))
        async with session.transaction():
            moment = await session.run(bulk.moment)
            for batch in self._composer.batches(messages, options, bulk.forward_to):
                await session.run_all(batch.kept)
                await session.copy(bulk.copy, bulk.rows(counted.of(batch.texts), moment))
            await session.run_all(bulk.notify)
        return counted.count


def _delayed_queue(endpoint: str, addresses: Addresses) -> QueueAddress:
    return addresses.for_endpoint(endpoint, qualifier=DEFAULT_DELAYED_SUFFIX)
