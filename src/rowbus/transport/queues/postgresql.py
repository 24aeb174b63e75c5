"""A queue: the table its messages wait in, in the exact shape NServiceBus's PostgreSQL transport gives it.

The words of the wire (`expires`, `seq`) stop here and in the `.sql` files. Source: docs/wire-format.md#queue-table.

Invariant: no statement here changes the table's shape but `create_body_string`, which NServiceBus knows too.
"""

from __future__ import annotations

import json
from functools import lru_cache
from itertools import starmap
from operator import attrgetter
from typing import TYPE_CHECKING, Final, NamedTuple

from rowbus.database.locks import receiver_lock
from rowbus.database.statements import (
    Query,
    Statement,
    affected,
    load,
    load_for_each,
    no_rows,
    raw_source,
    scalar,
)
from rowbus.messages.address import QueueAddress
from rowbus.messages.headers import encode_copied_headers
from rowbus.messages.message import MessageRow, PeekedMessage, random_uuid_texts, random_uuids
from rowbus.settings import LARGEST_MESSAGE, LONGEST_HEADERS_READ, LONGEST_READ
from rowbus.transport.queues.lookout import presence
from rowbus.transport.queues.owners import find_owners
from rowbus.transport.queues.shape import QueueColumn, takes_messages
from rowbus.transport.queues.table import OversizedMessage, Place

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from datetime import datetime, timedelta

    from rowbus.database.statements import Row, Rows
    from rowbus.messages.message import OutgoingMessage
    from rowbus.transport.queues.catalog.ownership import Ownership
    from rowbus.transport.queues.table import MovedMessage

_FOLDER = "transport/queues/sql/postgresql"
COPIES_AT_ONCE: Final = 50  # in one statement, for whose plan the server keeps some 16 kB a queue
# Sets of queues that get copies together; a set's statement has at most 40 kB, in two dialects.
SETS_KEPT: Final = 64
_SEQ = attrgetter("seq")


