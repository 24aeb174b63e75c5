"""Logs: which there are, and one with its consumers.

Invariant: the list costs nothing: its figures are those of the last look at the database.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rowbus.web.logs import consumers, dead_letters, letter, rewinding, tail
from rowbus.web.pages import Page, View

if TYPE_CHECKING:
    from starlette.responses import Response

    from rowbus.web.visit import Visit


async def _list(visit: Visit) -> Response:
    return visit.render("logs/list.html", snapshot=visit.snapshot)


async def _log(visit: Visit) -> Response:
    found = await visit.read(consumers.look, visit.query.get("log", ""))
    return visit.render("logs/log.html", found=found, log=found.state.log)


PAGE: Final = Page(
    "Logs",
    (
        View("logs", "/logs", _list),
        View("logs.log", "/logs/log", _log),
        View("logs.tail", "/logs/tail", tail.tail),
        View("logs.stream", "/logs/tail/events", tail.stream),
        rewinding.VIEW,
        dead_letters.VIEW,
        letter.VIEW,
    ),
    (rewinding.ACTION, *dead_letters.ACTIONS),
)
