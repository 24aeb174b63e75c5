"""An index of a long error queue in memory: what pages show of its messages, without their bodies.

A row of an error queue is added or removed, never changed. So the index asks where rows are, forgets those that are
gone, and reads only those that are new, at any position: also rows that committed late, below others. Why not
SQL: docs/decisions/0029-an-index-of-failed-messages.md.

Invariant: what `failures` holds is what the queue held at one moment, or the newest part of it; it is replaced, never
changed, so readers need no lock.
"""

from __future__ import annotations

import time
from threading import Lock
from typing import TYPE_CHECKING, Final
from weakref import WeakValueDictionary

from rowbus.transport.recoverability.failures.search import Failure, Kind
from rowbus.transport.recoverability.failures.table import failures_table

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from rowbus.database.sessions import Session
    from rowbus.messages.address import QueueAddress
    from rowbus.transport.recoverability.failed_message import FailedMessage

MOST: Final = 500_000
"""Messages that an index holds, the newest: about 1.2 kB each."""

PAGE: Final = 500  # stories read by one statement
LONGEST: Final = 300  # characters that are kept of a name, an id or a reason


class FailureIndex:
    """The index of one error queue; `refresh` may be called by any thread, each waits for the one before."""

    def __init__(self, address: QueueAddress, *, most: int = MOST) -> None:
        """Begin empty. No I/O."""
        self.address = address
        self.failures: Sequence[Failure] = ()
        """What is known, the newest first; acknowledgements for ServiceControl are left out."""
        self.acknowledgements = 0
        self.unread = 0
        """How many messages were there at the last refresh that it had no time to read: the oldest."""
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


def _position(failure: Failure) -> int:
    return failure.seq
