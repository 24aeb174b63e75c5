"""A queue: the table its messages wait in, in the exact shape NServiceBus's SQL Server transport gives it.

Source: docs/wire-format.md#queue-table-on-sql-server. A table may lack Recoverable or the legacy columns: the
statements adapt (`database.adaptation`). Rows in flight are locked, so `peek`, `holds` and the counts pass
over them.

Invariant: no statement here changes the table's shape but `create_body_string`, which NServiceBus knows too.
"""

from __future__ import annotations

import json
from functools import partial
from operator import attrgetter
from typing import TYPE_CHECKING

from rowbus.database.sqlserver.statements import aware, load, number, span, truth
from rowbus.database.statements import Adaptation, Query, Statement, no_rows, scalar
from rowbus.errors import ConfigurationError
from rowbus.messages.headers import encode_copied_headers
from rowbus.messages.message import MessageRow, PeekedMessage
from rowbus.messages.sqlserver_address import SqlServerAddress
from rowbus.settings import LARGEST_MESSAGE, LONGEST_HEADERS_READ, LONGEST_READ
from rowbus.transport.queues.sqlserver_shape import NEEDED, Index, header_warning, index_warnings, merged
from rowbus.transport.queues.table import OversizedMessage, Place

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from datetime import datetime, timedelta

    from rowbus.database.statements import Row, Rows
    from rowbus.messages.address import QueueAddress
    from rowbus.messages.message import OutgoingMessage
    from rowbus.transport.queues.table import MovedMessage

_FOLDER = "transport/queues/sql/sqlserver"
_SEQ = attrgetter("seq")
RECOVERABLE = frozenset({"recoverable"})
LEGACY = frozenset({"correlationid", "replytoaddress"})

_NO_NOTIFICATIONS = (
    "SQL Server has no notifications, so there is no trigger that sends them: receivers poll. Leave "
    "foreign_notifications (--notify-trigger) out."
)