class QueueTable:
    """Statements on one queue; each runs in its runner's transaction and never waits unless it says so."""

    shows_in_flight = True

    def __init__(self, address: QueueAddress) -> None:
        """Bind the SQL files to the queue's table. No I/O."""
        self.address = address
        self._named, self._channel = str(address), address.channel
        self._send = self._load("send", "Failed to send message to")
        self._send_batch = self._load("send_batch", "Failed to send messages to")
        self._receive = self._oldest("receive")
        self._receive_batch = self._oldest("receive_batch")
        # Planned for the queue as it is: see STALE_AFTER in `database.postgresql.roundtrip`.
        self._count_available = self._load("count_available", "Failed to peek", prepare=False)
        self.copy = self._load("copy", "Failed to send messages to")

    def _load(self, operation: str, failing: str, *, prepare: bool = True) -> Query:
        schema, table = self.address.schema, self.address.table
        return load(
            f"{_FOLDER}/{operation}.sql",
            identifiers={"schema": schema, "queue": table, "channel": self._channel},
            literals={"channel": self._channel},
            failing=f"{failing} {self._named}",
            queue=self._named,
            prepare=prepare,
        )

    def _oldest(self, operation: str, *, prepare: bool = True) -> Query:
        return self._load(operation, "Failed to receive from", prepare=prepare)._replace(by_index=True)

    def _once(self, operation: str, failing: str) -> Query:
        return self._load(operation, failing, prepare=False)

    def _each(self, failing: str, *operations: str) -> list[Statement[None]]:
        return [Statement(self._once(operation, failing), {}, no_rows) for operation in operations]

    def send(self, message: OutgoingMessage, *, notify: bool) -> Statement[None]:
        """Put one message in the queue; it exists when the transaction commits."""
        parameters = {
            "headers": encode_copied_headers(message.headers),
            "body": message.body,
            "time_to_be_received": message.time_to_be_received,
            "notify": notify,
        }
        return Statement(self._send, parameters, no_rows)

    def send_copy(self, sent: Statement[None]) -> Statement[None]:
        """Put what `send` puts into another queue in this one."""
        return sent._replace(query=self._send)

    def send_together(
        self, message: OutgoingMessage, addresses: Sequence[QueueAddress], *, notify: bool
    ) -> list[Statement[None]]:
        """Put a copy of a message in each of several queues, and wake their receivers, in few statements.

        A failure does not say of which queue it is.
        """
        parameters = {
            "headers": encode_copied_headers(message.headers),
            "body": message.body,
            "time_to_be_received": message.time_to_be_received,
        }
        parts = range(0, len(addresses), COPIES_AT_ONCE)
        return [
            Statement(copies.query, {**parameters, "channels": copies.channels if notify else []}, no_rows)
            for copies in (_copies(tuple(addresses[at : at + COPIES_AT_ONCE])) for at in parts)
        ]

    def send_batch(self, messages: Sequence[OutgoingMessage], *, notify: bool) -> Statement[None]:
        """Put several messages in the queue, in this order, in one statement."""
        parameters = {
            "ids": random_uuid_texts(len(messages)),
            "headers": [encode_copied_headers(message.headers) for message in messages],
            "bodies": [message.body for message in messages],
            "times_to_be_received": [message.time_to_be_received for message in messages],
            "notify": notify,
        }
        return Statement(self._send_batch, parameters, no_rows)

    def send_all(self, messages: Sequence[OutgoingMessage], *, notify: bool) -> list[Statement[None]]:
        """Put messages in the queue, in this order, in one statement."""
        if len(messages) == 1:
            return [self.send(messages[0], notify=notify)]
        return [self.send_batch(messages, notify=notify)]

    def expiry(self, time_to_be_received: timedelta | None) -> Statement[datetime | None]:
        """Ask the database when a message sent now would expire (None: never), as `copy` wants it."""
        query = self._once("expiry", "Failed to send messages to")
        return Statement(query, {"time_to_be_received": time_to_be_received}, scalar)

    def copy_rows(self, messages: Iterable[tuple[str, bytes]], moment: datetime | None) -> Iterator[Row]:
        """Yield the rows for `copy` from header texts and bodies; ids are random, as in `send`."""
        for row_id, (headers, body) in zip(random_uuids(), messages, strict=False):  # the ids never end
            yield row_id, moment, headers, body

    def notify(self) -> list[Statement[None]]:
        """Wake the queue's receivers when the transaction commits."""
        return self.notify_all([self.address])

    def notify_all(self, addresses: Sequence[QueueAddress]) -> list[Statement[None]]:
        """Wake the receivers of several queues when the transaction commits."""
        query = self._load("notify", "Failed to notify the receivers of")
        return [Statement(query, {"channels": [address.channel for address in addresses]}, no_rows)]

    def receive(
        self,
        most: int,
        lower_bound: int,
        *,
        most_bytes: int = LARGEST_MESSAGE,
        passed_over: Sequence[int] = (),
    ) -> Statement[list[MessageRow]]:
        """Take up to `most` of the oldest messages that are not in flight, oldest first.

        Deletes and so locks them until the transaction ends; passes over what others have locked, never waiting.
        Messages above `most_bytes` count, but are not taken; those at the positions `passed_over` do not exist for it.
        """
        parameters: dict[str, object] = {"lower_bound": lower_bound, "most_bytes": most_bytes}
        if most == 1 and not passed_over:
            return Statement(self._receive, parameters, _rows)
        parameters |= {"batch_size": most, "passed_over": list(passed_over)}
        return Statement(self._receive_batch, parameters, _rows)

    def find_oversized(self, most: int, *, most_bytes: int) -> Statement[list[OversizedMessage]]:
        """Find those above `most_bytes` among the `most` oldest messages. Locks nothing."""
        parameters = {"most": most, "most_bytes": most_bytes, "most_characters": LONGEST_HEADERS_READ}
        return Statement(self._once("find_oversized", "Failed to look into"), parameters, _oversized)

    def move(
        self, messages: Sequence[MovedMessage], to: QueueAddress, *, notify: bool
    ) -> list[Statement[int]]:
        """Move messages to another queue with other headers, in this order, in one statement; it says how many.

        Bodies stay in the database. Passes over messages that are gone or in flight. Raises
        QueueNotFoundError for a missing queue.
        """
        address = self.address
        query = load(
            f"{_FOLDER}/move.sql",
            identifiers={
                "schema": address.schema,
                "queue": address.table,
                "to_schema": to.schema,
                "to_queue": to.table,
            },
            literals={"channel": to.channel},
            failing=f"Failed to move messages from {address} to {to}",
            queue=str(to),
            prepare=False,
        )
        ids, headers = [message.id for message in messages], [message.headers for message in messages]
        return [Statement(query, {"ids": ids, "headers": headers, "notify": notify}, scalar)]

    def requeue(self, row_id: str, place: Place, *, notify: bool) -> Statement[int]:
        """Put the message at a place at the end of its queue, with the header text given; say 1 or 0."""
        parameters = {"row_id": row_id, "position": place.seq, "headers": place.headers, "notify": notify}
        return Statement(self._once("requeue", "Failed to put a message back into"), parameters, scalar)

    def locate(self, row_id: str) -> Statement[Place | None]:
        """Look for a message, in flight or not; None when it is gone. Locks nothing."""
        return Statement(self._once("locate", "Failed to look into"), {"row_id": row_id}, _place)

    def server_started(self) -> Statement[datetime | None]:
        """Ask when the queue's server was started. Locks nothing."""
        return Statement(
            self._once("server_started", "Failed to ask the server since when it runs"), {}, scalar
        )

    def count_available(self, most: int, lower_bound: int) -> Statement[int]:
        """Estimate, up to `most`, how many messages could be received now. Locks nothing."""
        return Statement(self._count_available, {"most": most, "lower_bound": lower_bound}, scalar)

    def peek(self, most: int, most_read: int = LONGEST_READ) -> Statement[list[PeekedMessage]]:
        """Look at the oldest messages without taking them, also at those in flight. Locks nothing."""
        return Statement(
            self._once("peek", "Failed to peek"), {"most": most, "most_read": most_read}, _peeked
        )

    def purge(self) -> Statement[int]:
        """Delete all messages and say how many; waits for receivers that have some in hand."""
        return Statement(self._once("purge", "Failed to purge"), {}, affected)

    def purge_expired(self, batch_size: int) -> Statement[int]:
        """Delete up to `batch_size` expired messages that are not in flight and say how many."""
        query = self._once("purge_expired", "Failed to purge expired messages of")
        return Statement(query, {"batch_size": batch_size}, affected)

    def inspect(self, *, purges: bool) -> list[Statement[list[str]]]:  # noqa: ARG002 - as the protocol has it
        """Look for nothing: a table that differs fails at once, and `rowbus schema verify` says in what."""
        return []

    def exists(self) -> Statement[bool]:
        """Say whether the table exists."""
        return exists(self.address)

    def are_queues(self, addresses: Sequence[QueueAddress]) -> list[Statement[Mapping[QueueAddress, bool]]]:
        """Say which tables have a queue's columns, and which have not; leaves out missing ones. Locks nothing."""
        names = {"schemas": [each.schema for each in addresses], "tables": [each.table for each in addresses]}
        return [
            Statement(self._once("find_columns", "Failed to look for the columns of"), names, _are_queues)
        ]

    def ownerships(
        self, addresses: Sequence[QueueAddress], beside: QueueAddress
    ) -> Statement[Mapping[QueueAddress, Ownership]]:
        """Find the owners of tables, for a role that trusts that of the queue `beside`, too. Locks nothing."""
        return find_owners(addresses, beside)

    def keep(self) -> list[Statement[None]]:
        """Keep the table as it is for the rest of the transaction; locks as a send, and runs nothing of its owner's."""
        names = {"schema_name": self.address.schema, "kept_table": self.address.table}
        named, kept = (self._once(each, "Failed to send message to") for each in ("name_kept", "keep"))
        return [Statement(named, names, no_rows), Statement(kept, {}, no_rows)]

    def holds(self, row_id: str) -> Statement[bool]:
        """Say whether a row is in the queue, in flight or not."""
        return Statement(self._once("holds", "Failed to look into"), {"row_id": row_id}, scalar)

    def holds_message(self, message_id: str) -> Statement[bool]:
        """Say whether a message of this id is in the queue. Reads all of it; keeps no lock."""
        query = self._once("holds_message", "Failed to look into")
        return Statement(query, {"quoted_id": json.dumps(message_id)}, scalar)

    def create(self) -> list[Statement[None]]:
        """Create the table if it is missing. Another creator at the same time may make this fail; see `installer`."""
        return self._each("Failed to create", "create")

    def has_body_string(self) -> Statement[bool]:
        """Say whether the table has the BodyString column. Locks nothing."""
        query = self._once("has_body_string", "Failed to look for BodyString in")
        return Statement(query, {"table_name": self.address.canonical}, scalar)

    def has_notify_trigger(self) -> Statement[bool]:
        """Say whether inserts by other software notify, as this Rowbus has them do it. Locks nothing."""
        query = self._once("has_notify_trigger", "Failed to look for the notifying trigger of")
        _, body, _ = raw_source(f"{_FOLDER}/create_notify_function.sql").split("$function$")
        names = {"table_name": self._named, "channel": self._channel, "body": body}
        return Statement(query, names, scalar)

    def limit_lock_wait(self, milliseconds: int) -> list[Statement[None]]:
        """Have the statements of this transaction give up after so long a wait for a lock."""
        query = self._once("limit_lock_wait", "Failed to prepare the change of")
        return [Statement(query, {"milliseconds": milliseconds}, no_rows)]

    def create_body_string(self) -> list[Statement[None]]:
        """Add the BodyString column if it is missing: to run in one transaction; waits for other installers."""
        lock = self._once("lock_body_string", "Failed to add BodyString to")
        add = self._once("create_body_string", "Failed to add BodyString to")
        return [
            Statement(lock, {"body_string_lock": self.address.body_string_lock}, no_rows),
            Statement(add, {}, no_rows),
        ]

    def create_notify_trigger(self) -> list[Statement[None]]:
        """Make inserts by other software notify too: to run in one transaction; waits for other installers.

        Takes a short exclusive lock on the table.
        """
        operations = ("lock_notify_function", "create_notify_function", "create_notify_trigger")
        return self._each("Failed to add the notifying trigger to", *operations)

    def drop(self) -> Statement[None]:
        """Drop the table with all that is in it; waits for transactions that use it."""
        return Statement(self._once("drop", "Failed to drop"), {}, no_rows)

    def listen(self) -> list[Statement[None]]:
        """Have the session notified of messages that commit from now on."""
        return self._each("Failed to listen to", "listen")

    def unlisten(self) -> list[Statement[None]]:
        """Have the session no longer notified."""
        return self._each("Failed to unlisten from", "unlisten")

    def show_receiver(self) -> list[Statement[None]]:
        """Have the server show that the session's process receives here, until `hide_receiver` or its end.

        Takes a shared session lock; never waits.
        """
        return [presence(receiver_lock(str(self.address)))]

    def hide_receiver(self) -> list[Statement[None]]:
        """Give the lock of one `show_receiver` back."""
        return [presence(receiver_lock(str(self.address)), hidden=True)]


