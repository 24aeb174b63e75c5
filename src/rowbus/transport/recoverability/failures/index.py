"""An index of a long error queue in memory, and what finds failed messages by it, page by page, in bounded time.

A row of an error queue is added or removed, never changed. So the index asks where rows are, forgets those that are
gone, and reads only those that are new, at any position: also rows that committed late, below others. Why not SQL:
docs/decisions/0029-an-index-of-failed-messages.md.

A search says which failed messages are meant, and in what order they and their groups are shown.

Invariants: what `failures` holds is what the queue held at one moment, or the newest part of it; it is replaced, never
changed, so readers need no lock. A page is found in bounded time; what a search had no time for is said, and the next
page goes on there. A search means the same messages whether they are listed, counted, sent back or discarded.
"""

from __future__ import annotations

import hashlib
import time
from bisect import bisect_left
from collections import Counter
from threading import Lock
from typing import TYPE_CHECKING, Final, NamedTuple
from weakref import WeakValueDictionary

from rowbus.errors import StorageError
from rowbus.transport.recoverability.failed_message import ALL, FailedMessage, Selection
from rowbus.transport.recoverability.failures.table import failures_table

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from rowbus.database.sessions import Session
    from rowbus.messages.address import QueueAddress

MOST: Final = 500_000
"""Messages that an index holds, the newest: about 1.2 kB each."""
PAGE: Final = 500  # stories read by one statement
CHUNK: Final = 1_000  # messages that the database looks into with one statement
LONGEST: Final = 300  # characters that are kept of a name, an id or a reason

KEY_LENGTH: Final = 16
TIMED_OUT: Final = "57014"


class Kind:
    """The common facts of a group's messages, as `rowbus errors` groups them; compared by identity."""

    __slots__ = ("__weakref__", "exception", "failed_queue", "is_readable", "key", "type")

    def __init__(
        self, exception: str, type_name: str, failed_queue: QueueAddress | None, *, is_readable: bool
    ) -> None:
        """Take what is the same; `key` stands for it in addresses."""
        self.exception = exception
        self.type = type_name
        self.failed_queue = failed_queue
        self.is_readable = is_readable
        said = "\0".join((exception, type_name, str(failed_queue or ""), str(is_readable)))
        self.key = hashlib.sha256(said.encode("utf-8", "replace")).hexdigest()[:KEY_LENGTH]

    def sample(self) -> FailedMessage:
        """Return a message that has nothing else."""
        return FailedMessage(
            "",
            0,
            "",
            self.type,
            self.exception,
            "",
            self.failed_queue,
            None,
            "",
            is_readable=self.is_readable,
        )


class Failure(NamedTuple):
    """A failed message and its kind."""

    seq: int
    failed: FailedMessage
    kind: Kind


class Search(NamedTuple):
    """A choice of failed messages: those that fit everything that is given; nothing given means all.

    `selection` is as of the commands; `conversation` is an id; `group` is the key of a kind; `text` is anywhere in the
    headers or the body, letter for letter, or is the id of a row. Only the database can tell of `text`.
    """

    selection: Selection = ALL
    conversation: str = ""
    group: str = ""
    text: str = ""

    def among(self, failures: Iterable[Failure]) -> Iterator[Failure]:
        """Give those that fit, `text` aside, in the order given; each kind is judged once."""
        meant = _Kinds(self)
        alone = self.selection._replace(exceptions=frozenset(), types=frozenset(), failed_queue=None)
        judges = alone != ALL
        for failure in failures:
            if not meant[failure.kind]:
                continue
            if judges and not alone.fits(failure.failed):
                continue
            if self.conversation and failure.failed.conversation != self.conversation:
                continue
            yield failure