class QueueTable:
    """Statements on one queue; each runs in its runner's transaction and never waits unless it says so."""

    shows_in_flight = False

    def __init__(self, address: SqlServerAddress) -> None:
        """Bind the SQL files to the queue's table. No I/O."""
        self.address = address
        self._send = self._adaptive("send", "Failed to send message to", RECOVERABLE)
        self.copy = self._adaptive("copy", "Failed to send messages to", RECOVERABLE)
        self._receive = self._adaptive("receive", "Failed to receive from", LEGACY)
        self._receive_batch = self._adaptive("receive_batch", "Failed to receive from", LEGACY)
        self._receive_others = self._adaptive("receive_others", "Failed to receive from", LEGACY)
        self._count_available = self._load("count_available", "Failed to peek")

    def _load(self, operation: str, failing: str, *, prepare: bool = True) -> Query:
        address = self.address
        return load(
            f"{_FOLDER}/{operation}.sql",
            identifiers={"catalog": address.catalog, "schema": address.schema, "queue": address.table},
            failing=f"{failing} {address}",
            queue=str(address),
            prepare=prepare,
        )

    def _adaptive(self, operation: str, failing: str, needs: frozenset[str]) -> Query:
        suffix = "without_recoverable" if needs is RECOVERABLE else "without_legacy"
        otherwise = self._load(f"{operation}_{suffix}", failing)
        return self._load(operation, failing)._replace(
            adaptation=Adaptation(self.address.qualified, known_columns(self.address), needs, otherwise)
        )

    def _once(self, operation: str, failing: str) -> Query:
        return self._load(operation, failing, prepare=False)

    def send(self, message: OutgoingMessage, *, notify: bool) -> Statement[None]:  # noqa: ARG002 - SQL Server wakes no one
        """Put one message in the queue; it exists when the transaction commits."""
        parameters = {
            "headers": encode_copied_headers(message.headers),
            "body": message.body,
            **span("expires_in", message.time_to_be_received),
        }
        return Statement(self._send, parameters, no_rows)

    def send_copy(self, sent: Statement[None]) -> Statement[None]:
        """Put what `send` puts into another queue in this one."""
        return sent._replace(query=self._send)

    def send_together(
        self,
        _message: OutgoingMessage,
        _addresses: Sequence[SqlServerAddress],
        *,
        notify: bool,  # noqa: ARG002 - as the protocol has it
    ) -> list[Statement[None]]:
        """Do nothing: T-SQL has no statement that inserts into several tables."""
        return []

    def send_all(self, messages: Sequence[OutgoingMessage], *, notify: bool) -> list[Statement[None]]:
        """Put messages in the queue, in this order: a statement each, as NServiceBus does."""
        return [self.send(message, notify=notify) for message in messages]

    def copy_rows(self, messages: Iterable[tuple[str, bytes]], moment: datetime | None, /) -> Iterator[Row]:
        """Yield the rows for `copy` from header texts and bodies; `moment` is when they expire, None: never."""
        for headers, body in messages:
            yield moment, headers, body

    def expiry(self, time_to_be_received: timedelta | None) -> Statement[datetime | None]:
        """Ask the database when a message sent now would expire (None: never), as `copy_rows` wants it."""
        query = self._once("expiry", "Failed to send messages to")
        return Statement(query, span("expires_in", time_to_be_received), _time)

    def notify(self) -> list[Statement[None]]:
        """Do nothing: receivers poll."""
        return []

    def notify_all(self, _addresses: Sequence[SqlServerAddress]) -> list[Statement[None]]:
        """Do nothing: receivers poll."""
        return []

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
        if passed_over:
            positions = ",".join(map(str, passed_over))
            return Statement(
                self._receive_others, {**parameters, "batch_size": most, "passed_over": positions}, _rows
            )
        if most == 1:
            return Statement(self._receive, parameters, _rows)
        parameters["batch_size"] = most
        return Statement(self._receive_batch, parameters, _rows)

    def find_oversized(self, most: int, *, most_bytes: int) -> Statement[list[OversizedMessage]]:
        """Find those above `most_bytes` among the `most` oldest messages. Locks nothing."""
        parameters = {"most": most, "most_bytes": most_bytes, "most_characters": LONGEST_HEADERS_READ}
        return Statement(self._once("find_oversized", "Failed to look into"), parameters, _oversized)

    def move(
        self,
        messages: Sequence[MovedMessage],
        to: QueueAddress,
        *,
        notify: bool,  # noqa: ARG002 - SQL Server wakes no one
    ) -> list[Statement[int]]:
        """Move messages to another queue with other headers, in this order: a statement each, that says 1 or 0.

        Bodies stay in the database. Passes over messages that are gone or in flight. Raises
        QueueNotFoundError for a missing queue.
        """
        target = on_this_server(to)
        otherwise = self._load_move("move_without_recoverable", target)
        adaptation = Adaptation(target.qualified, known_columns(target), RECOVERABLE, otherwise)
        query = self._load_move("move", target)._replace(adaptation=adaptation)
        return [
            Statement(query, {"row_id": row_id, "position": position, "headers": headers}, number)
            for row_id, position, headers in messages
        ]

    def _load_move(self, operation: str, to: SqlServerAddress) -> Query:
        address = self.address
        return load(
            f"{_FOLDER}/{operation}.sql",
            identifiers={
                "catalog": address.catalog,
                "schema": address.schema,
                "queue": address.table,
                "to_catalog": to.catalog,
                "to_schema": to.schema,
                "to_queue": to.table,
            },
            failing=f"Failed to move messages from {address} to {to}",
            queue=str(to),
            prepare=False,
        )

    def requeue(
        self,
        row_id: str,
        place: Place,
        *,
        notify: bool,  # noqa: ARG002 - SQL Server wakes no one
    ) -> Statement[int]:
        """Put the message at a place at the end of its queue, with the header text given; say 1 or 0.

        To be run in a transaction.
        """
        query = self._adaptive("requeue", "Failed to put a message back into", RECOVERABLE)
        return Statement(query, {"row_id": row_id, "position": place.seq, "headers": place.headers}, number)

    def locate(self, row_id: str) -> Statement[Place | None]:
        """Look for a message; None when it is gone or in flight. Keeps no lock."""
        return Statement(self._once("locate", "Failed to look into"), {"row_id": row_id}, _place)

    def server_started(self) -> Statement[datetime | None]:
        """Ask when the queue's server was started. Locks nothing."""
        query = load(
            f"{_FOLDER}/server_started.sql",
            failing="Failed to ask the server since when it runs",
            prepare=False,
        )
        return Statement(query, {}, scalar)

    def count_available(self, most: int, lower_bound: int) -> Statement[int]:
        """Count, up to `most`, the messages that could be received now; keeps no lock."""
        return Statement(self._count_available, {"most": most, "lower_bound": lower_bound}, number)

    def are_queues(
        self, addresses: Sequence[SqlServerAddress]
    ) -> list[Statement[Mapping[QueueAddress, bool]]]:
        """Say which tables have a queue's columns, and which have not, each by itself; leaves out missing ones."""
        return [_is_queue(each) for each in addresses]

    def ownerships(self, _addresses: Sequence[QueueAddress], _beside: QueueAddress) -> None:
        """Return None: whose tables these are is not asked here."""

    def keep(self) -> list[Statement[None]]:
        """Keep nothing: whose tables these are is not asked here."""
        return []

    def holds(self, row_id: str) -> Statement[bool]:
        """Say whether a row is in the queue and not in flight; keeps no lock."""
        return Statement(self._once("holds", "Failed to look into"), {"row_id": row_id}, truth)

    def holds_message(self, message_id: str) -> Statement[bool]:
        """Say whether a message of this id is in the queue. Reads all of it; keeps no lock."""
        query = self._once("holds_message", "Failed to look into")
        return Statement(query, {"quoted_id": json.dumps(message_id)}, truth)

    def peek(self, most: int, most_read: int = LONGEST_READ) -> Statement[list[PeekedMessage]]:
        """Look at the oldest messages that are not in flight, without taking them; keeps no lock."""
        return Statement(
            self._once("peek", "Failed to peek"), {"most": most, "most_read": most_read}, _peeked
        )

    def purge(self) -> Statement[int]:
        """Delete all messages and say how many; waits for receivers that have some in hand."""
        return Statement(self._once("purge", "Failed to purge"), {}, number)

    def purge_expired(self, batch_size: int) -> Statement[int]:
        """Delete up to `batch_size` expired messages that are not in flight and say how many."""
        query = self._once("purge_expired", "Failed to purge expired messages of")
        return Statement(query, {"batch_size": batch_size}, number)

    def inspect(self, *, purges: bool) -> list[Statement[list[str]]]:
        """Ask for what NServiceBus looks at when it starts: the indexes, and the type of Headers."""
        found = self._once("find_indexes", "Failed to look for the indexes of")
        parameters = {"queue_name": self.address.qualified}
        headers = self._once("headers_type", "Failed to look for the columns of")
        return [
            Statement(found, parameters, partial(_index_warnings, purges=purges)),
            Statement(headers, parameters, _header_warnings),
        ]

    def exists(self) -> Statement[bool]:
        """Say whether the table exists."""
        return exists(self.address)

    def create(self) -> list[Statement[None]]:
        """Create the table with its indexes if it is missing: in one transaction; waits for other installers."""
        create = self._once("create", "Failed to create")
        return [
            lock_creation(self.address),
            Statement(create, {"queue_name": self.address.qualified}, no_rows),
        ]

    def create_body_string(self) -> list[Statement[None]]:
        """Add the BodyString column if it is missing: in one transaction; waits for other installers."""
        add = self._once("create_body_string", "Failed to add BodyString to")
        return [lock_creation(self.address), Statement(add, {"queue_name": self.address.qualified}, no_rows)]

    def has_body_string(self) -> Statement[bool]:
        """Say whether the table has the BodyString column. Locks nothing."""
        probe = known_columns(self.address)
        return Statement(probe.query, probe.parameters, _has_body_string)

    def limit_lock_wait(self, milliseconds: int) -> list[Statement[None]]:  # noqa: ARG002 - the column locks too shortly
        """Do nothing: a computed column is added without rewriting the table."""
        return []

    def has_notify_trigger(self) -> Statement[bool]:
        """Raise ConfigurationError: SQL Server has no notifications, receivers poll."""
        raise ConfigurationError(_NO_NOTIFICATIONS)

    def create_notify_trigger(self) -> list[Statement[None]]:
        """Raise ConfigurationError: SQL Server has no notifications, receivers poll."""
        raise ConfigurationError(_NO_NOTIFICATIONS)

    def drop(self) -> Statement[None]:
        """Drop the table with all that is in it; waits for transactions that use it."""
        return Statement(self._once("drop", "Failed to drop"), {}, no_rows)

    def listen(self) -> list[Statement[None]]:
        """Do nothing: sessions cannot be notified."""
        return []

    def unlisten(self) -> list[Statement[None]]:
        """Do nothing: sessions cannot be notified."""
        return []

    def show_receiver(self) -> list[Statement[None]]:
        """Do nothing: only sessions that listen show whom they serve."""
        return []

    def hide_receiver(self) -> list[Statement[None]]:
        """Do nothing: nothing was shown."""
        return []


