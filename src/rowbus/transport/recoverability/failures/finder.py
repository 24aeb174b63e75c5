"""Finds failed messages: page by page, those of an index, and what only the database knows, in bounded time.

Invariant: a page is found in bounded time; what a search had no time for is said, and the next page goes on there.
"""

from __future__ import annotations

import time
from bisect import bisect_left
from typing import TYPE_CHECKING, Final, NamedTuple

from rowbus.errors import StorageError
from rowbus.transport.recoverability.failures.table import failures_table

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from rowbus.database.sessions import Session
    from rowbus.transport.recoverability.failures.index import FailureIndex
    from rowbus.transport.recoverability.failures.search import Failure, Search

CHUNK: Final = 1_000  # messages that the database looks into with one statement
TIMED_OUT: Final = "57014"


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
