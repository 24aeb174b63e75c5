"""Operations: the list, one with its progress, and the button that stops it.

Invariant: all who may see the page may see what was done; only an operator may stop it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rowbus.web.history import kept
from rowbus.web.pages import Action, Page, Question, View

if TYPE_CHECKING:
    from starlette.responses import Response

    from rowbus.web.operations import Operation
    from rowbus.web.visit import Visit

GONE: Final = (
    "This operation is not known here. Where the database has no log of operations, the page keeps the last thousand, "
    "until it is restarted."
)


async def _list(visit: Visit) -> Response:
    here = list(visit.site.operations)
    noted = await visit.read(kept.latest, visit.site.addresses)
    known = {operation.id for operation in here}
    elsewhere = [row for row in noted if row.id not in known]
    return visit.render("operations/list.html", operations=here, elsewhere=elsewhere)


async def _show(visit: Visit) -> Response:
    operation = visit.site.operations.find(visit.path["identity"])
    if operation is None:
        row = await visit.read(kept.look, visit.site.addresses, visit.path["identity"])
        return visit.missing(GONE) if row is None else visit.render("operations/kept.html", operation=row)
    return visit.render("operations/one.html", operation=operation)


async def _ask_to_stop(visit: Visit) -> Question:
    operation = visit.site.operations.find(visit.path["identity"])
    return Question(
        title="Stop this operation?",
        text="It ends after the part that it is doing; what is done stays done.",
        button="Stop it",
        subject=GONE if operation is None else f"{operation.what}, {operation.subject}",
        back=visit.url("operation", identity=visit.path["identity"]),
    )


async def _stop(visit: Visit, _operation: Operation) -> str:
    stopped = visit.site.operations.find(visit.path["identity"])
    if stopped is None and await visit.write(kept.stop, visit.site.addresses, visit.path["identity"]):
        return "It ends after the part that it is doing, if it still runs somewhere."
    if stopped is None or not stopped.is_running:
        return "It had ended already."
    stopped.stopping = True
    return "It ends after the part that it is doing."


PAGE: Final = Page(
    "Operations",
    (View("operations", "/operations", _list), View("operation", "/operations/{identity}", _show)),
    (Action("operation.stop", "/operations/{identity}/stop", "stop an operation", _ask_to_stop, _stop),),
)
