"""Delayed messages: the table in which an endpoint's messages wait until they are due.

The shape is that of NServiceBus's SQL Server transport, whose movers may work on the same table
(docs/wire-format.md#delayed-table). Its rows have no id and no index by position, so what stands for an id here is the
position with the due time, by which the row is found.

Invariant: no statement here changes the table's shape, and none moves a message before it is due.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

from rowbus.database.locks import LockHolder, mover_lock
from rowbus.database.sqlserver.statements import aware, instant, load, number, span, truth
from rowbus.database.statements import Adaptation, Query, Statement, no_rows
from rowbus.errors import TransactionConflictError
from rowbus.messages.address import refuse_missing
from rowbus.messages.headers import encode_copied_headers
from rowbus.running.bounded import Bounded
from rowbus.transport.delayed.policy import DueMessage
from rowbus.transport.delayed.table import DelayedState, Due
from rowbus.transport.delayed.waiting import (
    LookedAtMessage,
    WaitingMessage,
    WaitingMessages,
    WaitingPlace,
)
from rowbus.transport.queues.sqlserver import (
    RECOVERABLE,
    exists,
    known_columns,
    lock_creation,
    on_this_server,
)
from rowbus.transport.queues.sqlserver_shape import merged

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from rowbus.database.statements import Row, Rows
    from rowbus.messages.address import QueueAddress
    from rowbus.messages.message import OutgoingMessage
    from rowbus.messages.sqlserver_address import SqlServerAddress
    from rowbus.transport.delayed.policy import PassedOver

_FOLDER = "transport/delayed/sql/sqlserver"
MISSING = "the table of delayed messages does not exist; create it with `rowbus delayed create`."


class _Place(NamedTuple):
    """The key that finds a row: when it is due, and its position among those due at the same time."""

    due: datetime
    position: int

    @property
    def id(self) -> str:
        return f"{self.position}@{self.due.replace(tzinfo=None).isoformat()}"

    @classmethod
    def of(cls, row_id: str) -> _Place:
        position, _, due = row_id.partition("@")
        return cls(datetime.fromisoformat(due).replace(tzinfo=UTC), int(position))


MOST_POSITIONS: Final = 2**63  # what a bigint holds
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_NOWHERE: Final = _Place(datetime(2000, 1, 1, tzinfo=UTC), -1)


class DelayedTable(WaitingMessages):
    """Statements on one table of delayed messages; each runs in its runner's transaction."""

    address: SqlServerAddress

    def __init__(self, address: SqlServerAddress) -> None:
        """Bind the SQL files to the table. No I/O."""
        super().__init__(address)
        self._store = self._load("store", "Failed to delay a message in")
        self._take_due = self._load("take_due", "Failed to look for due messages in")
        self._next_due = self._load("next_due", "Failed to look for due messages in")
        self.copy = self._load("copy", "Failed to delay messages in")
        self._moves: dict[tuple[str, QueueAddress], Query] = Bounded()

    def store(self, message: OutgoingMessage, due: Due, *, notify: bool) -> Statement[None]:  # noqa: ARG002 - SQL Server wakes no one
        """Store one message until it is due; it is there when the transaction commits."""
        parameters = {
            "headers": encode_copied_headers(message.headers),
            "body": message.body,
            **_due(due),
        }
        return Statement(self._store, parameters, no_rows)

    def store_all(
        self, messages: Sequence[OutgoingMessage], dues: Sequence[Due], *, notify: bool
    ) -> list[Statement[None]]:
        """Store messages: a statement each; of those with equal delays the first is due first, or has its position."""
        return [self.store(message, due, notify=notify) for message, due in zip(messages, dues, strict=True)]

    def due(self, due: Due) -> Statement[datetime]:
        """Ask the database when a message stored now would be due, as `copy_rows` wants it."""
        return Statement(self._once("due", "Failed to delay messages in"), _due(due), _instant)

    def copy_rows(self, messages: Iterable[tuple[str, bytes]], moment: datetime, /) -> Iterator[Row]:
        """Yield the rows for `copy` from header texts and bodies, all due at one moment; their positions order them."""
        for headers, body in messages:
            yield moment, headers, body

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
        self,
        batch_size: int,  # noqa: ARG002 - as the protocol has it
        queue: QueueAddress,  # noqa: ARG002 - as above
        mark: str,  # noqa: ARG002 - as above
        *,
        notify: bool = True,  # noqa: ARG002 - as above
    ) -> None:
        """Return None: no single statement of T-SQL looks, deletes and inserts in order."""
        return

    def move(
        self,
        ids: Sequence[str],
        queue: QueueAddress,
        mark: str = "",
        *,
        notify: bool = True,  # noqa: ARG002 - SQL Server wakes no one
    ) -> Statement[int]:
        """Move messages this transaction has locked to a queue, in the order of their time; return how many.

        `mark` is text to be cut out of their headers. Raises QueueNotFoundError for a missing queue.
        """
        places = [_Place.of(row_id) for row_id in ids]
        positions = ",".join(str(place.position) for place in places)
        parameters = {"positions": positions, "mark": mark, **_between(places)}
        return Statement(self._move("move", queue), parameters, partial(_all, len(places)))

    def move_with_headers(
        self,
        ids: Sequence[str],
        headers: Sequence[str],
        queue: QueueAddress,
        *,
        notify: bool = True,  # noqa: ARG002 - SQL Server wakes no one
    ) -> list[Statement[int]]:
        """Move messages this transaction has locked to a queue with these header texts: a statement each."""
        query = self._move("move_with_headers", queue)
        return [
            Statement(
                query, {"position": place.position, "headers": text, **_between([place])}, partial(_all, 1)
            )
            for place, text in zip(map(_Place.of, ids), headers, strict=True)
        ]

    def next_due(self) -> Statement[float | None]:
        """Ask in how many seconds the next message is due: not positive, one is due now; None, there is none."""
        return Statement(self._next_due, {}, _first_or_none)

    def has_any(self) -> Statement[int]:
        """Ask whether there is a message, due or not: 1 or 0."""
        return Statement(self._next_due, {}, _at_most_one)

    def try_lead(self) -> Statement[bool]:
        """Become the one mover of this table until the session ends; say whether that worked. Never waits."""
        query = self._once("try_lead", "Failed to look for other movers of")
        return Statement(query, {"resource": mover_lock(str(self.address))}, truth)

    def leaders(self) -> Statement[list[LockHolder]]:
        """Ask which session is the one mover of this table; fails without the right to see others' locks."""
        query = self._once("leaders", "Failed to look for the mover of")
        return Statement(query, {"resource": mover_lock(str(self.address))}, _lock_holders)

    def configure(self, *, lock_timeout: float, idle_timeout: float) -> list[Statement[None]]:  # noqa: ARG002 - see below
        """Make a session fit for moving. Its lock timeout is five seconds; SQL Server has no idle timeout."""
        return [Statement(self._once("configure", "Failed to prepare a session for"), {}, no_rows)]

    def state(self, most: int) -> Statement[DelayedState]:
        """Count the messages, up to `most`; keeps no lock."""
        return Statement(self._once("state", "Failed to count the messages of"), {"most": most}, _state)

    def peek(self, most: int) -> Statement[list[WaitingMessage]]:
        """Look at the messages due next without taking them; keeps no lock."""
        return Statement(self._once("peek", "Failed to look into"), {"most": most}, _waiting)

    def exists(self) -> Statement[bool]:
        """Say whether the table exists."""
        return exists(self.address)

    def create(self) -> list[Statement[None]]:
        """Create the table with its index if it is missing: in one transaction; waits for other installers."""
        create = self._once("create", "Failed to create")
        return [
            lock_creation(self.address),
            Statement(create, {"delayed_name": self.address.qualified}, no_rows),
        ]

    def grant_move(self, role: str) -> Statement[None]:
        """Let a role delay messages here and move them."""
        return self._grant("grant_move", role)

    def grant_store(self, role: str) -> Statement[None]:
        """Let a role delay messages here, and nothing else."""
        return self._grant("grant_store", role)

    def notify(self) -> list[Statement[None]]:
        """Do nothing: the mover polls."""
        return []

    def listen(self) -> list[Statement[None]]:
        """Do nothing: sessions cannot be notified."""
        return []

    def unlisten(self) -> list[Statement[None]]:
        """Do nothing, likewise."""
        return []

    def show_receiver(self) -> list[Statement[None]]:
        """Do nothing: nobody receives here."""
        return []

    def hide_receiver(self) -> list[Statement[None]]:
        """Do nothing: nothing was shown."""
        return []

    def _counted(self, rows: Rows, count: int) -> int:
        return number(rows, count)

    def _true(self, rows: Rows, count: int) -> bool:
        return truth(rows, count)

    def _taken(self, rows: Rows, count: int) -> list[DueMessage]:
        return _due_messages(rows, count)

    def _waiting(self, rows: Rows, _count: int) -> list[WaitingMessage]:
        return [
            WaitingMessage(_Place(instant(due), position).id, instant(due), merged(headers), size)
            for position, due, headers, size in rows
        ]

    def _looked_at(self, rows: Rows, _count: int) -> LookedAtMessage | None:
        for position, due, headers, body, size in rows:
            place = _Place(instant(due), position)
            return LookedAtMessage(place.id, place.due, merged(headers), body, size)
        return None

    def _reached(self, rows: Rows, _count: int) -> WaitingPlace | None:
        for position, due in rows:
            place = _Place(instant(due), position)
            return WaitingPlace(place.due, place.id)
        return None

    def _behind(self, place: WaitingPlace | None) -> dict[str, object]:
        if place is None:
            return {"after_due": None, "after_position": None}
        found = _Place.of(place.id)
        return {"after_due": found.due, "after_position": found.position}

    def _row(self, row_id: str) -> dict[str, object]:
        try:
            place = _Place.of(row_id)
        except ValueError:
            place = _NOWHERE
        if not 0 <= place.position < MOST_POSITIONS:
            place = _NOWHERE
        return {"position": place.position, "due": place.due}

    def _load(self, operation: str, failing: str, *, prepare: bool = True, **names: str) -> Query:
        address = self.address
        identifiers = {"catalog": address.catalog, "schema": address.schema, "delayed": address.table}
        return load(
            f"{_FOLDER}/{operation}.sql",
            identifiers=identifiers | names,
            failing=f"{failing} {address}",
            queue=str(address),
            remedy=MISSING,
            prepare=prepare,
        )

    def _once(self, operation: str, failing: str) -> Query:
        return self._load(operation, failing, prepare=False)

    def _grant(self, operation: str, role: str) -> Statement[None]:
        failing = f"Failed to grant privileges to {role} on"
        return Statement(self._load(operation, failing, prepare=False, role=role), {}, no_rows)

    def _move(self, operation: str, queue: QueueAddress) -> Query:
        query = self._moves.get((operation, queue))
        if query is None:
            target = on_this_server(queue)
            refuse_missing(target, "Failed to move delayed messages to")
            otherwise = self._load_move(f"{operation}_without_recoverable", target)
            adaptation = Adaptation(target.qualified, known_columns(target), RECOVERABLE, otherwise)
            query = self._load_move(operation, target)._replace(adaptation=adaptation)
            self._moves[operation, queue] = query
        return query

    def _load_move(self, operation: str, queue: SqlServerAddress) -> Query:
        query = self._load(
            operation,
            "",
            queue_catalog=queue.catalog,
            queue_schema=queue.schema,
            queue=queue.table,
        )
        return query._replace(
            failing=f"Failed to move delayed messages to {queue}", queue=str(queue), remedy=None
        )


