"""Sending and publishing on a connection of the user's own, in the user's own transaction.

Invariant: nothing is committed or rolled back here: a message exists when the caller's transaction commits. (In
autocommit mode each call is its own transaction.)
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from rowbus.database.postgresql.borrowed import borrow, borrow_async
from rowbus.messages import refuse_command, serialize
from rowbus.model.address import QueueAddress
from rowbus.model.headers import Header
from rowbus.model.identifiers import new_message_id, new_message_ids
from rowbus.model.outgoing import Content, HeaderText, Options, Origin, compose
from rowbus.model.subscription import topics_of
from rowbus.tables.queue import QueueTable, copy_rows
from rowbus.tables.subscription_routing import SubscriptionRouting

if TYPE_CHECKING:
    from rowbus.database.statements import Statement
    from rowbus.model.message import OutgoingMessage

Destination = str | QueueAddress


class _Composer:
    """What both clients share: making messages, finding queues."""

    def __init__(
        self, schema: str, reply_to: Destination | None, subscription_table: Destination, *, notify: bool
    ) -> None:
        self._schema = schema
        self._routing = SubscriptionRouting(self._address(subscription_table))
        self._origin = Origin(None, None if reply_to is None else self._address(reply_to).canonical)
        self._notify = notify
        self._tables: dict[Destination, QueueTable] = {}

    def _address(self, destination: Destination) -> QueueAddress:
        if isinstance(destination, QueueAddress):
            return destination
        address = QueueAddress.from_user(destination, self._schema)
        address.validate()
        return address

    def _table(self, destination: Destination) -> QueueTable:
        table = self._tables.get(destination)
        if table is None:
            table = self._tables[destination] = QueueTable(self._address(destination))
        return table

    def _message(self, message: object, type: str | None, options: Options) -> OutgoingMessage:
        content = serialize(message, types=(type,) if type else ())
        return self._compose(content, new_message_id(), options)

    def _event(
        self, event: object, type: str | tuple[str, ...] | None, options: Options
    ) -> tuple[OutgoingMessage, Statement[tuple[QueueAddress, ...]]]:
        """Return an event's message, and the question who subscribes to it."""
        refuse_command(event)
        content = serialize(event, types=(type,) if isinstance(type, str) else type or ())
        outgoing = self._compose(content, new_message_id(), options, intent="Publish")
        return outgoing, self._routing.subscribers(topics_of(content.types))

    def _compose(
        self, content: Content, message_id: str, options: Options, *, intent: str = "Send"
    ) -> OutgoingMessage:
        now = datetime.now(UTC)
        return compose(
            content, intent=intent, message_id=message_id, now=now, origin=self._origin, options=options
        )

    def _texts(
        self, messages: Iterable[object], type: str | None, options: Options
    ) -> Iterator[tuple[str, bytes]]:
        """Give the header text and body of each message; those of one type share all headers but the id."""
        types = (type,) if type else ()
        shared: dict[tuple[str, ...], HeaderText] = {}
        for message_id, message in zip(new_message_ids(), messages, strict=False):  # the ids never end
            content = serialize(message, types=types)
            key = (content.content_type, *content.types)
            text = shared.get(key)
            if text is None:
                text = shared[key] = HeaderText(self._compose(content, HeaderText.PLACEHOLDER, options))
            yield text.with_id(message_id), content.body


