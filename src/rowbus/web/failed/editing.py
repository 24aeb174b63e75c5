"""Edits a failed message and sends it back as a new one.

Invariant: what is not shown cannot be edited: a body that is masked, cut or no text stays as it is.
"""

from __future__ import annotations

from difflib import unified_diff
from typing import TYPE_CHECKING, Final

from rowbus.contracts.bodies import completed
from rowbus.contracts.published import find_published
from rowbus.errors import ConfigurationError
from rowbus.messages.bodies.json_bodies import JSON_TYPES, reason_not_json
from rowbus.messages.headers import Header
from rowbus.transport.queues.catalog.looking import refuse_strangers
from rowbus.transport.recoverability.error_queue import ErrorQueue, Result
from rowbus.transport.recoverability.failed_message import is_own
from rowbus.web.contents import refuse_what_is_no_json
from rowbus.web.failed.bodies import laid_out
from rowbus.web.failed.indexes import asked
from rowbus.web.failed.message import GONE, found, misfits_of
from rowbus.web.operations import Note, State, begin, end, note
from rowbus.web.pages import Question

if TYPE_CHECKING:
    from starlette.responses import Response

    from rowbus.database.sessions import Session
    from rowbus.messages.address import QueueAddress
    from rowbus.web.failed.message import Message
    from rowbus.web.operations import Operation
    from rowbus.web.visit import Visit

EMPTY_FIELDS: Final = 2  # for headers that are added
MOST_LINES: Final = 200  # of a difference


async def show(visit: Visit) -> Response:
    """Show the form."""
    queue = asked(visit.query, visit.site.addresses).queue
    if not visit.may_change(queue):
        return visit.refuse("Not shown", "You may look here, and change nothing: your role is viewer.")
    message = await found(visit, queue, visit.path["row"])
    if message is None:
        return visit.missing(GONE)
    if reason := _reason_not_to(visit, message):
        return visit.refuse("This message cannot be edited", reason, status=409)
    body, lacking = _text(message), await visit.read(_completed, visit, message)
    is_completed = "complete" in visit.query
    return visit.render(
        "failed/edit.html",
        queue=queue,
        query={"queue": visit.query.get("queue", "")},
        message=message,
        body=laid_out(lacking if is_completed else body),
        may_complete=lacking != body and not is_completed,
        own=[*message.own.items(), *[("", "")] * EMPTY_FIELDS],
    )


async def ask(visit: Visit) -> Question:
    """Ask whether the edited message is to be sent."""
    message = await _found(visit)
    query = {"queue": visit.form.get("queue", "")}
    changes = _changes(visit, message)
    misfits = await visit.read(misfits_of, visit.site.addresses, message.failed, _edited(visit, message))
    return Question(
        title="Send the edited message?",
        text=f"A new message goes to {message.failed.failed_queue or 'no queue'} in place of "
        f"{message.failed.message_id}, which leaves the error queue. It has an id of its own, and names the other in "
        "ServiceControl.EditOf.",
        button="Send it",
        subject=f"message {message.failed.message_id}",
        details=(
            *(changes or ["Nothing was changed: it is sent as it is."]),
            *(f"It does not fit: {misfit}" for misfit in misfits),
        ),
        difference=_difference(visit, message),
        back=visit.url("failed.message", query, row=message.row.id),
    )


async def send(visit: Visit, operation: Operation) -> str:
    """Send the edited message in place of the failed one."""
    message = await _found(visit)
    queue = asked({"queue": visit.form.get("queue", "")}, visit.site.addresses).queue
    operation.advance(0, total=1)
    result = await visit.write(_send, visit, operation, queue, message)
    operation.advance(result.moved.total())
    text = _told(result)
    if not result.moved:
        raise ConfigurationError(text)
    return text


