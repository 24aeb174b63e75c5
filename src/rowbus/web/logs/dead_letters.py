"""Dead letters: the events that a consumer has given up on; replay or discard one, those ticked, or all.

Invariants: only `discard` takes dead letters away for good, and it asks first; data is masked before anything else is
made of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from rowbus.log.catalog import find_consumer
from rowbus.log.consumers.table import ConsumerTable
from rowbus.web.contents import text_content
from rowbus.web.failed.bodies import shown
from rowbus.web.logs.consumers import LogRights, log_rights
from rowbus.web.logs.events import shown_event
from rowbus.web.pages import Action, Question, View, change
from rowbus.web.showing import plural

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from starlette.responses import Response

    from rowbus.database.sessions import Session
    from rowbus.log.event import DeadEvent
    from rowbus.web.contents import Content
    from rowbus.web.failed.bodies import Body
    from rowbus.web.logs.events import ShownEvent
    from rowbus.web.operations import Operation
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


def look_at(session: Session, log: str, consumer: str, number: int, paths: Sequence[str]) -> Letter | None:
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


async def _show_letter(visit: Visit) -> Response:
    log, consumer = visit.query.get("log", ""), visit.query.get("consumer", "")
    number = number_of(visit.query.get("letter", ""))
    paths = visit.site.settings.mask
    found = None if number is None else await visit.read(look_at, log, consumer, number, paths)
    if found is None:
        return visit.missing(GONE)
    return visit.render("logs/letter.html", log=log, consumer=consumer, letter=found)


LETTER: Final = View("logs.letter", "/logs/dead-letter", _show_letter)


MOST_SHOWN: Final = 100
NONE_LEFT: Final = "Nothing was done: there is no such dead letter any more."


class DeadLetter(NamedTuple):
    """A dead letter as the page shows it."""

    id: int
    time: datetime
    reason: Content
    shown: ShownEvent


class DeadLetters(NamedTuple):
    """Some of a consumer's dead letters, the oldest first, how many it has, and what the database's role may do.

    `following` is the last of them, if there are more behind it.
    """

    letters: list[DeadLetter]
    following: int | None
    total: int
    rights: LogRights


def look(session: Session, log: str, consumer: str, after: int, paths: Sequence[str]) -> DeadLetters:
    """Look at a consumer's dead letters behind one of them; raises ConsumerNotFoundError."""
    state = find_consumer(session, log, consumer)
    found = session.run(ConsumerTable(log, consumer).dead_letters(MOST_SHOWN + 1, after))
    shown = [_shown(one, paths) for one in found[:MOST_SHOWN]]
    following = shown[-1].id if len(found) > MOST_SHOWN else None
    return DeadLetters(shown, following, state.dead_letters, session.run(log_rights()))


def _shown(dead: DeadEvent, paths: Sequence[str]) -> DeadLetter:
    return DeadLetter(dead.id, dead.time, text_content(dead.reason or "", ()), shown_event(dead.event, paths))


def replay(session: Session, log: str, consumer: str, ids: list[int] | None) -> int:
    """Have dead letters delivered again, all or those given; say how many."""
    return session.run(ConsumerTable(log, consumer).replay(ids))


def discard(session: Session, log: str, consumer: str, ids: list[int] | None) -> int:
    """Delete dead letters, all or those given; say how many."""
    table = ConsumerTable(log, consumer)
    return session.run(table.purge(None) if ids is None else table.discard(ids))


async def _show(visit: Visit) -> Response:
    log, consumer = visit.query.get("log", ""), visit.query.get("consumer", "")
    after = number_of(visit.query.get("after", "")) or 0
    found = await visit.read(look, log, consumer, after, visit.site.settings.mask)
    return visit.render("logs/dead_letters.html", log=log, consumer=consumer, after=after, found=found)


def _named(visit: Visit) -> tuple[str, str]:
    return visit.form.get("log", ""), visit.form.get("consumer", "")


def _ids(visit: Visit) -> list[int] | None:
    """Return the dead letters that a form names; None means all."""
    if visit.form.get("all"):
        return None
    return [number for text in visit.form.getlist("letter") if (number := number_of(text)) is not None]


async def _count(visit: Visit) -> int:
    """Count what a form means. Raises ConsumerNotFoundError."""
    log, consumer = _named(visit)
    ids, state = _ids(visit), await visit.read(find_consumer, log, consumer)
    return state.dead_letters if ids is None else len(ids)


def _subject(visit: Visit, count: int) -> str:
    (log, consumer), ids = _named(visit), _ids(visit)
    which = f"dead letter {ids[0]}" if ids is not None and len(ids) == 1 else f"{count:,}"
    return f"{which} of {consumer} of log {log}"


def _back(visit: Visit) -> str:
    log, consumer = _named(visit)
    return visit.url("logs.dead", {"log": log, "consumer": consumer})


async def _ask_to_replay(visit: Visit) -> Question:
    log, consumer = _named(visit)
    count = await _count(visit)
    return Question(
        title="Replay these dead letters?" if count != 1 else "Replay this dead letter?",
        text=f"{count:,} {'event is' if count == 1 else 'events are'} delivered to {consumer} of log {log} again, soon "
        "and with retries counted anew.",
        button="Replay",
        subject=_subject(visit, count),
        back=_back(visit),
    )


async def _ask_to_discard(visit: Visit) -> Question:
    log, consumer = _named(visit)
    count, ids = await _count(visit), _ids(visit)
    to_come = ", and those that it gives up on until then," if ids is None else ""
    events = plural(count, "event")
    return Question(
        title=_discarding(count, is_all=ids is None),
        text=f"{events} that {consumer} of log {log} has given up on{to_come} "
        f"{'is' if count == 1 and not to_come else 'are'} deleted and cannot be brought back.",
        button="Discard them" if count != 1 or to_come else "Discard it",
        subject=_subject(visit, count),
        grave=True,
        back=_back(visit),
    )


def _discarding(count: int, *, is_all: bool) -> str:
    if is_all:
        return "Discard all these dead letters?"
    return "Discard this dead letter?" if count == 1 else "Discard these dead letters?"


async def _replay(visit: Visit, operation: Operation) -> str:
    log, consumer = _named(visit)
    return await change(visit, operation, log, _replayed, replay, log, consumer, _ids(visit))


async def _discard(visit: Visit, operation: Operation) -> str:
    log, consumer = _named(visit)
    return await change(visit, operation, log, _discarded, discard, log, consumer, _ids(visit))


def _replayed(count: int) -> str:
    return f"{plural(count, 'event')} will be delivered again." if count else NONE_LEFT


def _discarded(count: int) -> str:
    return f"{plural(count, 'dead letter')} deleted." if count else NONE_LEFT


VIEW: Final = View("logs.dead", "/logs/dead-letters", _show)
ACTIONS: Final = (
    Action("logs.replay", "/logs/dead-letters/replay", "replay dead letters", _ask_to_replay, _replay),
    Action("logs.discard", "/logs/dead-letters/discard", "discard dead letters", _ask_to_discard, _discard),
)
