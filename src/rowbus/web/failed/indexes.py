"""Searches of failed messages on the page: what an address asks for, and the indexes of error queues that a site keeps.

Invariants: an address says the whole search, so that it can be shared; what cannot be read is said, and never widens
the search; where paths are masked, a message is found only by its headers, or by what of its body is shown. A request
waits for an index a fraction of a second at most; one task at a time fills an index.
"""

from __future__ import annotations

import asyncio
import time
from datetime import datetime
from typing import TYPE_CHECKING, Final, NamedTuple
from weakref import WeakKeyDictionary

from rowbus.errors import ConfigurationError, InvalidAddressError, RowbusError
from rowbus.messages.address import address_of
from rowbus.messages.timestamps import with_zone
from rowbus.running.bounded import Bounded
from rowbus.transport.queues.catalog.looking import looking
from rowbus.transport.recoverability.error_queue import ErrorQueue
from rowbus.transport.recoverability.failed_message import Selection
from rowbus.transport.recoverability.failures.index import FailureIndex, Search
from rowbus.web.contents import mask

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rowbus.database.sessions import Session
    from rowbus.messages.address import Addresses, QueueAddress
    from rowbus.transport.recoverability.failures.index import Failure
    from rowbus.web.sampling.snapshot import QueueFigures
    from rowbus.web.site import Site
    from rowbus.web.visit import Visit

ERROR: Final = "error"
FIELDS: Final = ("text", "id", "conversation", "exception", "type", "failed_in", "since", "until", "group")
BYS: Final = ("exception", "type", "endpoint")

MOST_QUEUES: Final = 10
"""Error queues whose indexes are kept; the one that was opened first goes first."""
FRESH: Final = 1.0  # seconds for which an index is shown as it is
PATIENCE: Final = 0.15  # seconds that a request reads for
STEP: Final = 0.5  # seconds that the task reads for at a time
COUNTED: Final = 10.0  # seconds for which the groups of a short queue are not counted again
OLD: Final = 60.0  # seconds after which what an index has is not told any more

_sites: WeakKeyDictionary[Site, Indexes] = WeakKeyDictionary()


class FailureQuery(NamedTuple):
    """An error queue and a search in it; `fields` are those of the address that say something."""

    queue: QueueAddress
    search: Search
    fields: Mapping[str, str]
    before: int | None
    by: str

    @property
    def query(self) -> dict[str, object]:
        """The parameters of the address that mean the same messages."""
        return {"queue": self.fields.get("queue", ""), **{name: self.fields.get(name, "") for name in FIELDS}}

    @property
    def is_search(self) -> bool:
        """Whether not simply all are meant."""
        return self.search != Search()


def asked(fields: Mapping[str, str], addresses: Addresses) -> FailureQuery:
    """Read the parameters of an address, or of a form. Raises ConfigurationError, InvalidAddressError."""
    given = {name: value.strip() for name, value in fields.items() if value.strip()}
    queue = address_of(given.get("queue", ERROR), addresses)
    selection = Selection(
        ids=_set(given.get("id")),
        exceptions=_set(given.get("exception")),
        types=_set(given.get("type")),
        failed_queue=_queue(given.get("failed_in"), queue, addresses),
        since=_moment("since", given.get("since")),
        until=_moment("until", given.get("until")),
    )
    search = Search(selection, given.get("conversation", ""), given.get("group", ""), given.get("text", ""))
    if "\0" in search.text:
        raise ConfigurationError("Nothing that is stored holds the character NUL; search for something else.")
    by = given.get("by", "")
    return FailureQuery(queue, search, given, _position(given.get("before")), by if by in BYS else BYS[0])


def _set(text: str | None) -> frozenset[str]:
    return frozenset((text,)) if text else frozenset()


def _queue(text: str | None, error_queue: QueueAddress, addresses: Addresses) -> QueueAddress | None:
    """Read a queue as people type it; quoted, as pages show it."""
    if not text:
        return None
    try:
        return error_queue.neighbour(text) if text.startswith('"') else address_of(text, addresses)
    except InvalidAddressError as error:
        raise ConfigurationError(f"Where messages failed cannot be {text!r}: {error}") from error


