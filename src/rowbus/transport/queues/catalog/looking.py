"""Tables found by their shape, which of them are read, and how they are looked into.

Invariants: nothing is read of a table before it is locked, and found to be one of an owner that is trusted, so that it
can be replaced no more; of the others nothing is read but what the catalogue says of them, and they are told of, with
the reason. Nobody is waited for longer than `begin_look.sql` says.
"""

from __future__ import annotations

from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Final, Generic, NamedTuple, TypeVar

from rowbus.errors import PermissionDeniedError, QueueNotFoundError, RowbusError, StorageError
from rowbus.transport.queues.catalog.ownership import LOCKED, explain
from rowbus.transport.queues.catalog.table import guard_of

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Mapping, Sequence

    from rowbus.database.sessions import Session
    from rowbus.database.statements import Statement
    from rowbus.messages.address import QueueAddress
    from rowbus.transport.queues.catalog.ownership import Ownership
    from rowbus.transport.queues.catalog.table import Catalog, Guard
    from rowbus.transport.queues.diagnosis import Storage
    from rowbus.transport.queues.shape import QueueShape
    from rowbus.transport.queues.table import MessageTable, RecordTable

T = TypeVar("T")
K = TypeVar("K")

TOGETHER: Final = 50
"""Tables that are looked at in one transaction: each takes a lock, of which the server has a few thousand."""
_TIMED_OUT: Final = "55P03"  # lock_not_available


class NotLookedAtError(RowbusError):
    """A table is not read, for what its owner could do, or because it is locked; see `queue` and `reason`."""

    queue: str
    reason: str


class FoundTables(NamedTuple):
    """Tables that are read, and those that are not, with the reason."""

    tables: list[QueueAddress]
    left_out: dict[QueueAddress, str]


@contextmanager
def looking(session: Session, address: QueueAddress) -> Generator[None]:
    """Read a table in a transaction in which it stays what it is.

    Raises NotLookedAtError, QueueNotFoundError if it is missing, and what the reading raises.
    """
    guard = guard_of(address)
    if guard is None:
        yield
        return
    try:
        with session.transaction():
            _keep(session, address, guard)
            yield
    except StorageError as error:
        if error.sqlstate == _TIMED_OUT:
            raise _refusal(address, LOCKED) from error
        raise


@contextmanager
def looking_together(session: Session, addresses: Sequence[QueueAddress]) -> Generator[FoundTables]:
    """Read several tables, at most `TOGETHER`, in a transaction in which they stay what they are.

    Raises StorageError where one of them is missing, or cannot be locked: then each is to be looked into by itself.
    """
    guard = guard_of(*addresses)
    if guard is None:
        yield FoundTables([*addresses], {})
        return
    with session.transaction():
        for statement in guard.lock:  # one by one: psycopg warns in the log of a pipeline that was aborted
            session.run(statement)
        found = session.run(guard.owners)
        left_out = {address: whose.reason for address, whose in found.items() if whose.reason}
        yield FoundTables([address for address in found if address not in left_out], left_out)


def look(session: Session, address: QueueAddress, statement: Statement[T]) -> T:
    """Run one statement on a table, `looking`."""
    with looking(session, address):
        return session.run(statement)


class LookedAt(NamedTuple, Generic[T]):
    """The answers of tables, and those that are not read, with the reason; those missing are in neither."""

    answers: dict[QueueAddress, T]
    left_out: dict[QueueAddress, str]


def look_at_each(
    session: Session, addresses: Iterable[QueueAddress], question: Callable[[QueueAddress], Statement[T]]
) -> LookedAt[T]:
    """Run a statement on each of some tables, `looking`: `TOGETHER` in a transaction, so that it costs little.

    Where one of them cannot be locked, each is looked at by itself. Raises StorageError.
    """
    looked = LookedAt[T]({}, {})
    asked = list(addresses)
    for first in range(0, len(asked), TOGETHER):
        some = asked[first : first + TOGETHER]
        try:
            found = _look_together(session, some, question)
        except (StorageError, QueueNotFoundError):
            found = look_into_each(session, some, lambda address: session.run(question(address)))
        looked.answers.update(found.answers)
        looked.left_out.update(found.left_out)
    return looked


def is_there(session: Session, table: MessageTable | RecordTable) -> bool:
    """Say whether a table exists that nobody named, but Rowbus; raise NotLookedAtError for a stranger's."""
    guard = guard_of(table.address)
    if guard is None:
        return session.run(table.exists())
    found = session.run(guard.owners).get(table.address)
    _refuse(table.address, found)
    return found is not None


def refuse_strangers(session: Session, address: QueueAddress) -> None:
    """Raise NotLookedAtError for a table that `looking` would not read, before something is done with it."""
    guard = guard_of(address)
    if guard is not None:
        _require_trust(session, address, guard)