class Client(_Composer):
    """Sends messages on your synchronous connection: psycopg's, or SQLAlchemy's over psycopg.

    ```python
    with psycopg.connect(dsn) as connection, connection.transaction():
        rowbus.Client(connection).send("Sales", PlaceOrder("42", 9.5))
    ```
    """

    def __init__(
        self,
        connection: object,
        *,
        schema: str = "public",
        reply_to: Destination | None = None,
        subscription_table: Destination = "SubscriptionRouting",
        notify: bool = True,
    ) -> None:
        """Use a connection, which stays yours.

        `schema` is that of queues given by name alone; `reply_to` is where handlers' replies go; `subscription_table`
        is where `publish` looks for subscribers; `notify` wakes receivers when your transaction commits. Raises
        ConfigurationError for connections of other libraries.
        """
        super().__init__(schema, reply_to, subscription_table, notify=notify)
        self._borrowed = borrow(connection)

    def send(
        self,
        destination: Destination,
        message: object,
        *,
        type: str | None = None,
        headers: Mapping[str, str] | None = None,
        time_to_be_received: timedelta | None = None,
    ) -> str:
        """Send one message in your transaction and return its message id.

        `type` names dicts and bytes on the wire. Never waits for receivers. Raises QueueNotFoundError, StorageError,
        InvalidAddressError, MessageSerializationError, InvalidHeaderError; after a StorageError your transaction is
        spoilt, as after any error of the database.
        """
        outgoing = self._message(message, type, Options(headers, time_to_be_received))
        self._borrowed().run(self._table(destination).send(outgoing, notify=self._notify))
        return outgoing.headers[Header.MESSAGE_ID] or ""

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
        transaction, each time. That nobody does is no error. `type` names dicts and bytes; a tuple also gives their
        parents, most concrete first. Raises as `send`, and MessageSerializationError for a command.
        """
        outgoing, subscribers = self._event(event, type, Options(headers, time_to_be_received))
        session = self._borrowed()
        with session.transaction():
            for address in session.run(subscribers):
                session.run(self._table(address).send(outgoing, notify=self._notify))
        return outgoing.headers[Header.MESSAGE_ID] or ""

    def send_many(
        self,
        destination: Destination,
        messages: Iterable[object],
        *,
        type: str | None = None,
        headers: Mapping[str, str] | None = None,
        time_to_be_received: timedelta | None = None,
    ) -> int:
        """Send many messages by COPY, all or none, in your transaction; return how many.

        `messages` may be a generator: they are streamed. TimeSent is when the first of its type was made. Raises as
        `send`.
        """
        table = self._table(destination)
        counted = _Counted(self._texts(messages, type, Options(headers, time_to_be_received)))
        session = self._borrowed()
        with session.transaction():
            expires = session.run(table.expiry(time_to_be_received))
            session.copy(table.copy, copy_rows(counted, expires))
            if self._notify:
                session.run(table.notify())
        return counted.count


class AsyncClient(_Composer):
    """The asynchronous twin of `Client`, for psycopg's and SQLAlchemy's asynchronous connections."""

    def __init__(
        self,
        connection: object,
        *,
        schema: str = "public",
        reply_to: Destination | None = None,
        subscription_table: Destination = "SubscriptionRouting",
        notify: bool = True,
    ) -> None:
        """Use a connection, which stays yours; see `Client`."""
        super().__init__(schema, reply_to, subscription_table, notify=notify)
        self._borrowed = borrow_async(connection)

    async def send(
        self,
        destination: Destination,
        message: object,
        *,
        type: str | None = None,
        headers: Mapping[str, str] | None = None,
        time_to_be_received: timedelta | None = None,
    ) -> str:
        """Send one message in your transaction and return its message id; see `Client.send`."""
        outgoing = self._message(message, type, Options(headers, time_to_be_received))
        session = await self._borrowed()
        await session.run(self._table(destination).send(outgoing, notify=self._notify))
        return outgoing.headers[Header.MESSAGE_ID] or ""

    async def publish(
        self,
        event: object,
        *,
        type: str | tuple[str, ...] | None = None,
        headers: Mapping[str, str] | None = None,
        time_to_be_received: timedelta | None = None,
    ) -> str:
        """Publish an event in your transaction and return its message id; see `Client.publish`."""
        outgoing, subscribers = self._event(event, type, Options(headers, time_to_be_received))
        session = await self._borrowed()
        async with session.transaction():
            for address in await session.run(subscribers):
                await session.run(self._table(address).send(outgoing, notify=self._notify))
        return outgoing.headers[Header.MESSAGE_ID] or ""

    async def send_many(
        self,
        destination: Destination,
        messages: Iterable[object],
        *,
        type: str | None = None,
        headers: Mapping[str, str] | None = None,
        time_to_be_received: timedelta | None = None,
    ) -> int:
        """Send many messages by COPY, all or none, in your transaction; return how many. See `Client.send_many`."""
        table = self._table(destination)
        counted = _Counted(self._texts(messages, type, Options(headers, time_to_be_received)))
        session = await self._borrowed()
        async with session.transaction():
            expires = await session.run(table.expiry(time_to_be_received))
            await session.copy(table.copy, copy_rows(counted, expires))
            if self._notify:
                await session.run(table.notify())
        return counted.count


class _Counted:
    """An iterable that knows how many it gave."""

    def __init__(self, items: Iterable[tuple[str, bytes]]) -> None:
        self._items = items
        self.count = 0

    def __iter__(self) -> Iterator[tuple[str, bytes]]:
        for item in self._items:
            self.count += 1
            yield item
