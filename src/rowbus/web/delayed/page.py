"""Delayed messages: the tables, what one holds, one message; cancel it, or send it now.

Invariant: an action does to the row what its question showed: it is found by its id and its time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rowbus.errors import QueueNotFoundError
from rowbus.web.contents import body_content
from rowbus.web.delayed import messages
from rowbus.web.pages import Action, Page, Question, View, change

if TYPE_CHECKING:
    from starlette.responses import Response

    from rowbus.web.delayed.messages import One
    from rowbus.web.operations import Operation
    from rowbus.web.visit import Visit

GONE: Final = "This message does not wait any more: it was sent to its queue, or cancelled."
TAKEN: Final = (
    "Nothing was done: the message does not wait any more, or a mover has it in its hands just now."
)


async def _tables(visit: Visit) -> Response:
    snapshot = visit.snapshot
    return visit.render("delayed/tables.html", tables=snapshot.delayed, left_out=snapshot.delayed_left_out)


async def _table(visit: Visit) -> Response:
    name, text = visit.query.get("table", ""), visit.query.get("text", "").strip()
    after = visit.query.get("after", "")
    try:
        found = await visit.read(messages.search, visit.site.addresses, name, text, after)
    except QueueNotFoundError as error:
        return visit.missing(str(error))
    figures = next((one for one in visit.snapshot.delayed if str(one.address) == name), None)
    return visit.render("delayed/table.html", name=name, text=text, after=after, found=found, figures=figures)


async def _message(visit: Visit) -> Response:
    name, row_id = visit.query.get("table", ""), visit.query.get("row", "")
    try:
        one = await visit.read(messages.look, visit.site.addresses, name, row_id)
    except QueueNotFoundError as error:
        return visit.missing(str(error))
    if one is None:
        return visit.missing(GONE)
    content = body_content(one.message.body, one.message.size, visit.site.settings.mask)
    return visit.render("delayed/message.html", name=name, one=one, message=one.message, content=content)


async def _asked(visit: Visit) -> One:
    """Return the message that a form names; raises QueueNotFoundError if it does not wait any more."""
    name, row_id = visit.form.get("table", ""), visit.form.get("row", "")
    one = await visit.read(messages.look, visit.site.addresses, name, row_id)
    if one is None:
        raise QueueNotFoundError(GONE, queue=name)
    return one


def _back(visit: Visit) -> str:
    return visit.url("delayed.table", {"table": visit.form.get("table", "")})


def _named(one: One) -> str:
    return f"{one.message.type or 'a message without a type'}, {one.message.message_id or 'without an id'}"


async def _ask_to_cancel(visit: Visit) -> Question:
    one = await _asked(visit)
    name = visit.form.get("table", "")
    return Question(
        title="Cancel this message?",
        text=f"1 message of {name} is deleted, and never delivered.",
        details=(_named(one), f"due {one.message.due:%Y-%m-%d %H:%M:%S} UTC, for {one.message.destination}"),
        button="Cancel it",
        subject=f"{name}: {_named(one)}",
        grave=True,
        back=_back(visit),
    )


async def _ask_to_send(visit: Visit) -> Question:
    one = await _asked(visit)
    name = visit.form.get("table", "")
    return Question(
        title="Send this message now?",
        text=f"1 message of {name} goes to {one.message.destination or 'the queue of its endpoint'} at once.",
        details=(_named(one), f"it is due {one.message.due:%Y-%m-%d %H:%M:%S} UTC"),
        button="Send it now",
        subject=f"{name}: {_named(one)}",
        back=_back(visit),
    )


async def _cancel(visit: Visit, operation: Operation) -> str:
    one = await _asked(visit)
    name = visit.form.get("table", "")
    addresses = visit.site.addresses
    return await change(visit, operation, name, _cancelled, messages.cancel, addresses, name, one.message)


async def _send(visit: Visit, operation: Operation) -> str:
    one = await _asked(visit)
    name = visit.form.get("table", "")
    addresses = visit.site.addresses
    return await change(visit, operation, name, _sent, messages.send, addresses, name, one.message)


def _cancelled(count: int) -> str:
    return "The message is cancelled." if count else TAKEN


def _sent(count: int) -> str:
    return "The message is in its queue." if count else TAKEN


PAGE: Final = Page(
    "Delayed",
    (
        View("delayed", "/delayed", _tables),
        View("delayed.table", "/delayed/table", _table),
        View("delayed.message", "/delayed/message", _message),
    ),
    (
        Action("delayed.cancel", "/delayed/cancel", "cancel a delayed message", _ask_to_cancel, _cancel),
        Action("delayed.send", "/delayed/send-now", "send a delayed message now", _ask_to_send, _send),
    ),
)