def _at_most_one(rows: Rows, _count: int) -> int:
    return len(rows)


def _all(wanted: int, rows: Rows, count: int) -> int:
    """Return how many messages were moved; raises TransactionConflictError if another transaction moved some of them.

    On Babelfish, where a select takes no lock, they were then put into the queue twice: this transaction may not stay.
    """
    moved = number(rows, count)
    if moved < wanted:
        text = f"Of {wanted} delayed messages, {wanted - moved} were moved by another session just now."
        raise TransactionConflictError(text, sqlstate="40001", transient=True)
    return moved


def _due(due: Due) -> dict[str, object]:
    if isinstance(due, datetime):
        return {"at": due, **span("due_in", None)}
    return {"at": None, **span("due_in", due)}


def _between(places: Sequence[_Place]) -> dict[str, object]:
    times = [place.due for place in places] or [datetime.now(UTC)]
    return {"first_due": min(times), "last_due": max(times)}


def _due_messages(rows: Rows, _count: int) -> list[DueMessage]:
    found = sorted((_Place(instant(due), position), merged(headers)) for position, due, headers in rows)
    return [DueMessage(place.id, headers, _microseconds(place.due)) for place, headers in found]


def _passed(place: PassedOver) -> dict[str, object]:
    positions = [_Place.of(row_id).position for row_id in place.ids] or [_NOWHERE.position]
    moment = _EPOCH + timedelta(microseconds=place.moment)
    return {"moment": moment, "positions": ",".join(map(str, positions))}


def _microseconds(due: datetime) -> int:
    return (due - _EPOCH) // timedelta(microseconds=1)


def _waiting(rows: Rows, _count: int) -> list[WaitingMessage]:
    return [
        WaitingMessage(str(position), instant(due), merged(headers), size)
        for position, due, headers, size in sorted(rows, key=lambda row: (row[1], row[0]))
    ]


def _state(rows: Rows, _count: int) -> DelayedState:
    waiting, overdue, next_due, at = rows[0]
    return DelayedState(waiting, overdue, aware(next_due), instant(at))


def _lock_holders(rows: Rows, _count: int) -> list[LockHolder]:
    return [LockHolder(pid, login, program, host, None) for pid, login, program, host in rows]


def _instant(rows: Rows, _count: int) -> datetime:
    return instant(rows[0][0])


def _first_or_none(rows: Rows, _count: int) -> float | None:
    return float(rows[0][0]) if rows else None
