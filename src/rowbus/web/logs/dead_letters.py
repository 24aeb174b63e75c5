"""Dead letters: the events that a consumer has given up on; replay them, or discard them.

Invariant: only `discard` takes dead letters away for good, and it asks first.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from rowbus.log.consumers.table import ConsumerTable
from rowbus.web.changing import change
from rowbus.web.contents import text_content
from rowbus.web.logs.consumers import find_consumer
from rowbus.web.logs.events import shown_event
from rowbus.web.logs.rights import LogRights, log_rights
from rowbus.web.pages import Action, Question, View
from rowbus.web.showing import plural

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from starlette.responses import Response

    from rowbus.database.sessions import Session
    from rowbus.log.event import DeadEvent
    from rowbus.web.contents import Content
    from rowbus.web.logs.events import ShownEvent
    from rowbus.web.operations import Operation
    from rowbus.web.visit import Visit

MOST_SHOWN: Final = 100
NONE_LEFT: Final = "Nothing was done: there is no such dead letter any more."


class DeadLetter(NamedTuple):
    """A dead letter as the page shows it."""

    id: int
    time: datetime
    reason: Content
    shown: ShownEvent


class DeadLetters(NamedTuple):
    """A consumer's oldest dead letters, how many it has, and what the database's role may do."""

    letters: list[DeadLetter]
    total: int
    rights: LogRights


def look(session: Session, log: str, consumer: str, paths: Sequence[str]) -> DeadLetters:
    """Look at a consumer's dead letters; raises ConsumerNotFoundError."""
    state = find_consumer(session, log, consumer)
    found = session.run(ConsumerTable(log, consumer).dead_letters(MOST_SHOWN))
    return DeadLetters([_shown(one, paths) for one in found], state.dead_letters, session.run(log_rights()))


def _shown(dead: DeadEvent, paths: Sequence[str]) -> DeadLetter:
    return DeadLetter(dead.id, dead.time, text_content(dead.reason or "", ()), shown_event(dead.event, paths))


def replay(session: Session, log: str, consumer: str, ids: list[int] | None) -> int:
    """Have dead letters delivered again, all or those given; say how many."""
    return session.run(ConsumerTable(log, consumer).replay(ids))


def discard(session: Session, log: str, consumer: str) -> int:
    """Delete all dead letters of a consumer; say how many."""
    return session.run(ConsumerTable(log, consumer).purge(None))


async def _show(visit: Visit) -> Response:
    log, consumer = visit.query.get("log", ""), visit.query.get("consumer", "")
    found = await visit.read(look, log, consumer, visit.site.settings.mask)
    return visit.render("logs/dead_letters.html", log=log, consumer=consumer, found=found)


def _named(visit: Visit) -> tuple[str, str]:
    return visit.form.get("log", ""), visit.form.get("consumer", "")


def _ids(visit: Visit) -> list[int] | None:
    """Return the dead letters that a form names; None means all."""
    if visit.form.get("all"):
        return None
    return [int(text) for text in visit.form.getlist("letter") if text.isascii() and text.isdecimal()]


async def _count(visit: Visit) -> int:
    log, consumer = _named(visit)
    return (await visit.read(find_consumer, log, consumer)).dead_letters


def _back(visit: Visit) -> str:
    log, consumer = _named(visit)
    return visit.url("logs.dead", {"log": log, "consumer": consumer})


async def _ask_to_replay(visit: Visit) -> Question:
    (log, consumer), ids = _named(visit), _ids(visit)
    count = await _count(visit) if ids is None else len(ids)
    return Question(
        title="Replay these dead letters?",
        text=f"{count:,} {'event is' if count == 1 else 'events are'} delivered to {consumer} of log {log} again, soon "
        "and with retries counted anew.",
        button="Replay",
        subject=f"{count:,} of {consumer} of log {log}",
        back=_back(visit),
    )


async def _ask_to_discard(visit: Visit) -> Question:
    log, consumer = _named(visit)
    count = await _count(visit)
    return Question(
        title="Discard all these dead letters?",
        text=f"{count:,} {'event' if count == 1 else 'events'} that {consumer} of log {log} has given up on, and those "
        "that it gives up on until then, are deleted and cannot be brought back.",
        button="Discard them",
        subject=f"{count:,} of {consumer} of log {log}",
        grave=True,
        back=_back(visit),
    )


async def _replay(visit: Visit, operation: Operation) -> str:
    log, consumer = _named(visit)
    return await change(visit, operation, log, _replayed, replay, log, consumer, _ids(visit))


async def _discard(visit: Visit, operation: Operation) -> str:
    log, consumer = _named(visit)
    return await change(visit, operation, log, _discarded, discard, log, consumer)


def _replayed(count: int) -> str:
    return f"{plural(count, 'event')} will be delivered again." if count else NONE_LEFT


def _discarded(count: int) -> str:
    return f"{plural(count, 'dead letter')} deleted." if count else NONE_LEFT


VIEW: Final = View("logs.dead", "/logs/dead-letters", _show)
ACTIONS: Final = (
    Action("logs.replay", "/logs/dead-letters/replay", "replay dead letters", _ask_to_replay, _replay),
    Action("logs.discard", "/logs/dead-letters/discard", "discard dead letters", _ask_to_discard, _discard),
)
