"""What caused the change of a row: the message, its handler, and who asked for it, as a captured change tells it.

Invariants: reading takes any text, and raises nothing: the field is free for events of other kinds; what is said is
said for one transaction.
Source: docs/wire-format.md#causes.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

from rowbus.database.postgresql.borrowed import borrow, borrow_async
from rowbus.database.postgresql.cause import cause_values
from rowbus.database.postgresql.pipelines import is_callers
from rowbus.errors import ConfigurationError
from rowbus.errors.printable import printable_value
from rowbus.messages.headers import Header
from rowbus.running.handling import subject_in_hand

if TYPE_CHECKING:
    from rowbus.database.postgresql.connection import AsyncSession, Session
    from rowbus.database.statements import Statement


class Cause(NamedTuple):
    """What caused a change; what is not known is None."""

    message_id: str | None = None
    """The message's id; `log/event`, or `log/first-last`, where a consumer of events made the change."""

    conversation_id: str | None = None
    message_type: str | None = None
    handler: str | None = None
    endpoint: str | None = None
    user: str | None = None
    request: str | None = None


NO_CAUSE: Final = Cause()


def read_cause(text: str | None) -> Cause:
    """Return the cause that the last extra field of a captured change tells; `NO_CAUSE` where it tells none."""
    if not text or not text.startswith("{"):
        return NO_CAUSE
    try:
        found: Any = json.loads(text)
    except (ValueError, RecursionError):
        return NO_CAUSE
    given = cast("dict[str, Any]", found if isinstance(found, dict) else {})
    return Cause(*(_text(given.get(name)) for name in Cause._fields))


def _text(value: object) -> str | None:
    return value if isinstance(value, str) and value else None


def cause(connection: object, *, user: str | None = None, request: str | None = None) -> dict[str, str]:
    """Say in your transaction who changes rows of captured tables, and in which request; return what messages carry on.

    It holds until the transaction ends, for the changes that follow. Give the headers that are returned to what you
    send, `headers=`: handlers' changes then say it too, and those of all messages that they send. The connection is one
    that `Log` takes. Within a handler, its message stays what caused the change. Raises ConfigurationError outside of a
    transaction, for the statement would be all that it held for, and StorageError.
    """
    session = borrow(connection)()
    session.run(_said(session, user, request))
    return _headers(user, request)


async def cause_async(
    connection: object, *, user: str | None = None, request: str | None = None
) -> dict[str, str]:
    """Do what `cause` does, on an asynchronous connection."""
    session = await borrow_async(connection)()
    await session.run(_said(session, user, request))
    return _headers(user, request)


def _said(session: Session | AsyncSession, user: str | None, request: str | None) -> Statement[None]:
    if not is_callers(session.connection):
        raise ConfigurationError(
            "What causes a change is said for a transaction, and the connection is in none: begin one before, as by "
            "`with connection.transaction():`."
        )
    subject = subject_in_hand()
    parts = {} if subject is None else dict(subject.cause())
    for name, text in (("user", user), ("request", request)):
        if text is not None:
            parts[name] = _checked(name, text)
    return cause_values(parts, session.connection.pgconn)


def _headers(user: str | None, request: str | None) -> dict[str, str]:
    given = {Header.USER: user, Header.REQUEST: request}
    return {name: text for name, text in given.items() if text}


def _checked(name: str, text: object) -> str:
    if not isinstance(text, str):
        raise ConfigurationError(f"{name} is {printable_value(text, repr)}; give a text.")
    return text
