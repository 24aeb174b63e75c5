"""Logs: which there are, and one with its consumers, which can be moved, back or forth.

Invariants: the list costs nothing: its figures are those of the last look at the database; a consumer that has a batch
in hand is not moved: its work would be undone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rowbus.errors import LostPositionError
from rowbus.log.catalog import find_consumer
from rowbus.log.range import NOTATION, Position, read_position
from rowbus.web.charts import consumer_charts, span_of
from rowbus.web.logs import consumers, dead_letters, events
from rowbus.web.pages import Action, Page, Question, View, change

if TYPE_CHECKING:
    from starlette.responses import Response

    from rowbus.web.logs.consumers import Move
    from rowbus.web.operations import Operation
    from rowbus.web.visit import Visit

BUSY: Final = "Nothing was done: the consumer has a batch in hand. Stop it and let it finish."
_MOST_DIGITS: Final = 18


async def _show(visit: Visit) -> Response:
    log, consumer = visit.query.get("log", ""), visit.query.get("consumer", "")
    to = visit.query.get("to", "").strip()
    state = await visit.read(find_consumer, log, consumer)
    move, trouble = await _previewed(visit, log, consumer, to) if to else (None, "")
    return visit.render(
        "logs/rewind.html", log=log, consumer=consumer, to=to, state=state, move=move, trouble=trouble
    )


async def _previewed(visit: Visit, log: str, consumer: str, to: str) -> tuple[Move | None, str]:
    """Return what moving to a position would do, or why it cannot be moved there."""
    try:
        return await visit.read(consumers.preview, log, consumer, read_position(to)), ""
    except ValueError:
        return None, f"This is no position. It is one of: {NOTATION}."
    except LostPositionError as error:
        return None, str(error)


def _named(visit: Visit) -> tuple[str, str, int]:
    tick = visit.form.get("tick", "")
    is_number = tick.isascii() and tick.isdecimal() and len(tick) <= _MOST_DIGITS
    return visit.form.get("log", ""), visit.form.get("consumer", ""), int(tick) if is_number else -1


async def _ask(visit: Visit) -> Question:
    log, consumer, tick = _named(visit)
    move = await visit.read(consumers.preview, log, consumer, Position(tick=tick))
    return Question(
        title="Move this consumer?",
        text=f"{consumer} of log {log} goes on behind tick {tick} of {move.time:%Y-%m-%d %H:%M:%S} UTC. {move.effect}",
        details=("It has to be able to handle an event twice.",) if move.again else (),
        button="Move it",
        subject=f"{consumer} of log {log} to tick {tick}",
        grave=move.skipped > 0,
        back=visit.url("logs.log", {"log": log}),
    )


async def _move(visit: Visit, operation: Operation) -> str:
    log, consumer, tick = _named(visit)

    def tell(moved: int) -> str:
        return f"{consumer} goes on behind tick {tick}." if moved else BUSY

    return await change(visit, operation, log, tell, consumers.move, log, consumer, tick)


VIEW: Final = View("logs.rewind", "/logs/rewind", _show)
ACTION: Final = Action("logs.move", "/logs/rewind/move", "move a consumer", _ask, _move)


async def _list(visit: Visit) -> Response:
    return visit.render("logs/list.html", snapshot=visit.snapshot)


async def _log(visit: Visit) -> Response:
    found = await visit.read(consumers.look, visit.query.get("log", ""))
    charts = await consumer_charts(
        visit, [each.state for one in found.consumers for each in one.lanes or [one]]
    )
    return visit.render("logs/log.html", found=found, log=found.state.log, charts=charts, span=span_of(visit))


PAGE: Final = Page(
    "Logs",
    (
        View("logs", "/logs", _list),
        View("logs.log", "/logs/log", _log),
        View("logs.tail", "/logs/tail", events.tail),
        View("logs.stream", "/logs/tail/events", events.stream),
        VIEW,
        dead_letters.VIEW,
        dead_letters.LETTER,
    ),
    (ACTION, *dead_letters.ACTIONS),
)
