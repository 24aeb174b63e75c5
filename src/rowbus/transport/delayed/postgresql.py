"""Delayed messages: the table in which an endpoint's messages wait until they are due.

The shape is that of NServiceBus's PostgreSQL transport, whose movers may work on the same table. Source:
docs/wire-format.md#delayed-table. Times are instants (`timestamptz`) taken from the database's clock, so they mean the
same in every session's time zone; a .NET mover reads them right when its sessions are in UTC.

Invariant: no statement here changes the table's shape, and none moves a message before it is due.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING
from uuid import UUID

from rowbus.database.locks import mover_lock
from rowbus.database.postgresql.locks import lock_holders
from rowbus.database.statements import Query, Statement, affected, load, no_rows, scalar
from rowbus.messages.address import QueueAddress, refuse_missing
from rowbus.messages.headers import encode_copied_headers
from rowbus.messages.message import random_uuids
from rowbus.running.bounded import Bounded
from rowbus.transport.delayed.policy import DueMessage
from rowbus.transport.delayed.table import DelayedState, Due, MovedBatch
from rowbus.transport.delayed.waiting import (
    LookedAtMessage,
    WaitingMessage,
    WaitingMessages,
    WaitingPlace,
)
from rowbus.transport.queues.postgresql import exists

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from rowbus.database.locks import LockHolder
    from rowbus.database.statements import Row, Rows
    from rowbus.messages.message import OutgoingMessage
    from rowbus.transport.delayed.policy import PassedOver

_FOLDER = "transport/delayed/sql/postgresql"
MISSING = "the table of delayed messages does not exist; create it with `rowbus delayed create`."


class DelayedTable(WaitingMessages):
    """Statements on one table of delayed messages; each runs in its runner's transaction."""

    def __init__(self, address: QueueAddress) -> None:
        """Bind the SQL files to the table. No I/O."""
        super().__init__(address)
        self._store = self._load("store", "Failed to delay a message in")
        self._store_batch = self._load("store_batch", "Failed to delay messages in")
        self._take_due = self._load("take_due", "Failed to look for due messages in")
        self._next_due = self._load("next_due", "Failed to look for due messages in")
        # No plan is kept: a lookout asks this of more tables than a connection has plans, in turn.
        self._has_any = self._load("next_due", "Failed to look for due messages in", prepare=False)
        self.copy = self._load("copy", "Failed to delay messages in")
        self._moves: dict[tuple[str, QueueAddress], Query] = Bounded()

    def store(self, message: OutgoingMessage, due: Due, *, notify: bool) -> Statement[None]:
        """Store one message until it is due; it is there when the transaction commits."""
        parameters = {
            "headers": encode_copied_headers(message.headers),
            "body": message.body,
            **due_parameters(due),
            "notify": notify,
        }
        return Statement(self._store, parameters, no_rows)

    def store_batch(
        self, messages: Sequence[OutgoingMessage], dues: Sequence[Due], *, notify: bool
    ) -> Statement[None]:
        """Store several messages in one statement; of those with equal delays the first is due first."""
        parameters = {
            "headers": [encode_copied_headers(message.headers) for message in messages],
            "bodies": [message.body for message in messages],
            "delays": [_delay(due) for due in dues],
            "ats": [_at(due) for due in dues],
            "notify": notify,
        }
        return Statement(self._store_batch, parameters, no_rows)

    def store_all(
        self, messages: Sequence[OutgoingMessage], dues: Sequence[Due], *, notify: bool
    ) -> list[Statement[None]]:
        """Store messages until they are due, in one statement."""
        if len(messages) == 1:
            return [self.store(messages[0], dues[0], notify=notify)]
        return [self.store_batch(messages, dues, notify=notify)]

    def copy_rows(self, messages: Iterable[tuple[str, bytes]], moment: datetime) -> Iterator[Row]:
        """Yield the rows for `copy`, each due a microsecond after the one before, which keeps their order.

        Ids are given, though the column has a default: for rows that need a random default COPY takes twice as long.
        """
        microsecond = timedelta(microseconds=1)
        for row_id, (headers, body) in zip(random_uuids(), messages, strict=False):  # the ids never end
            yield row_id, headers, body, moment
            moment += microsecond

    def due(self, due: Due) -> Statement[datetime]:
        """Ask the database when a message stored now would be due, as `copy` wants it."""
        return Statement(self._once("due", "Failed to delay messages in"), due_parameters(due), scalar)

    def take_due(self, batch_size: int) -> Statement[list[DueMessage]]:
        """Lock up to so many messages that are due, the longest due first, passing over those others have locked."""
        return Statement(self._take_due, {"batch_size": batch_size}, _due_messages)

    def take_due_behind(self, batch_size: int, place: PassedOver) -> Statement[list[DueMessage]]:
        """Lock due messages as `take_due` does, but for those that are passed over."""
        query = self._once("take_due_behind", "Failed to look for due messages in")
        return Statement(query, {"batch_size": batch_size, **_passed(place)}, _due_messages)

    def next_due_behind(self, place: PassedOver) -> Statement[float | None]:
        """Ask in how many seconds the next message is due that is not passed over; None, there is none."""
        query = self._once("next_due_behind", "Failed to look for due messages in")
        return Statement(query, _passed(place), _first_or_none)

    def move_expected(
        self, batch_size: int, queue: QueueAddress, mark: str, *, notify: bool = True
    ) -> Statement[MovedBatch]:
        """Move those of a batch of due messages that have this mark to its queue; say how many were due and moved."""
        parameters = {"batch_size": batch_size, "mark": mark, "notify": notify}
        return Statement(self._move("move_expected", queue), parameters, _moved)

    def move(
        self, ids: Sequence[str], queue: QueueAddress, mark: str = "", *, notify: bool = True
    ) -> Statement[int]:
        """Move messages this transaction has locked to a queue, in this order; return how many.

        `mark` is text to be cut out of their headers. Raises QueueNotFoundError for a missing queue.
        """
        return Statement(
            self._move("move", queue), {"ids": _uuids(ids), "mark": mark, "notify": notify}, scalar
        )

    def move_with_headers(
        self, ids: Sequence[str], headers: Sequence[str], queue: QueueAddress, *, notify: bool = True
    ) -> list[Statement[int]]:
        """Move messages this transaction has locked to a queue with these header texts in place of their own."""
        query = self._move("move_with_headers", queue)
        return [Statement(query, {"ids": _uuids(ids), "headers": list(headers), "notify": notify}, scalar)]

    def next_due(self) -> Statement[float | None]:
        """Ask in how many seconds the next message is due: not positive, one is due now; None, there is none."""
        return Statement(self._next_due, {}, _first_or_none)

    def has_any(self) -> Statement[int]:
        """Ask whether there is a message, due or not: 1 or 0."""
        return Statement(self._has_any, {}, _at_most_one)

    def try_lead(self) -> Statement[bool]:
        """Become the one mover of this table until the session ends; say whether that worked. Never waits."""
        query = self._once("try_lead", "Failed to look for other movers of")
        return Statement(query, {"lock_name": mover_lock(str(self.address))}, scalar)

    def leaders(self) -> Statement[list[LockHolder]]:
        """Ask which session is the one mover of this table."""
        return lock_holders(mover_lock(str(self.address)))

    def configure(self, *, lock_timeout: float, idle_timeout: float) -> list[Statement[None]]:
        """Make a session fit for moving; the timeouts are in seconds, 0 for none."""
        query = load(f"{_FOLDER}/configure.sql", failing="Failed to prepare a session", prepare=False)
        parameters = {"lock_timeout": round(lock_timeout * 1000), "idle_timeout": round(idle_timeout * 1000)}
        return [Statement(query, parameters, no_rows)]

    def state(self, most: int) -> Statement[DelayedState]:
        """Count the messages, up to `most`. Locks nothing."""
        return Statement(self._once("state", "Failed to count the messages of"), {"most": most}, _state)

    def peek(self, most: int) -> Statement[list[WaitingMessage]]:
        """Look at the messages due next without taking them. Locks nothing."""
        return Statement(self._once("peek", "Failed to look into"), {"most": most}, _waiting)

    def exists(self) -> Statement[bool]:
        """Say whether the table exists."""
        return exists(self.address)

    def create(self) -> list[Statement[None]]:
        """Create the table with its index: to run in one transaction, when it is missing."""
        return [
            Statement(self._once(name, "Failed to create"), {}, no_rows)
            for name in ("create", "create_index")
        ]

    def grant_move(self, role: str) -> Statement[None]:
        """Let a role delay messages here and move them."""
        return Statement(self._grant("grant_move", role), {}, no_rows)

    def grant_store(self, role: str) -> Statement[None]:
        """Let a role delay messages here, and nothing else."""
        return Statement(self._grant("grant_store", role), {}, no_rows)

    def listen(self) -> list[Statement[None]]:
        """Have the session notified of messages stored from now on that are due soon."""
        return self._hearing("listen", "Failed to listen to")

    def unlisten(self) -> list[Statement[None]]:
        """Have the session no longer notified."""
        return self._hearing("unlisten", "Failed to unlisten from")

    def show_receiver(self) -> list[Statement[None]]:
        """Do nothing: who moves has a lock of its own (`leaders`)."""
        return []

    def hide_receiver(self) -> list[Statement[None]]:
        """Do nothing: nothing was shown."""
        return []

    def _hearing(self, operation: str, failing: str) -> list[Statement[None]]:
        return [
            Statement(self._once(operation, failing, folder="transport/queues/sql/postgresql"), {}, no_rows)
        ]

    def notify(self) -> list[Statement[None]]:
        """Wake the mover when the transaction commits."""
        query = self._once(
            "notify", "Failed to notify the mover of", folder="transport/queues/sql/postgresql"
        )
        return [Statement(query, {"channels": [self.address.channel]}, no_rows)]

    def _counted(self, rows: Rows, count: int) -> int:
        return affected(rows, count)

    def _true(self, rows: Rows, count: int) -> bool:
        answer: bool = scalar(rows, count)
        return answer

    def _taken(self, rows: Rows, count: int) -> list[DueMessage]:
        return _due_messages(rows, count)

    def _waiting(self, rows: Rows, _count: int) -> list[WaitingMessage]:
        return _waiting(rows, _count)

    def _looked_at(self, rows: Rows, _count: int) -> LookedAtMessage | None:
        return LookedAtMessage._make(rows[0]) if rows else None

    def _reached(self, rows: Rows, _count: int) -> WaitingPlace | None:
        return WaitingPlace(rows[0][1], rows[0][0]) if rows else None

    def _behind(self, place: WaitingPlace | None) -> dict[str, object]:
        if place is None:
            return {"after_due": None, "after_id": None}
        return {"after_due": place.due, "after_id": place.id}

    def _row(self, row_id: str) -> dict[str, object]:
        return {"row_id": _uuid(row_id)}

    def _load(
        self, operation: str, failing: str, *, folder: str = _FOLDER, prepare: bool = True, **names: str
    ) -> Query:
        address = self.address
        identifiers = {
            "schema": address.schema,
            "delayed": address.table,
            "due_index": f"{address.table}_Due",
            "channel": address.channel,
        }
        return load(
            f"{folder}/{operation}.sql",
            identifiers=identifiers | names,
            literals={"channel": address.channel},
            failing=f"{failing} {address}",
            queue=str(address),
            remedy=MISSING,
            prepare=prepare,
        )

    def _once(self, operation: str, failing: str, *, folder: str = _FOLDER) -> Query:
        return self._load(operation, failing, folder=folder, prepare=False)

    def _grant(self, operation: str, role: str) -> Query:
        return self._load(operation, f"Failed to grant privileges to {role} on", prepare=False, role=role)

    def _move(self, operation: str, queue: QueueAddress) -> Query:
        query = self._moves.get((operation, queue))
        if query is None:
            refuse_missing(queue, "Failed to move delayed messages to")
            query = self._moves[operation, queue] = load(
                f"{_FOLDER}/{operation}.sql",
                identifiers={
                    "schema": self.address.schema,
                    "delayed": self.address.table,
                    "queue_schema": queue.schema,
                    "queue": queue.table,
                },
                literals={"channel": queue.channel},
                failing=f"Failed to move delayed messages to {queue}",
                queue=str(queue),
            )
        return query