def _moment(name: str, text: str | None) -> datetime | None:
    if not text:
        return None
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        raise ConfigurationError(
            f"{name.capitalize()} {text!r} is no time; write it as 2026-05-01T12:00 (UTC, unless it says another zone)."
        ) from None
    return with_zone(time)


def _position(text: str | None) -> int | None:
    return int(text) if text and text.lstrip("-").isdecimal() and len(text) <= 11 else None  # noqa: PLR2004 - 32 bits


def allowed(
    session: Session, queue: QueueAddress, failures: list[Failure], text: str, paths: Sequence[str]
) -> list[Failure]:
    """Return those of the messages found for a text in which it is also found when they are masked."""
    if not paths or not text:
        return failures
    errors = ErrorQueue(session, queue)
    return [failure for failure in failures if _shows(errors, failure, text, paths)]


def _shows(errors: ErrorQueue, failure: Failure, text: str, paths: Sequence[str]) -> bool:
    if failure.failed.row_id == text:
        return True
    row = errors.look(failure.failed)
    if row is None:
        return False
    return text in row.headers or text in mask((row.body or b"").decode("utf-8", "replace"), paths)


# ---------------------------------------------------------------------------------------------------------- the indexes


class Indexes:
    """The indexes of one site."""

    def __init__(self) -> None:
        """Begin without any."""
        self._kept: dict[QueueAddress, FailureIndex] = Bounded(MOST_QUEUES)
        self._filling: dict[QueueAddress, asyncio.Task[None]] = {}

    async def fresh(self, visit: Visit, queue: QueueAddress) -> FailureIndex:
        """Return the index of an error queue: of now, or while it is filled, of what has been read so far.

        Raises QueueNotFoundError, StorageError.
        """
        index = self._kept.get(queue) or FailureIndex(queue)
        if queue in self._filling and index.unread:
            return index
        if index.refreshed_at is None or time.monotonic() - index.refreshed_at > FRESH:
            await visit.read(_refresh, index, PATIENCE)
            self._kept[queue] = index
        if index.unread and queue not in self._filling:
            self._start(visit.site, index)
        return index

    def groups(self, site: Site, queue: QueueFigures) -> int | None:
        """Say how many groups of failures a queue has, if it was read lately; waits for nothing.

        A queue that is short enough to be counted is read in the background; a longer one when a visitor opens it.
        """
        index = self._kept.get(queue.address) or FailureIndex(queue.address)
        age = float("inf") if index.refreshed_at is None else time.monotonic() - index.refreshed_at
        is_short = queue.shape.readable and queue.is_exact
        if is_short and age > COUNTED and queue.address not in self._filling:
            self._kept[queue.address] = index
            self._start(site, index)
        return None if age > OLD or index.unread else len({failure.kind for failure in index.failures})

    def acknowledgements(self, address: QueueAddress) -> int:
        """Say how many messages of a queue are no failures but acknowledgements, as far as it was read."""
        index = self._kept.get(address)
        return 0 if index is None else index.acknowledgements

    def _start(self, site: Site, index: FailureIndex) -> None:
        task = asyncio.create_task(self._fill(site, index), name=f"rowbus web: index of {index.address}")
        self._filling[index.address] = task

    async def _fill(self, site: Site, index: FailureIndex) -> None:
        try:
            await site.read(_refresh, index, STEP)
            while index.unread:
                await site.read(_refresh, index, STEP)
        except RowbusError:
            return  # the next request finds what is wrong, and says so
        finally:
            del self._filling[index.address]


def indexes(site: Site) -> Indexes:
    """Return the indexes of a site."""
    return _sites.setdefault(site, Indexes())


def _refresh(session: Session, index: FailureIndex, seconds: float) -> None:
    with looking(session, index.address):
        index.refresh(session, seconds=seconds)
