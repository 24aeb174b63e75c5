"""The list of failed messages: groups of them, and what a search finds.

Invariant: bounded: at most `MOST_GROUPS` groups and `PAGE` messages, however long the queue is.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

from anyio.to_thread import run_sync

from rowbus.errors import ConfigurationError, InvalidAddressError, QueueNotFoundError
from rowbus.transport.queues.catalog.looking import looking
from rowbus.transport.recoverability.failures.index import Group, Page, counted, find, groups, listed
from rowbus.web.failed.indexes import FIELDS, FailureQuery, allowed, asked, indexes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from starlette.responses import Response

    from rowbus.database.sessions import Session
    from rowbus.transport.recoverability.failures.index import FailureIndex
    from rowbus.web.visit import Visit

PAGE: Final = 50
MOST_GROUPS: Final = 50
SECONDS: Final = 2.0  # that a search for text takes


class Row(NamedTuple):
    """A group as the page shows it: `query` leads to its messages."""

    size: int
    name: str
    group: Group | None
    query: dict[str, object]


class Groups(NamedTuple):
    """Groups, the largest first, and how many more there are."""

    rows: list[Row]
    more: int


async def show(visit: Visit) -> Response:
    """Show an error queue: groups of its messages, or what a search finds."""
    try:
        wanted = asked(visit.query, visit.site.addresses)
    except (ConfigurationError, InvalidAddressError) as error:
        return visit.refuse("That cannot be searched for", str(error), status=400)
    try:
        index = await indexes(visit.site).fresh(visit, wanted.queue)
    except QueueNotFoundError:
        return visit.render("failed/none.html", status=404 if "queue" in wanted.fields else 200, asked=wanted)
    page = await _page(visit, index, wanted)
    shown = None if wanted.is_search else await run_sync(grouped, index, wanted)
    return visit.render(
        "failed/list.html",
        asked=wanted,
        index=index,
        page=page,
        groups=shown,
        group=next((failure.kind for failure in page.failures), None) if wanted.search.group else None,
        may_change=visit.may_change(wanted.queue),
        more_fields=any(wanted.fields.get(name) for name in FIELDS if name not in {"text", "group"}),
    )


async def _page(visit: Visit, index: FailureIndex, wanted: FailureQuery) -> Page:
    if wanted.search.text:
        return await visit.read(_found, index, wanted, visit.site.settings.mask)
    return await run_sync(partial(listed, index, wanted.search, most=PAGE, before=wanted.before))


def _found(session: Session, index: FailureIndex, wanted: FailureQuery, paths: Sequence[str]) -> Page:
    with looking(session, wanted.queue):
        page = find(session, index, wanted.search, most=PAGE, before=wanted.before, seconds=SECONDS)
    with looking(session, wanted.queue):  # without the time limit of the search
        shown = allowed(session, wanted.queue, page.failures, wanted.search.text, paths)
    return page._replace(failures=shown)


def grouped(index: FailureIndex, wanted: FailureQuery) -> Groups:
    """Group an error queue as the address says."""
    kinds = groups(index.failures)
    queue = wanted.fields.get("queue", "")
    if wanted.by == "exception":
        rows = [
            Row(one.size, "", one, {"queue": queue, "group": one.kind.key}) for one in kinds[:MOST_GROUPS]
        ]
        return Groups(rows, max(0, len(kinds) - MOST_GROUPS))
    if wanted.by == "type":
        sizes = counted((one.kind.type, one.size) for one in kinds)
        field = "type"
    else:
        sizes = counted((str(one.kind.failed_queue or ""), one.size) for one in kinds)
        field = "failed_in"
    rows = [
        Row(size, name, None, {"queue": queue, field: name} if name else {})
        for name, size in sizes[:MOST_GROUPS]
    ]
    return Groups(rows, max(0, len(sizes) - MOST_GROUPS))
