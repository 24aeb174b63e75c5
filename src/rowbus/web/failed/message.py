"""One failed message, with all that is known of it, and two attempts at it beside each other: what is the same of them.

Invariants: what is stored is shown as text; a body is masked before anything else is made of it. `compared` is pure; a
number that names no attempt means the one that is compared by default, the last or the one before.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from rowbus.contracts.bodies import find_misfits
from rowbus.contracts.published import find_published
from rowbus.errors import ConfigurationError, InvalidAddressError, MalformedHeadersError
from rowbus.messages.address import address_of
from rowbus.messages.headers import decode_headers
from rowbus.transport.queues.catalog.looking import looking
from rowbus.transport.queues.diagnosis import duration
from rowbus.transport.recoverability.failed_message import (
    FailedMessage,
    failed_before,
    is_own,
    past_attempts,
    read,
)
from rowbus.transport.recoverability.table import error_queue_table
from rowbus.web.failed.bodies import Body, shown
from rowbus.web.failed.conversation import TRACES, Conversation, conversation, origin
from rowbus.web.failed.indexes import asked, indexes
from rowbus.web.showing import LONGEST_LINES

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from starlette.responses import Response

    from rowbus.database.sessions import Session
    from rowbus.messages.address import Addresses, QueueAddress
    from rowbus.messages.message import PeekedMessage
    from rowbus.transport.recoverability.failed_message import PastAttempt
    from rowbus.transport.recoverability.failures.index import FailureIndex
    from rowbus.web.visit import Visit

AUDIT: Final = "audit"
GONE: Final = (
    "This message is no longer in the error queue: it was sent back or discarded, or the address is wrong."
)

_CALL: Final = re.compile(r'^  File "', re.MULTILINE)
_LIBRARIES: Final = r"(?:site-packages|src)/(?:rowbus/(?!demo/)|(?:anyio|psycopg|psycopg_pool)/)"
_CARRIERS: Final = r"python3\.\d+/(?:asyncio|concurrent|threading)"
_OUR_CALLS: Final = re.compile(
    rf'(?:^  File "[^"\n]{{0,500}}/(?:{_LIBRARIES}|{_CARRIERS})[^"\n]{{0,500}}",.*\n(?: {{4}}.*\n)*)+',
    re.MULTILINE,
)
_ROW: Final = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


class Line(NamedTuple):
    """One thing that attempts have."""

    what: str
    first: str
    second: str

    @property
    def differs(self) -> bool:
        """Whether it is another than it was."""
        return self.first != self.second


class Comparison(NamedTuple):
    """Two attempts by their numbers, from 1; what they have, and how long it was from one to the other."""

    first: int
    second: int
    lines: list[Line]
    apart: str


class Calls(NamedTuple):
    """Lines of a traceback; those of calls of ours, or of the libraries under us, are folded: `hidden` counts them."""

    text: str
    hidden: int = 0


class Message(NamedTuple):
    """A row of an error queue, read; `headers` are None when they cannot be read."""

    row: PeekedMessage
    failed: FailedMessage
    headers: Mapping[str, str | None] | None
    body: Body

    @property
    def own(self) -> dict[str, str]:
        """The application's headers."""
        return {name: value or "" for name, value in (self.headers or {}).items() if is_own(name)}

    @property
    def traces(self) -> list[tuple[str, list[Calls]]]:
        """The exception's headers on where it was raised: a title each, and the calls."""
        headers = self.headers or {}
        return [(title, list(folded(text))) for title, name in TRACES if (text := headers.get(name))]

    @property
    def rest(self) -> list[tuple[str, str | None]]:
        """The headers that are not shown as traces."""
        traces = {name for _, name in TRACES}
        return [(name, value) for name, value in (self.headers or {}).items() if name not in traces]


async def show(visit: Visit) -> Response:
    """Show one failed message."""
    try:
        queue = asked(visit.query, visit.site.addresses).queue
    except (ConfigurationError, InvalidAddressError) as error:
        return visit.refuse("That cannot be shown", str(error), status=400)
    index = await indexes(visit.site).fresh(visit, queue)
    found = await visit.read(_look, index, visit.path["row"], *_rest(visit))
    if found is None:
        return visit.missing(GONE)
    message, told, misfits = found
    tried = attempts(message.headers or {})
    return visit.render(
        "failed/message.html",
        queue=queue,
        query={"queue": visit.query.get("queue", "")},
        message=message,
        origin=origin(message.headers or {}),
        attempts=tried,
        comparison=compared(tried, visit.query),
        conversation=told,
        misfits=misfits,
        kind=_group(index, message.failed),
        may_change=visit.may_change(queue),
    )


