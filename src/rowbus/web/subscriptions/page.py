"""Subscriptions: who gets which events; those that lead nowhere can be ended.

Invariant: a subscription that works is never ended here: its endpoint would have to be asked.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rowbus.errors import QueueNotFoundError
from rowbus.web.changing import change
from rowbus.web.pages import Action, Page, Question, View
from rowbus.web.subscriptions import subscribers

if TYPE_CHECKING:
    from starlette.responses import Response

    from rowbus.web.operations import Operation
    from rowbus.web.visit import Visit

LIVES: Final = "Nothing was done: there is no such subscription any more, or its queue exists by now."


async def _show(visit: Visit) -> Response:
    text = visit.query.get("text", "").strip()
    tables, left_out = await visit.read(subscribers.look, visit.site.addresses, text)
    return visit.render("subscriptions/page.html", tables=tables, left_out=left_out, text=text)


def _named(visit: Visit) -> tuple[str, str, str]:
    return visit.form.get("table", ""), visit.form.get("endpoint", ""), visit.form.get("topic", "")


async def _ask(visit: Visit) -> Question:
    table, endpoint, topic = _named(visit)
    found = await visit.read(subscribers.find_dead, visit.site.addresses, table, endpoint, topic)
    if found is None:
        raise QueueNotFoundError(LIVES, queue=table)
    return Question(
        title="End this subscription?",
        text=f"{endpoint} gets no more copies of {topic}. Its queue {found.queue} does not exist, so it gets none now, "
        "and publishing fails.",
        details=("An endpoint that handles the event subscribes again when it starts.",),
        button="End it",
        subject=f"{endpoint}, {topic}",
    )


async def _unsubscribe(visit: Visit, operation: Operation) -> str:
    table, endpoint, topic = _named(visit)

    def tell(count: int) -> str:
        return f"{endpoint} no longer subscribes to {topic}." if count else LIVES

    addresses = visit.site.addresses
    return await change(
        visit, operation, table, tell, subscribers.unsubscribe, addresses, table, endpoint, topic
    )


PAGE: Final = Page(
    "Subscriptions",
    (View("subscriptions", "/subscriptions", _show),),
    (Action("subscriptions.end", "/subscriptions/end", "end a subscription", _ask, _unsubscribe),),
)