def on_this_server(queue: QueueAddress) -> SqlServerAddress:
    """Return an address as one of SQL Server; raises TypeError for another database's."""
    if not isinstance(queue, SqlServerAddress):
        raise TypeError(f"{queue} is not an address on SQL Server.")
    return queue


def exists(address: SqlServerAddress) -> Statement[bool]:
    """Say whether a table exists."""
    query = load(
        f"{_FOLDER}/exists.sql",
        identifiers={"catalog": address.catalog},
        failing=f"Failed to look for {address}",
        prepare=False,
    )
    names = {"schema_name": address.schema, "table_name": address.table}
    return Statement(query, {"queue_name": address.qualified, **names}, truth)


def lock_creation(address: SqlServerAddress) -> Statement[None]:
    """Wait for the lock under which NServiceBus's installers and ours create a table; it ends with the transaction."""
    query = load(f"{_FOLDER}/lock_creation.sql", failing=f"Failed to create {address}", prepare=False)
    return Statement(query, {"resource": address.creation_lock}, no_rows)


def known_columns(address: SqlServerAddress) -> Statement[frozenset[str]]:
    """Ask for the names of a queue's columns, in small letters."""
    query = load(
        f"{_FOLDER}/known_columns.sql",
        identifiers={"catalog": address.catalog},
        failing=f"Failed to look for the columns of {address}",
        prepare=False,
    )
    return Statement(query, {"queue_name": address.qualified}, _names)