async def found(visit: Visit, queue: QueueAddress, row_id: str) -> Message | None:
    """Return one message, None if it is gone."""
    return await visit.read(look, queue, row_id, visit.site.settings.mask)


def look(session: Session, queue: QueueAddress, row_id: str, paths: Sequence[str]) -> Message | None:
    """Read one message; None if it is gone, or the id is none."""
    if not _ROW.fullmatch(row_id):
        return None
    with looking(session, queue):
        row = session.run(error_queue_table(queue).look(row_id))
    if row is None:
        return None
    failed = read(row.id, row.seq, row.headers, error_queue=queue)
    if failed.is_acknowledgement:
        return None
    return Message(row, failed, _headers(row), shown(row.body or b"", paths, cut_from=row.cut_from))


def misfits_of(session: Session, addresses: Addresses, failed: FailedMessage, body: bytes) -> list[str]:
    """Return what in a body does not fit the contract of the endpoint that failed to handle it."""
    if failed.failed_queue is None:
        return []
    return find_misfits(find_published(session, addresses), failed.failed_queue, failed.type or "", body)


def compared(attempts: Sequence[PastAttempt], asked: Mapping[str, str]) -> Comparison | None:
    """Compare the two attempts whose numbers are asked for as `first` and `second`; None where there is only one."""
    if len(attempts) <= 1:
        return None
    first = _number(asked.get("first", ""), len(attempts), len(attempts) - 1)
    second = _number(asked.get("second", ""), len(attempts), len(attempts))
    one, other = attempts[first - 1], attempts[second - 1]
    lines = [
        Line("By", one.place, other.place),
        Line("Exception", one.exception, other.exception),
        Line("Reason", one.reason, other.reason),
        Line("Raised in", one.where, other.where),
        Line("Then", one.then, other.then),
    ]
    apart = duration(abs(other.at - one.at)) if one.at and other.at else ""
    return Comparison(first, second, lines, apart)


def folded(trace: str) -> Iterator[Calls]:
    """Give a traceback as Python prints it in parts: the user's calls, and ours, folded."""
    at = 0
    for ours in _OUR_CALLS.finditer(trace[:LONGEST_LINES]):
        if before := trace[at : ours.start()]:
            yield Calls(before)
        yield Calls(ours[0], len(_CALL.findall(ours[0])))
        at = ours.end()
    yield Calls(trace[at:])


def attempts(headers: Mapping[str, str | None]) -> list[PastAttempt]:
    """Return all attempts that headers tell of, the first one first; the last has the story that they hold."""
    return [*past_attempts(headers), failed_before(headers, "given up on")]


def _rest(visit: Visit) -> tuple[Any, ...]:
    return visit.site.settings.mask, visit.site.addresses


def _look(
    session: Session, index: FailureIndex, row_id: str, paths: Sequence[str], addresses: Addresses
) -> tuple[Message, Conversation | None, list[str]] | None:
    message = look(session, index.address, row_id, paths)
    if message is None:
        return None
    # A reason shows values, so none is given where bodies are masked.
    misfits = [] if paths else misfits_of(session, addresses, message.failed, message.row.body or b"")
    audit = address_of(AUDIT, addresses)
    told = conversation(session, index, message.failed.conversation, audit, this=row_id)
    return message, told, misfits


def _headers(row: PeekedMessage) -> Mapping[str, str | None] | None:
    try:
        return decode_headers(row.headers)
    except MalformedHeadersError:
        return None


def _group(index: FailureIndex, failed: FailedMessage) -> str:
    """Return the key of the message's group, empty if it is not in the index yet."""
    return next((one.kind.key for one in index.failures if one.failed.row_id == failed.row_id), "")


def _number(text: str, most: int, otherwise: int) -> int:
    is_one = text.isascii() and text.isdecimal() and len(text) <= len(str(most))
    return int(text) if is_one and 1 <= int(text) <= most else otherwise
