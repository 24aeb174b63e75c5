"""One dead letter: its event with folded data, why the consumer gave up on it, and when.

Invariant: data is masked before anything else is made of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from rowbus.log.consumers.table import ConsumerTable
from rowbus.web.contents import text_content
from rowbus.web.failed.bodies import shown
from rowbus.web.logs.consumers import find_consumer
from rowbus.web.logs.events import shown_event
from rowbus.web.logs.rights import LogRights, log_rights
from rowbus.web.pages import View

if TYPE_CHECKING:
    from collections.abc import Sequence

    from starlette.responses import Response

    from rowbus.database.sessions import Session
    from rowbus.log.event import DeadEvent
    from rowbus.web.contents import Content
    from rowbus.web.failed.bodies import Body
    from rowbus.web.logs.events import ShownEvent
    from rowbus.web.visit import Visit

GONE: Final = "This dead letter is no longer there: it was replayed or discarded, or the address is wrong."
_MOST_DIGITS: Final = 18


class Letter(NamedTuple):
    """A dead letter, read; `body` is the event's data as one that folds, if it is JSON."""

    dead: DeadEvent
    reason: Content
    body: Body
    shown: ShownEvent
    rights: LogRights


def number_of(text: str) -> int | None:
    """Read the number of a dead letter; None for what is none."""
    return int(text) if text.isascii() and text.isdecimal() and len(text) <= _MOST_DIGITS else None


def look(session: Session, log: str, consumer: str, number: int, paths: Sequence[str]) -> Letter | None:
    """Read one dead letter; None if it is gone. Raises ConsumerNotFoundError."""
    find_consumer(session, log, consumer)
    found = session.run(ConsumerTable(log, consumer).dead_letters(1, after=number - 1))
    if not found or found[0].id != number:
        return None
    (dead,) = found
    return Letter(
        dead,
        text_content(dead.reason or "", ()),
        shown((dead.event.data or "").encode(), paths),
        shown_event(dead.event, paths),
        session.run(log_rights()),
    )


async def _show(visit: Visit) -> Response:
    log, consumer = visit.query.get("log", ""), visit.query.get("consumer", "")
    number = number_of(visit.query.get("letter", ""))
    paths = visit.site.settings.mask
    found = None if number is None else await visit.read(look, log, consumer, number, paths)
    if found is None:
        return visit.missing(GONE)
    return visit.render("logs/letter.html", log=log, consumer=consumer, letter=found)


VIEW: Final = View("logs.letter", "/logs/dead-letter", _show)