def ask_about(
    session: Session,
    catalog: Catalog,
    of: Sequence[K],
    question: Callable[[Sequence[K]], Statement[T] | None],
) -> tuple[list[T], list[K]]:
    """Ask about all at once, or where one of them is locked about each; return the answers, and those that are locked.

    A question that is None has no answer.
    """
    asked = question(of) if of else None
    if asked is None:
        return [], []
    try:
        return [_ask_in_time(session, catalog, asked)], []
    except StorageError as error:
        if error.sqlstate != _TIMED_OUT:
            raise
    if len(of) == 1:
        return [], list(of)
    each = [ask_about(session, catalog, [one], question) for one in of]
    return [answer for answers, _ in each for answer in answers], [
        one for _, locked in each for one in locked
    ]


def look_into_each(
    session: Session, addresses: Iterable[QueueAddress], read: Callable[[QueueAddress], T]
) -> LookedAt[T]:
    """Read one table after the other, `looking`; raises what `read` raises, but that a table is missing."""
    looked = LookedAt[T]({}, {})
    for address in addresses:
        try:
            with suppress(QueueNotFoundError), looking(session, address):
                looked.answers[address] = read(address)
        except NotLookedAtError as error:
            looked.left_out[address] = error.reason
    return looked


def sort_out(session: Session, catalog: Catalog, addresses: Iterable[QueueAddress]) -> FoundTables:
    """Tell the tables that are read from those of strangers."""
    found = list(addresses)
    left_out = _strangers(session, catalog, found)
    return FoundTables([address for address in found if address not in left_out], left_out)


def find_tables(session: Session, catalog: Catalog, columns: Mapping[str, str]) -> FoundTables:
    """Find the tables that have these columns and no other, by their types; tell those of strangers from them."""
    asked = catalog.find_tables(columns)
    return FoundTables([], {}) if asked is None else sort_out(session, catalog, session.run(asked))


def find_queues(session: Session, catalog: Catalog, named: Iterable[QueueAddress] = ()) -> list[QueueShape]:
    """Describe every table that is a queue or nearly one, and all those named that exist; raises StorageError."""
    shapes = session.run(catalog.find_queues(named))
    strangers = _strangers(session, catalog, [shape.address for shape in shapes])
    told = [_told(shape, strangers.get(shape.address, "")) for shape in shapes]
    return _positioned(session, catalog, told)


def find_storages(
    session: Session, catalog: Catalog, addresses: Iterable[QueueAddress]
) -> tuple[list[Storage], list[QueueAddress]]:
    """Say what tables that are read occupy, and which of them are locked."""
    answers, locked = ask_about(session, catalog, list(addresses), catalog.queue_storage)
    return [storage for answer in answers for storage in answer], locked


def _ask_in_time(session: Session, catalog: Catalog, question: Statement[T]) -> T:
    beginning = catalog.begin_look()
    if beginning is None:
        return session.run(question)
    with session.transaction():
        session.run(beginning)
        return session.run(question)


def _look_together(
    session: Session, addresses: Sequence[QueueAddress], question: Callable[[QueueAddress], Statement[T]]
) -> LookedAt[T]:
    with looking_together(session, addresses) as (tables, left_out):
        answers = {address: session.run(question(address)) for address in tables}
    return LookedAt(answers, left_out)


def _keep(session: Session, address: QueueAddress, guard: Guard) -> None:
    """Lock a table, and only then see whether it is one to be read."""
    try:
        session.run_all(guard.lock)
    except PermissionDeniedError as error:
        raise _refusal(address, "this role may not read it") from error
    _require_trust(session, address, guard)


def _require_trust(session: Session, address: QueueAddress, guard: Guard) -> None:
    found = session.run(guard.owners).get(address)
    if found is None:
        raise QueueNotFoundError(f"There is no table {address}.", queue=str(address))
    _refuse(address, found)


def _refuse(address: QueueAddress, found: Ownership | None) -> None:
    if found is not None and found.reason:
        raise _refusal(address, found.reason)


def _refusal(address: QueueAddress, reason: str) -> NotLookedAtError:
    return NotLookedAtError(explain(address, reason), queue=str(address), reason=reason)


def _strangers(
    session: Session, catalog: Catalog, addresses: Sequence[QueueAddress]
) -> dict[QueueAddress, str]:
    asked = catalog.owners(addresses) if addresses else None
    found: Mapping[QueueAddress, Ownership] = {} if asked is None else session.run(asked)
    return {address: whose.reason for address, whose in found.items() if whose.reason}


def _told(shape: QueueShape, reason: str) -> QueueShape:
    return shape._replace(readable=shape.readable and not reason, left_out=reason)


def _positioned(session: Session, catalog: Catalog, shapes: list[QueueShape]) -> list[QueueShape]:
    """Say where the sequences stand, but for those that somebody alters."""
    asked = [shape for shape in shapes if shape.sequence is not None and not shape.left_out]
    answers, _locked = ask_about(session, catalog, asked, catalog.positions)
    positions = {address: at for answer in answers for address, at in answer.items()}
    return [_at(shape, positions) for shape in shapes]


def _at(shape: QueueShape, positions: Mapping[QueueAddress, int | None]) -> QueueShape:
    if shape.sequence is None or shape.address not in positions:
        return shape
    return shape._replace(sequence=shape.sequence._replace(position=positions[shape.address]))