class _Kinds(dict[Kind, bool]):
    """The kinds that a search means."""

    def __init__(self, search: Search) -> None:
        super().__init__()
        self._group = search.group
        self._selection = search.selection._replace(ids=frozenset(), since=None, until=None)

    def __missing__(self, kind: Kind) -> bool:
        fits = self._group in {"", kind.key} and self._selection.fits(kind.sample())
        self[kind] = fits
        return fits


class Group(NamedTuple):
    """Failed messages of one kind: how many, the first and the last of them."""

    kind: Kind
    size: int
    first: FailedMessage
    latest: FailedMessage


class Page(NamedTuple):
    """Messages found, the newest first. `after` is where the next page begins, None at the end.

    `looked_at` counts the messages that were looked into for a text, of `of` that the rest of the search means;
    `timed_out` says that time was over before the page was full.
    """

    failures: list[Failure]
    after: int | None
    looked_at: int
    of: int
    timed_out: bool = False


class FailureIndex:
    """The index of one error queue; `refresh` may be called by any thread, each waits for the one before."""

    def __init__(self, address: QueueAddress, *, most: int = MOST) -> None:
        """Begin empty. No I/O."""
        self.address = address
        self.failures: Sequence[Failure] = ()
        """The messages that are known, the newest first; acknowledgements for ServiceControl are left out."""
        self.acknowledgements = 0
        self.unread = 0
        """The number of messages that the last refresh had no time to read: the oldest."""
        self.is_cut = False
        """Whether the queue is longer than an index can be."""
        self.refreshed_at: float | None = None
        self._most = most
        self._table = failures_table(address)
        self._known: dict[int, Failure | None] = {}  # by position; None: an acknowledgement
        self._kinds: WeakValueDictionary[tuple[object, ...], Kind] = WeakValueDictionary()
        self._names: dict[str, str] = {}
        self._lock = Lock()

    def refresh(
        self, session: Session, *, seconds: float | None = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """Read what is new, the newest first, and forget what is gone; stop reading after so many seconds.

        Raises QueueNotFoundError, StorageError; then the index is as it was.
        """
        with self._lock:
            until = None if seconds is None else clock() + seconds
            positions = session.run(self._table.positions(self._most + 1))
            self.is_cut = len(positions) > self._most
            present = set(positions[: self._most])
            missing = sorted(present - self._known.keys(), reverse=True)
            gone = self._known.keys() - present
            known = {seq: failure for seq, failure in self._known.items() if seq not in gone}
            self.unread = self._read(session, missing, known, until, clock)
            if missing or gone:
                self._replace(known)
            self.refreshed_at = clock()

    def _read(
        self,
        session: Session,
        missing: list[int],
        known: dict[int, Failure | None],
        until: float | None,
        clock: Callable[[], float],
    ) -> int:
        """Read messages page by page, at least one; say how many were left."""
        for start in range(0, len(missing), PAGE):
            if start and until is not None and clock() >= until:
                return len(missing) - start
            for failed in session.run(self._table.stories(missing[start : start + PAGE])):
                known[failed.seq] = None if failed.is_acknowledgement else self._failure(failed)
        return 0

    def _replace(self, known: dict[int, Failure | None]) -> None:
        self._known = known
        failures = [failure for failure in known.values() if failure is not None]
        failures.sort(key=_position, reverse=True)
        self.failures = failures
        self.acknowledgements = len(known) - len(failures)

    def _failure(self, failed: FailedMessage) -> Failure:
        kept = failed._replace(
            message_id=failed.message_id[:LONGEST],
            reason=self._name(failed.reason),
            endpoint=self._name(failed.endpoint),
            conversation=failed.conversation[:LONGEST],
        )
        kind = self._kind(kept)
        told = kept._replace(type=kind.type, exception=kind.exception, failed_queue=kind.failed_queue)
        return Failure(failed.seq, told, kind)

    def _kind(self, failed: FailedMessage) -> Kind:
        exception, type_name = failed.exception[:LONGEST], failed.type[:LONGEST]
        key = (exception, type_name, failed.failed_queue, failed.is_readable)
        found = self._kinds.get(key)
        if found is None:
            found = Kind(exception, type_name, failed.failed_queue, is_readable=failed.is_readable)
            self._kinds[key] = found
        return found

    def _name(self, text: str) -> str:
        """Return a text that many messages may have, cut, once for all of them."""
        if len(self._names) > self._most // 10:
            self._names.clear()
        cut = text[:LONGEST]
        return self._names.setdefault(cut, cut)


def groups(failures: Sequence[Failure]) -> list[Group]:
    """Count messages, given the newest first, by kind: the largest group first, of equals the latest."""
    sizes = Counter(failure.kind for failure in failures)
    first = {failure.kind: failure.failed for failure in failures}
    latest = {failure.kind: failure.failed for failure in reversed(failures)}
    found = [Group(kind, size, first[kind], latest[kind]) for kind, size in sizes.items()]
    return sorted(found, key=lambda group: (-group.size, -group.latest.seq))


def counted(sizes: Iterable[tuple[str, int]]) -> list[tuple[str, int]]:
    """Add up what has the same name: the largest first, of equals by name."""
    total: Counter[str] = Counter()
    for name, size in sizes:
        total[name] += size
    return sorted(total.items(), key=lambda pair: (-pair[1], pair[0]))


def listed(index: FailureIndex, search: Search, *, most: int, before: int | None = None) -> Page:
    """Return a page of what a search without a text means, of what the index holds below a position. No I/O."""
    meant = list(search.among(below(index.failures, before)))
    failures, rest = meant[:most], meant[most:]
    return Page(failures, failures[-1].seq if rest else None, 0, len(meant))


def find(
    session: Session,
    index: FailureIndex,
    search: Search,
    *,
    most: int,
    before: int | None = None,
    seconds: float = 2.0,
    clock: Callable[[], float] = time.monotonic,
) -> Page:
    """Find a page of what a search means, as `listed`; with a text, in about so many seconds at most.

    For a text each statement is a transaction of its own. Raises StorageError, QueueNotFoundError.
    """
    if not search.text:
        return listed(index, search, most=most, before=before)
    until = clock() + seconds
    meant = list(search.among(below(index.failures, before)))
    found: list[Failure] = []
    for start in range(0, len(meant), CHUNK):
        chunk = meant[start : start + CHUNK]
        held = _holding(session, index, chunk, search.text, until - clock()) if clock() < until else None
        if held is None:
            after = meant[start - 1].seq if start else before
            return Page(found, after, start, len(meant), timed_out=True)
        found += held
        if len(found) > most:
            return Page(found[:most], found[most - 1].seq, start + len(chunk), len(meant))
    return Page(found, None, len(meant), len(meant))


def holding(session: Session, index: FailureIndex, failures: list[Failure], text: str) -> list[Failure]:
    """Return those that hold a text, however long it takes; without a text, all."""
    return (_holding(session, index, failures, text, None) or []) if text else failures


def below(failures: Sequence[Failure], before: int | None) -> Sequence[Failure]:
    """Return those below a position, of messages with the newest first."""
    if before is None:
        return failures
    return failures[bisect_left(failures, -before + 1, key=lambda failure: -failure.seq) :]


def _holding(
    session: Session, index: FailureIndex, chunk: list[Failure], text: str, seconds: float | None
) -> list[Failure] | None:
    """Return those of a chunk that hold a text; None if there was no time for it."""
    table = failures_table(index.address)
    try:
        with session.transaction():
            if seconds is not None:
                session.run(table.bound_time(seconds))
            found = set(session.run(table.containing([failure.seq for failure in chunk], text)))
    except StorageError as error:
        if seconds is not None and error.sqlstate == TIMED_OUT:
            return None
        raise
    return [failure for failure in chunk if failure.seq in found or failure.failed.row_id == text]


def _position(failure: Failure) -> int:
    return failure.seq
