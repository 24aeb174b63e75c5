"""One search by id, business key or text: failed, waiting and audited messages, delayed ones, sagas, dead letters.

Invariants: bounded in time (`SECONDS`), in messages of a queue (`LOOKED_AT`) and in what is found (`MOST`); what was
not searched is said; where paths are masked, bodies are not looked into.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final, NamedTuple

from rowbus.database.statements import Statement, each
from rowbus.errors import QueueNotFoundError, StorageError
from rowbus.log.queries import log_query
from rowbus.messages.address import QueueAddress
from rowbus.messages.message import read_headers
from rowbus.sagas.table import COLUMNS, saga_table
from rowbus.transport.delayed.table import delayed_table
from rowbus.transport.queues.catalog.looking import NotLookedAtError, find_tables, looking, looking_together
from rowbus.transport.queues.catalog.table import catalog_of
from rowbus.transport.queues.traffic import Kind
from rowbus.transport.recoverability.failures.table import failures_table, newest_holding, written
from rowbus.web.delayed import WaitingRow
from rowbus.web.pages import Page, View

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from starlette.responses import Response

    from rowbus.database.sessions import Session
    from rowbus.database.statements import Row
    from rowbus.transport.recoverability.failed_message import FailedMessage
    from rowbus.web.sampling.snapshot import QueueFigures
    from rowbus.web.visit import Visit

SECONDS: Final = 3.0
LOOKED_AT: Final = 2_000  # newest messages of a queue
MOST: Final = 20  # found in one place
TOGETHER: Final = 25
"""Queues that one statement looks into: a round trip costs more than most of them."""
SHARE: Final = 0.25
"""The part of the time left that these get: one of them that takes long hides no other."""
TIMED_OUT: Final = "57014"
DEAD: Final = "dead letters"
DEAD_LETTERS: Final = QueueAddress("pgq", "dead_letter")
ORDER: Final = (Kind.ERROR, Kind.QUEUE, Kind.AUDIT)


class Hit(NamedTuple):
    """Something found: what it is called, its id, and the address of its page."""

    title: str
    identity: str
    href: str


class Place(NamedTuple):
    """A place that was searched, with what was found there and of how much; or the reason why it was not."""

    kind: str
    address: QueueAddress
    hits: list[Hit]
    note: str = ""
    is_searched: bool = True


class Searching:
    """One search, from place to place until its time is over."""

    def __init__(
        self, session: Session, visit: Visit, text: str, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """Take what is searched for. No I/O."""
        self._session, self._visit, self._text, self._clock = session, visit, text, clock
        self._until = clock() + SECONDS

    def all(self) -> Iterator[Place]:
        """Search all there is: what failed, what waits, sagas, and audited messages last."""
        queues = sorted(self._visit.snapshot.queues, key=lambda queue: ORDER.index(queue.kind))
        yield from self._queues([queue for queue in queues if queue.kind is not Kind.AUDIT])
        if self._visit.snapshot.logs:
            yield self._at(DEAD, DEAD_LETTERS, self._dead)
        for one in self._visit.snapshot.delayed:
            yield self._at("delayed messages", one.address, self._delayed)
        found = find_tables(self._session, catalog_of(self._visit.site.addresses), COLUMNS)
        for address in found.tables:
            yield self._at("sagas", address, self._sagas)
        yield from self._queues([queue for queue in queues if queue.kind is Kind.AUDIT])
        for address, reason in {**found.left_out, **self._visit.snapshot.delayed_left_out}.items():
            yield Place("", address, [], reason, is_searched=False)

    def _queues(self, queues: Iterable[QueueFigures]) -> Iterator[Place]:
        read: list[QueueFigures] = []
        for queue in queues:
            reason = queue.left_out or ("" if queue.shape.readable else "this role may not read it")
            if reason:
                yield Place(queue.kind.value, queue.address, [], reason, is_searched=False)
            else:
                read.append(queue)
        for first in range(0, len(read), TOGETHER):
            some = read[first : first + TOGETHER]
            yield from self._together(some) or [self._alone(queue) for queue in some]

    def _together(self, queues: Sequence[QueueFigures]) -> list[Place]:
        """Search several queues, in a part of the time; none if one of them fails, or takes too much of it."""
        kinds = {queue.address: queue.kind for queue in queues}
        if self._left <= 0:
            return []
        try:
            with looking_together(self._session, [*kinds]) as found:
                self._session.run(failures_table(queues[0].address).bound_time(self._left * SHARE))
                hits = self._messages({address: kinds[address] for address in found.tables})
        except (StorageError, QueueNotFoundError):
            return []
        return [
            *(Place(kinds[one].value, one, hits[one], self._bounds(kinds[one].value)) for one in hits),
            *(
                Place(kinds[one].value, one, [], why, is_searched=False)
                for one, why in found.left_out.items()
            ),
        ]

    def _alone(self, queue: QueueFigures) -> Place:
        return self._at(
            queue.kind.value, queue.address, lambda address: self._messages({address: queue.kind})[address]
        )

    @property
    def _left(self) -> float:
        """The seconds that are left."""
        return self._until - self._clock()

    def _at(self, kind: str, address: QueueAddress, search: Callable[[QueueAddress], list[Hit]]) -> Place:
        left = self._left
        if left <= 0:
            return Place(kind, address, [], "time was over", is_searched=False)
        try:
            with looking(self._session, address):
                self._session.run(failures_table(address).bound_time(left))
                return Place(kind, address, search(address)[:MOST], self._bounds(kind))
        except (NotLookedAtError, QueueNotFoundError) as error:
            return Place(kind, address, [], str(error), is_searched=False)
        except StorageError as error:
            reason = "time was over" if error.sqlstate == TIMED_OUT else str(error)
            return Place(kind, address, [], reason, is_searched=False)

    def _bounds(self, kind: str) -> str:
        if kind == "sagas":
            return "by key and id, those that go on"
        if kind == "delayed messages":
            return f"headers of the {LOOKED_AT:,} next due"
        if kind == DEAD:
            return f"the newest {LOOKED_AT:,} of all consumers"
        parts = "headers" if self._visit.site.settings.mask else "headers and bodies"
        return f"{parts} of the newest {LOOKED_AT:,}"

    def _messages(self, kinds: Mapping[QueueAddress, Kind]) -> dict[QueueAddress, list[Hit]]:
        if not kinds:
            return {}
        bodies = not self._visit.site.settings.mask
        held = self._session.run(
            newest_holding([*kinds], self._text, looked_at=LOOKED_AT, most=MOST, bodies=bodies)
        )
        return {
            address: self._hits(address, kinds[address], positions) for address, positions in held.items()
        }

    def _hits(self, address: QueueAddress, kind: Kind, positions: list[int]) -> list[Hit]:
        if not positions:
            return []
        stories = self._session.run(failures_table(address).stories(positions))
        newest_first = sorted(stories, key=lambda found: found.seq, reverse=True)
        return [self._hit(address, kind, found) for found in newest_first]

    def _hit(self, address: QueueAddress, kind: Kind, found: FailedMessage) -> Hit:
        if kind is Kind.ERROR:
            href = self._visit.url("failed.message", {"queue": address}, row=found.row_id)
        else:
            href = self._visit.url("queue.message", {"name": address, "row": found.row_id})
        return Hit(found.type or "no type", found.message_id, href)

    def _delayed(self, address: QueueAddress) -> list[Hit]:
        rows = self._session.run(delayed_table(address).find(self._text, None, MOST, LOOKED_AT))
        return [
            self._waiting(address, WaitingRow(row.id, row.due, read_headers(row.headers), "", "", row.size))
            for row in rows
        ]

    def _waiting(self, address: QueueAddress, found: WaitingRow) -> Hit:
        href = self._visit.url("delayed.message", {"table": address, "row": found.row_id})
        return Hit(found.type or "no type", found.message_id or found.row_id, href)

    def _dead(self, _address: QueueAddress) -> list[Hit]:
        query = log_query("retries/find_dead_letters", "Failed to search dead letters")
        asked = {
            "texts": written(self._text),
            "data": not self._visit.site.settings.mask,
            "looked_at": LOOKED_AT,
            "most": MOST,
        }
        return self._session.run(Statement(query, asked, each(self._letter)))

    def _letter(self, row: Row) -> Hit:
        log, consumer, number, kind, event = row
        href = self._visit.url("logs.letter", {"log": log, "consumer": consumer, "letter": number})
        return Hit(f"{log}, {consumer}: {kind or 'no type'}", event, href)

    def _sagas(self, address: QueueAddress) -> list[Hit]:
        table = saga_table(address)
        begun = self._session.run(table.page(MOST, beginning=self._text))
        rows = {kept.row.id: kept.row for kept in [*self._session.run(table.look(self._text)), *begun]}
        return [
            Hit(row.correlation, row.id, self._visit.url("sagas.saga", {"table": address, "key": row.id}))
            for row in rows.values()
        ]


def search(session: Session, visit: Visit, text: str) -> list[Place]:
    """Search everywhere, in `SECONDS` at most."""
    return list(Searching(session, visit, text).all())


async def _show(visit: Visit) -> Response:
    text = visit.query.get("text", "").replace("\0", "").strip()
    if not visit.site.database.has_logs:  # that is PostgreSQL
        return visit.missing("The search is PostgreSQL's only.")
    places = await visit.read(search, visit, text) if text else []
    return visit.render("search.html", text=text, places=places)


PAGE: Final = Page("Search", (View("search", "/search", _show),))