def due_parameters(due: Due) -> dict[str, object]:
    """Return when a message is due, as the parameters `at` and `delay` of a statement."""
    return {"at": _at(due), "delay": _delay(due)}


def _at(due: Due) -> datetime | None:
    return due if isinstance(due, datetime) else None


def _delay(due: Due) -> float | None:
    return None if isinstance(due, datetime) else due.total_seconds()


def _passed(place: PassedOver) -> dict[str, object]:
    return {"moment": place.moment, "ids": _uuids(place.ids)}


def _uuids(ids: Iterable[str]) -> str:
    """Write an array of uuids as the server reads it; the driver would take a hundred times as long."""
    return f"{{{','.join(ids)}}}"


def _uuid(text: str) -> str | None:
    """Return a uuid as the server reads it; None for a text that is none."""
    try:
        return str(UUID(text))
    except ValueError:
        return None


def _due_messages(rows: Rows, _count: int) -> list[DueMessage]:
    return [DueMessage(*row) for row in rows]


def _moved(rows: Rows, _count: int) -> MovedBatch:
    return MovedBatch._make(rows[0][:2])


def _waiting(rows: Rows, _count: int) -> list[WaitingMessage]:
    return [WaitingMessage._make(row) for row in rows]


def _state(rows: Rows, _count: int) -> DelayedState:
    return DelayedState._make(rows[0])


def _at_most_one(rows: Rows, _count: int) -> int:
    return len(rows)


def _first_or_none(rows: Rows, _count: int) -> float | None:
    return rows[0][0] if rows else None