def _send(
    session: Session, visit: Visit, operation: Operation, queue: QueueAddress, message: Message
) -> Result:
    """Note, send and discard, in one transaction."""
    refuse_strangers(session, queue)
    table = begin(session, visit.site.addresses, operation, Note(str(queue), 1))
    with session.transaction():
        errors = ErrorQueue(session, queue, person=operation.who)
        result = errors.retry_edited(message.failed, _edited(visit, message), _own(visit))
        note(session, table, operation, result.moved.total(), result.stayed.total())
        state = State.DONE if result.moved else State.FAILED
        end(session, table, operation, state, _told(result))
    return result


async def _found(visit: Visit) -> Message:
    queue = asked({"queue": visit.form.get("queue", "")}, visit.site.addresses).queue
    message = await found(visit, queue, visit.form.get("row") or "")
    if message is None:
        raise ConfigurationError(GONE)
    if reason := _reason_not_to(visit, message):
        raise ConfigurationError(reason)
    return message


def _reason_not_to(visit: Visit, message: Message) -> str:
    if message.headers is None:
        return "Its headers cannot be read, so its type is not known."
    if visit.site.settings.mask:
        return "Bodies are masked here, and what is not shown cannot be edited."
    if message.row.cut_from is not None or not message.body.is_text:
        return "Its body is too large, or no text."
    return ""


def _text(message: Message) -> str:
    return (message.row.body or b"").decode("utf-8")


def _completed(session: Session, visit: Visit, message: Message) -> str:
    """Return the body with the fields that the endpoint that failed to handle it requires."""
    failed, body = message.failed, message.row.body or b""
    if failed.failed_queue is None:
        return _text(message)
    found = find_published(session, visit.site.addresses)
    return completed(found, failed.failed_queue, failed.type or "", body).decode("utf-8")


def _edited(visit: Visit, message: Message) -> bytes:
    """Return the body of the form; browsers send every line end as CR LF."""
    text, before = visit.form.get("body") or "", _text(message)
    if text.replace("\r\n", "\n") == laid_out(before).replace("\r\n", "\n"):
        return message.row.body or b""  # nobody touched it
    _check(text, before, message)
    return (text if "\r\n" in before else text.replace("\r\n", "\n")).encode()


def _check(text: str, before: str, message: Message) -> None:
    """Raise ConfigurationError for a body that is to be JSON and is none."""
    content_type = (message.headers or {}).get(Header.CONTENT_TYPE)
    is_json = JSON_TYPES.match(content_type) if content_type else reason_not_json(before) is None
    if is_json:
        refuse_what_is_no_json(text)


def _difference(visit: Visit, message: Message) -> str:
    """Return what is different in the body, line by line."""
    before, now = laid_out(_text(message)), laid_out(_edited(visit, message).decode())
    lines = list(unified_diff(before.splitlines(), now.splitlines(), n=2, lineterm=""))[2:]
    return "\n".join([*lines[:MOST_LINES], *(["…"] if len(lines) > MOST_LINES else [])])


def _own(visit: Visit) -> dict[str, str]:
    """Return the application's headers as the form has them; raises ConfigurationError for another's."""
    pairs = zip(visit.form.getlist("header"), visit.form.getlist("value"), strict=False)
    own = {name.strip(): value for name, value in pairs if name.strip()}
    if refused := [name for name in own if not is_own(name)]:
        raise ConfigurationError(f"{refused[0]!r} is a header of the framework's, which is not edited here.")
    return own


def _changes(visit: Visit, message: Message) -> list[str]:
    own, edited = _own(visit), _edited(visit, message)
    before = message.own
    changes = [f"header {name}: {value}" for name, value in own.items() if before.get(name) != value]
    changes += [f"header {name} is left out" for name in before if name not in own]
    if edited != (message.row.body or b""):
        changes.append(
            f"the body, which has {len(edited):,} bytes now and had {len(message.row.body or b''):,}"
        )
    return changes


def _told(result: Result) -> str:
    moved = [f"Sent to {queue}." for queue in result.moved]
    return "\n".join([*moved, *(f"It stayed: {reason}." for reason in result.stayed)])