def _index_warnings(rows: Rows, _count: int, *, purges: bool) -> list[str]:
    """Judge the indexes of a table that exists."""
    return list(index_warnings(_indexes(rows, len(rows)), purges=purges)) if rows else []


def _indexes(rows: Rows, _count: int) -> list[Index]:
    """Read indexes; the row of the table itself is none."""
    return [Index(column, bool(clustered)) for column, clustered in rows if column]


def _header_warnings(rows: Rows, _count: int) -> list[str]:
    return [warning for (type_,) in rows if (warning := header_warning(type_)) is not None]


def _names(rows: Rows, _count: int) -> frozenset[str]:
    return frozenset(name for (name,) in rows)


def _rows(rows: Rows, _count: int) -> list[MessageRow]:
    return sorted(map(_row, rows), key=_SEQ) if len(rows) > 1 else [_row(row) for row in rows]


def _row(row: Row) -> MessageRow:
    """Read a received row; a NULL body is an empty one, as for NServiceBus on SQL Server.

    Its headers come behind a space, because the driver takes a byte order mark away that a text begins with.
    """
    row_id, ms_left, headers, body, position, *legacy = row
    headers = headers and headers[1:]
    time_left = None if ms_left is None else ms_left / 1000
    body = b"" if body is None else body
    return MessageRow(str(row_id).lower(), time_left, merged(headers, *legacy), body, position)


def _place(rows: Rows, _count: int) -> Place | None:
    return Place(merged(rows[0][0]), rows[0][1]) if rows else None


def _is_queue(address: SqlServerAddress) -> Statement[Mapping[QueueAddress, bool]]:
    def decode(rows: Rows, count: int) -> dict[QueueAddress, bool]:
        return {address: _names(rows, count) >= NEEDED} if rows else {}

    probe = known_columns(address)
    return Statement(probe.query, probe.parameters, decode)


def _oversized(rows: Rows, _count: int) -> list[OversizedMessage]:
    return [
        OversizedMessage(row_id, position, merged(headers), size) for row_id, position, headers, size in rows
    ]


def _peeked(rows: Rows, _count: int) -> list[PeekedMessage]:
    return [peeked(row) for row in rows]


def peeked(row: Row) -> PeekedMessage:
    """Read a row looked at without being taken."""
    row_id, expires, headers, body, position, cut_from = row
    return PeekedMessage(row_id, aware(expires), merged(headers), body, position, cut_from)


def _time(rows: Rows, _count: int) -> datetime | None:
    return aware(rows[0][0])


def _has_body_string(rows: Rows, _count: int) -> bool:
    return ("bodystring",) in [tuple(row) for row in rows]