class _Copies(NamedTuple):
    """The statement that sends to several queues, and the channels of their receivers."""

    query: Query
    channels: list[str]


@lru_cache(maxsize=SETS_KEPT)
def _copies(addresses: tuple[QueueAddress, ...]) -> _Copies:
    """Return what sends to these queues: composed once for a set of subscribers, which is the same for most events."""
    first, *others = addresses
    query = load_for_each(
        f"{_FOLDER}/send_together.sql",
        [{"schema": each.schema, "queue": each.table} for each in addresses],
        f"{_FOLDER}/notify.sql",
        failing=f"Failed to send message to {first}" + (f" and {len(others)} other queues" if others else ""),
    )
    return _Copies(query, [each.channel for each in addresses])


def exists(address: QueueAddress) -> Statement[bool]:
    """Say whether a table exists."""
    query = load(f"{_FOLDER}/exists.sql", failing=f"Failed to look for {address}", prepare=False)
    return Statement(query, {"table_name": str(address)}, scalar)


def _rows(rows: Rows, _count: int) -> list[MessageRow]:
    return (
        sorted(starmap(MessageRow, rows), key=_SEQ) if len(rows) > 1 else [MessageRow(*row) for row in rows]
    )


def _place(rows: Rows, _count: int) -> Place | None:
    return Place._make(rows[0]) if rows else None


def _are_queues(rows: Rows, _count: int) -> dict[QueueAddress, bool]:
    """Read the columns; what is there and no table, a view perhaps, is no queue whatever its columns."""
    return {
        QueueAddress(schema, name): is_table and takes_messages(map(QueueColumn, *columns))
        for schema, name, is_table, *columns in rows
    }


def _oversized(rows: Rows, _count: int) -> list[OversizedMessage]:
    return [OversizedMessage._make(row) for row in rows]


def _peeked(rows: Rows, _count: int) -> list[PeekedMessage]:
    return [PeekedMessage._make(row) for row in rows]
