"""Composes a message to a queue, of a type that its endpoint published, or of another.

Invariant: a JSON body, with an id of its own; what does not fit is said before it is sent.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from rowbus.contracts.bodies import find_example, find_misfits, taken_by
from rowbus.contracts.published import find_published
from rowbus.errors import ConfigurationError, QueueNotFoundError
from rowbus.messages.bodies.json_bodies import JSON
from rowbus.messages.headers import Header
from rowbus.transport.client import Client
from rowbus.web.contents import refuse_what_is_no_json
from rowbus.web.pages import Question, change
from rowbus.web.queues.contents import find_queue

if TYPE_CHECKING:
    from starlette.responses import Response

    from rowbus.database.sessions import Session
    from rowbus.messages.address import QueueAddress
    from rowbus.web.operations import Operation
    from rowbus.web.visit import Visit


class Draft(NamedTuple):
    """A message to a queue that is not sent yet."""

    address: QueueAddress
    types: list[str]
    body: str


async def show(visit: Visit) -> Response:
    """Show the form, with an example of the type that was chosen."""
    if not visit.may_operate:
        return visit.refuse("Not shown", "You may look here, and change nothing: your role is viewer.")
    chosen = visit.query.get("type", "").strip()
    try:
        draft = await visit.read(_draft, visit, visit.query.get("name", ""), chosen)
    except QueueNotFoundError as error:
        return visit.missing(str(error))
    return visit.render("queues/compose.html", draft=draft, chosen=chosen)


def _draft(session: Session, visit: Visit, name: str, chosen: str) -> Draft:
    address = find_queue(session, visit.site.addresses, name)
    found = find_published(session, visit.site.addresses)
    return Draft(address, taken_by(found, address), find_example(found, address, chosen).decode() or "{}")


async def ask(visit: Visit) -> Question:
    """Ask whether the message is to be sent; raises ConfigurationError for one without a type, or that is no JSON."""
    name, type_, body = _form(visit)
    address, misfits = await visit.read(_check, visit, name, type_, body)
    return Question(
        title=f"Send {type_} to {address}?",
        text="The endpoint of this queue handles it as a message that another endpoint sent.",
        button="Send it",
        subject=f"{address}: a message {type_}",
        details=tuple(f"It does not fit: {misfit}" for misfit in misfits),
        difference=body,
        back=visit.url("queue", {"name": name}),
    )


def _check(
    session: Session, visit: Visit, name: str, type_: str, body: str
) -> tuple[QueueAddress, list[str]]:
    address = find_queue(session, visit.site.addresses, name)
    return address, find_misfits(find_published(session, visit.site.addresses), address, type_, body.encode())


async def send(visit: Visit, operation: Operation) -> str:
    """Send the message."""
    name, type_, body = _form(visit)
    return await change(visit, operation, name, lambda _: f"Sent to {name}.", _send, visit, name, type_, body)


def _send(session: Session, visit: Visit, name: str, type_: str, body: str) -> int:
    client = Client(session.connection, schema=visit.site.addresses.schema)
    address = find_queue(session, visit.site.addresses, name)
    client.send(address, body.encode(), type=type_, headers={Header.CONTENT_TYPE: JSON})
    return 1


def _form(visit: Visit) -> tuple[str, str, str]:
    """Return the queue, the type and the body of the form; browsers send every line end as CR LF."""
    type_, body = visit.form.get("type", "").strip(), visit.form.get("body", "").replace("\r\n", "\n")
    if not type_:
        raise ConfigurationError("The message has no type. Go back, and name it; nothing was sent.")
    refuse_what_is_no_json(body)
    return visit.form.get("name", ""), type_, body
