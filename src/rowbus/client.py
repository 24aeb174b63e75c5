"""Sending on a connection of the user's own, in the user's own transaction.

Invariant: nothing is committed or rolled back here: a message exists when the caller's transaction commits. (In
autocommit mode each call is its own transaction.)
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from rowbus.database.postgresql.borrowed import borrow, borrow_async
from rowbus.messages import serialize
from rowbus.model.address import QueueAddress
from rowbus.model.headers import Header
from rowbus.model.identifiers import new_message_id, new_message_ids
from rowbus.model.outgoing import Content, HeaderText, Options, Origin, compose
from rowbus.tables.queue import QueueTable, copy_rows

if TYPE_CHECKING:
    from rowbus.model.message import OutgoingMessage

Destination = str | QueueAddress


class _Composer:
    """What both clients share: making messages, finding queues."""

    def __init__(self, schema: str, reply_to: Destination | None, *, notify: bool) -> None:
        self._schema = schema
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

    def _compose(self, content: Content, message_id: str, options: Options) -> OutgoingMessage:
        now = datetime.now(UTC)
        return compose(
            content, intent="Send", message_id=message_id, now=now, origin=self._origin, options=options
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
        notify: bool = True,
    ) -> None:
        """Use a connection, which stays yours.

        `schema` is that of queues given by name alone; `reply_to` is where handlers' replies go; `notify` wakes
        receivers when your transaction commits. Raises ConfigurationError for connections of other libraries.
        """
        super().__init__(schema, reply_to, notify=notify)
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
        notify: bool = True,
    ) -> None:
        """Use a connection, which stays yours; see `Client`."""
        super().__init__(schema, reply_to, notify=notify)
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
