"""Operations of this process and others: the list, one with its progress, and the button that stops it.

Invariants: all who may see the page may see what was done; only an operator may stop it; a log that is missing, or that
the role may not read, is an empty one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rowbus.errors import ConfigurationError, StorageError
from rowbus.transport.operations.discarded.table import bring_back, find_discarded
from rowbus.transport.operations.table import operations_table
from rowbus.transport.queues.catalog.looking import NotLookedAtError, is_there
from rowbus.web.pages import Action, Page, Question, View, change
from rowbus.web.showing import plural

if TYPE_CHECKING:
    from starlette.responses import Response

    from rowbus.database.sessions import Session
    from rowbus.messages.address import Addresses
    from rowbus.transport.operations.discarded.table import DiscardedMessages
    from rowbus.transport.operations.table import OperationRow, OperationsTable
    from rowbus.web.operations import Operation
    from rowbus.web.visit import Visit

MOST: Final = 100


def latest(session: Session, addresses: Addresses) -> list[OperationRow]:
    """Return the latest operations that were noted, the latest first."""
    table = _table(session, addresses)
    try:
        return [] if table is None else session.run(table.list(MOST))
    except StorageError:
        return []


def look(session: Session, addresses: Addresses, identity: str) -> OperationRow | None:
    """Return an operation that was noted, None if there is none."""
    table = _table(session, addresses)
    try:
        return None if table is None or "\0" in identity else session.run(table.look(identity))
    except StorageError:
        return None


def stop(session: Session, addresses: Addresses, identity: str) -> bool:
    """Ask an operation to stop, wherever it runs; say whether it was noted as running."""
    table = _table(session, addresses)
    return table is not None and "\0" not in identity and session.run(table.stop(identity)) > 0


def _table(session: Session, addresses: Addresses) -> OperationsTable | None:
    if addresses.backend != "postgresql":
        return None
    table = operations_table(addresses)
    try:
        return table if is_there(session, table) else None
    except NotLookedAtError:
        return None


GONE: Final = (
    "This operation is not known here. Where the database has no log of operations, the page keeps the last thousand, "
    "until it is restarted."
)


async def _list(visit: Visit) -> Response:
    here = list(visit.site.operations)
    noted = await visit.read(latest, visit.site.addresses)
    known = {operation.id for operation in here}
    elsewhere = [row for row in noted if row.id not in known]
    return visit.render("operations/list.html", operations=here, elsewhere=elsewhere)


async def _show(visit: Visit) -> Response:
    operation = visit.site.operations.find(visit.path["identity"])
    if operation is None:
        row = await visit.read(look, visit.site.addresses, visit.path["identity"])
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
    if stopped is None and await visit.write(stop, visit.site.addresses, visit.path["identity"]):
        return "It ends after the part that it is doing, if it still runs somewhere."
    if stopped is None or not stopped.is_running:
        return "It had ended already."
    stopped.stopping = True
    return "It ends after the part that it is doing."


async def _ask_to_undo(visit: Visit) -> Question:
    found = await _discarded(visit)
    return Question(
        title=f"Bring {plural(found.messages, 'message')} back?",
        text=f"They return to {found.queue}, as they were.",
        button="Bring them back",
        subject=f"{found.queue}: what operation {found.operation} discarded",
        back=visit.url("operation", identity=found.operation),
    )


async def _undo(visit: Visit, operation: Operation) -> str:
    found = await _discarded(visit)
    return await change(visit, operation, found.queue, _returned, bring_back, visit.site.addresses, found)


def _returned(count: int) -> str:
    return f"{plural(count, 'message')} came back."


async def _discarded(visit: Visit) -> DiscardedMessages:
    """Return what an operation discarded; raises ConfigurationError if nothing of it can be brought back."""
    found = await visit.read(find_discarded, visit.site.addresses)
    mine = [one for one in found if one.operation == visit.path["identity"]]
    if not mine:
        raise ConfigurationError(
            "Nothing of this operation can be brought back: it was, or a week has passed."
        )
    return mine[0]


PAGE: Final = Page(
    "Operations",
    (View("operations", "/operations", _list), View("operation", "/operations/{identity}", _show)),
    (
        Action("operation.stop", "/operations/{identity}/stop", "stop an operation", _ask_to_stop, _stop),
        Action("operation.undo", "/operations/{identity}/undo", "undo a discard", _ask_to_undo, _undo),
    ),
)
