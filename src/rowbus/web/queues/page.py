"""A queue, one of its messages, and the endpoint that receives there; a queue can be sent to, and emptied.

Invariant: what is emptied is the queue that the question named, and the answer says how many messages that were.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from rowbus.errors import QueueNotFoundError
from rowbus.transport.long_work.table import Cancelling
from rowbus.web.charts import queue_charts, span_of, sparks
from rowbus.web.contents import body_content
from rowbus.web.pages import Action, Page, Question, View, change
from rowbus.web.queues import composing, contents
from rowbus.web.showing import plural

if TYPE_CHECKING:
    from starlette.responses import Response

    from rowbus.database.sessions import Session
    from rowbus.messages.address import QueueAddress
    from rowbus.transport.pauses.table import Pause
    from rowbus.web.operations import Operation
    from rowbus.web.queues.contents import Contents, QueuedMessage, Work
    from rowbus.web.visit import Visit

ROW: Final = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
GONE: Final = "This message does not wait here any more: it was received, or its queue was emptied."


async def _queue(visit: Visit) -> Response:
    try:
        address, found = await visit.read(_peek, visit, visit.query.get("name", ""))
    except QueueNotFoundError as error:
        return visit.missing(str(error))
    charts = await queue_charts(visit, address)
    return visit.render("queues/queue.html", found=found, charts=charts, **_known(visit, address))


def _peek(session: Session, visit: Visit, text: str) -> tuple[QueueAddress, Contents]:
    address = contents.find_queue(session, visit.site.addresses, text)
    return address, contents.peek(session, visit.site.addresses, address)


def _known(visit: Visit, address: QueueAddress) -> dict[str, Any]:
    """Return what the latest look found of a queue and its endpoint."""
    snapshot = visit.snapshot
    return {
        "address": address,
        "figures": snapshot.queue(address),
        "receivers": [one for one in snapshot.receivers if one.queue == address],
        "gone": next((one for one in snapshot.gone if one.queue == address), None),
        "pauses": _pauses(visit, address),
        "findings": [one for one in snapshot.findings if one.subject == str(address)],
        "spark": sparks(visit),
        "span": span_of(visit),
    }


def _pauses(visit: Visit, address: QueueAddress) -> list[Pause]:
    named = {("queue", str(address)), ("endpoint", address.table)}
    return [one for one in visit.snapshot.pauses if (one.kind, one.name) in named]


async def _message(visit: Visit) -> Response:
    name, row = visit.query.get("name", ""), visit.query.get("row", "")
    try:
        address, message = await visit.read(_look, visit, name, row)
    except QueueNotFoundError as error:
        return visit.missing(str(error))
    if message is None:
        return visit.missing(GONE)
    body = message.row.body or b""
    size = len(body) if message.row.cut_from is None else message.row.cut_from
    content = body_content(message.row.body, size, visit.site.settings.mask)
    return visit.render("queues/message.html", address=address, message=message, content=content, size=size)


def _look(session: Session, visit: Visit, name: str, row: str) -> tuple[QueueAddress, QueuedMessage | None]:
    address = contents.find_queue(session, visit.site.addresses, name)
    return address, contents.look(session, address, row) if ROW.fullmatch(row) else None


async def _endpoint(visit: Visit) -> Response:
    if not visit.site.database.has_logs:  # that is PostgreSQL
        return visit.missing("Endpoints are shown on PostgreSQL only.")
    try:
        address, work = await visit.read(_work, visit, visit.query.get("name", ""))
    except QueueNotFoundError as error:
        return visit.missing(str(error))
    delayed = {one.address for one in visit.snapshot.delayed}
    return visit.render(
        "queues/endpoint.html",
        work=work,
        delayed=delayed,
        charts=await queue_charts(visit, address),
        **_known(visit, address),
    )


def _work(session: Session, visit: Visit, text: str) -> tuple[QueueAddress, Work]:
    address = contents.find_queue(session, visit.site.addresses, text)
    return address, contents.work_of(session, visit.site.addresses, address)


async def _ask_to_purge(visit: Visit) -> Question:
    text = visit.form.get("name", "")
    address, depth = await visit.read(_depth, visit, text)
    return Question(
        title=f"Delete {depth} of {address}?",
        text="They are deleted for good: nobody receives them, and they cannot be brought back.",
        details=("Messages in hand are waited for, ten seconds at most; then nothing is deleted.",),
        button="Delete them",
        subject=f"{address}: all messages",
        grave=True,
        back=visit.url("queue", {"name": text}),
    )


def _depth(session: Session, visit: Visit, text: str) -> tuple[QueueAddress, str]:
    address = contents.find_queue(session, visit.site.addresses, text)
    figures = visit.snapshot.queue(address)
    if figures is None or figures.depth is None:
        return address, "all messages"
    return address, f"{'' if figures.is_exact else 'about '}{plural(figures.depth, 'message')}"


async def _purge(visit: Visit, operation: Operation) -> str:
    text = visit.form.get("name", "")
    return await change(visit, operation, text, _purged, contents.purge, visit.site.addresses, text)


def _purged(count: int) -> str:
    return f"{plural(count, 'message was', 'messages were')} deleted."


async def _ask_to_cancel(visit: Visit) -> Question:
    message_id, name = visit.form.get("message", ""), visit.form.get("name", "")
    return Question(
        title=f"End the handler of message {message_id}?",
        text="What it did in the database is undone, and the message is moved to the error queue, with your name.",
        button="End it",
        subject=f"{name}: message {message_id}",
        back=visit.url("endpoint", {"name": name}),
    )


async def _cancel(visit: Visit, operation: Operation) -> str:
    message_id, name = visit.form.get("message", ""), visit.form.get("name", "")
    cancelling, addresses = Cancelling(operation.who, "on the web page"), visit.site.addresses
    return await change(
        visit, operation, name, _cancelled, contents.cancel, addresses, name, message_id, cancelling
    )


def _cancelled(count: int) -> str:
    return "Its handler ends within two seconds." if count else "No handler runs for it any more."


PAGE: Final = Page(
    "Queue",
    (
        View("queue", "/queue", _queue),
        View("queue.message", "/queue/message", _message),
        View("queue.compose", "/queue/compose", composing.show),
        View("endpoint", "/endpoint", _endpoint),
    ),
    (
        Action("queue.send", "/queue/send", "send a message", composing.ask, composing.send),
        Action("queue.purge", "/queue/purge", "purge", _ask_to_purge, _purge),
        Action("endpoint.cancel", "/endpoint/cancel", "cancel running work", _ask_to_cancel, _cancel),
    ),
    in_navigation=False,
)
