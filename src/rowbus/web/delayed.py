"""Delayed messages on the page: the tables, what one holds, one message; cancel it, or send it now.

Invariants: an action does to the row what its question showed: it is found by its id and its time. Only tables that
have the columns of delayed messages, and an owner that is trusted, are read or changed; a request for another is
refused. The spans follow one another without a gap, so each message is in one of them.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final, NamedTuple

from rowbus.database.statements import run_steps_now
from rowbus.errors import InvalidAddressError, QueueNotFoundError
from rowbus.messages.headers import Header
from rowbus.messages.message import read_headers, short_type
from rowbus.transport.delayed.moves import send_now
from rowbus.transport.delayed.policy import route
from rowbus.transport.delayed.table import delayed_table
from rowbus.transport.delayed.waiting import WaitingPlace
from rowbus.transport.queues.catalog.looking import looking, refuse_strangers
from rowbus.transport.queues.catalog.table import catalog_of
from rowbus.transport.queues.destination_rule import ANY_QUEUE, Destinations
from rowbus.web.contents import MOST_BYTES, body_content
from rowbus.web.pages import Action, Page, Question, View, change
from rowbus.web.sampling.snapshot import may_delete

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from starlette.responses import Response

    from rowbus.database.sessions import Session
    from rowbus.messages.address import Addresses, QueueAddress
    from rowbus.transport.delayed.table import DelayedTable
    from rowbus.transport.delayed.waiting import LookedAtMessage, WaitingMessage
    from rowbus.web.operations import Operation
    from rowbus.web.visit import Visit

MOST_COUNTED: Final = 100_000
"""Messages of one span are counted up to here."""
ON_A_PAGE: Final = 50
_BETWEEN: Final = "~"

WIDEST: Final = 100.0
NARROWEST: Final = 1.0
"""Widths of bars, in units of their drawing; a span with any message has a bar that can be seen."""

GONE: Final = "This message does not wait any more: it was sent to its queue, or cancelled."
TAKEN: Final = (
    "Nothing was done: the message does not wait any more, or a mover has it in its hands just now."
)

_EDGES: Final = (
    ("within a minute", timedelta(minutes=1)),
    ("in 1 to 10 minutes", timedelta(minutes=10)),
    ("in 10 to 60 minutes", timedelta(hours=1)),
    ("in 1 to 6 hours", timedelta(hours=6)),
    ("in 6 to 24 hours", timedelta(days=1)),
    ("in 1 to 7 days", timedelta(days=7)),
    ("in 7 to 30 days", timedelta(days=30)),
)


class Span(NamedTuple):
    """A span of time from one instant (None: the first) until before another (None: the last)."""

    name: str
    first: datetime | None
    last: datetime | None


class Bar(NamedTuple):
    """A span with how many messages are due in it, and how wide its bar is."""

    name: str
    messages: int
    width: float

    @property
    def shown(self) -> str:
        """The count, which stops at a limit."""
        return f"{MOST_COUNTED:,} or more" if self.messages >= MOST_COUNTED else f"{self.messages:,}"


class WaitingRow(NamedTuple):
    """A message that waits, as a row of the page."""

    row_id: str
    due: datetime
    headers: Mapping[str, str | None] | None
    raw_headers: str
    destination: str
    size: int
    body: bytes | None = None

    @property
    def message_id(self) -> str:
        """The name by its headers; empty if they say nothing or cannot be read: then it can only wait."""
        return (self.headers or {}).get(Header.MESSAGE_ID) or ""

    @property
    def type(self) -> str:
        """The name of its type."""
        return short_type(self.headers)

    @property
    def is_retry(self) -> bool:
        """Whether it has been delivered before, and waits for its next delayed retry."""
        return Header.RETRIES in (self.headers or {})


class MessagePage(NamedTuple):
    """A page of messages. `following` is where the next one begins, `at` the database's time."""

    messages: list[WaitingRow]
    following: str
    is_cut: bool
    """Whether the search stopped because it had read enough, and not because the page is full or nothing is left."""

    bars: list[Bar]
    total: int
    at: datetime
    may_change: bool


class One(NamedTuple):
    """One message, and whether the database's role may change it."""

    message: WaitingRow
    at: datetime
    may_change: bool


def spans(at: datetime) -> Iterator[Span]:
    """Give the spans as they are at a time: overdue, then ever longer ones."""
    yield Span("overdue", None, at)
    first = at
    for name, length in _EDGES:
        yield Span(name, first, at + length)
        first = at + length
    yield Span("later", first, None)


def bars(counts: Iterable[tuple[str, int]]) -> list[Bar]:
    """Return a bar for each count, the longest as wide as there is room."""
    found = list(counts)
    most = max((count for _, count in found), default=0)
    return [Bar(name, count, _width(count, most)) for name, count in found]


def _width(count: int, most: int) -> float:
    return round(max(WIDEST * count / most, NARROWEST), 1) if count else 0.0


def find_table(session: Session, addresses: Addresses, text: str) -> DelayedTable:
    """Return a table of delayed messages by its address.

    Raises QueueNotFoundError if it is none, NotLookedAtError for a stranger's.
    """
    try:
        address = addresses.parse(text)
    except InvalidAddressError:
        address = None
    if address is None or not address.is_among(
        session.run(catalog_of(addresses).find_delayed(address.schema))
    ):
        raise QueueNotFoundError(f"There is no table of delayed messages {text}.", queue=text)
    refuse_strangers(session, address)
    return delayed_table(address)


def search(session: Session, addresses: Addresses, name: str, text: str, after: str) -> MessagePage:
    """Search a table behind a place, and count what is due when."""
    table = find_table(session, addresses, name)
    with looking(session, table.address):
        return _search(session, table, text, after)


def _search(session: Session, table: DelayedTable, text: str, after: str) -> MessagePage:
    at = session.run(table.state(1)).at
    place = read_place(after)
    try:
        found = session.run(table.find(text, place, ON_A_PAGE + 1))
    except ValueError:
        place, found = None, session.run(table.find(text, None, ON_A_PAGE + 1))
    shown, is_full = found[:ON_A_PAGE], len(found) > ON_A_PAGE
    stopped = None
    if is_full:
        stopped = WaitingPlace(shown[-1].due, shown[-1].id)
    elif text:
        stopped = session.run(table.reach(place))
    counted = bars(
        (span.name, session.run(table.count_between(span.first, span.last, MOST_COUNTED)))
        for span in spans(at)
    )
    return MessagePage(
        [_waiting(message, table.address) for message in shown],
        "" if stopped is None else write_place(stopped),
        stopped is not None and not is_full,
        counted,
        sum(bar.messages for bar in counted),
        at,
        may_delete(session, table.address),
    )


def look(session: Session, addresses: Addresses, name: str, row_id: str) -> One | None:
    """Look at one message; None if it does not wait (any more)."""
    table = find_table(session, addresses, name)
    with looking(session, table.address):
        found = session.run(table.look(row_id, MOST_BYTES))
        at = session.run(table.state(1)).at
    if found is None:
        return None
    return One(_waiting(found, table.address, found.body), at, may_delete(session, table.address))


def cancel(session: Session, addresses: Addresses, name: str, message: WaitingRow) -> int:
    """Cancel a message; say for how many rows that was so."""
    return session.run(find_table(session, addresses, name).cancel_at(message.message_id, message.due))


def send(session: Session, addresses: Addresses, name: str, message: WaitingRow) -> int:
    """Move a message to its queue now; say how many rows that were. To be run in a transaction."""
    table = find_table(session, addresses, name)
    endpoint = table.address.table.rpartition(".")[0] or table.address.table
    own, destinations = replace(table.address, table=endpoint), Destinations(ANY_QUEUE, table.address)
    return run_steps_now(session, send_now(table, own, destinations, message.message_id, message.due))


def write_place(place: WaitingPlace) -> str:
    """Write a place for an address."""
    return f"{place.due.isoformat()}{_BETWEEN}{place.id}"


def read_place(text: str) -> WaitingPlace | None:
    """Read a place; None for a text that is none, which means the beginning."""
    due, between, row_id = text.partition(_BETWEEN)
    try:
        moment = datetime.fromisoformat(due)
    except ValueError:
        return None
    return WaitingPlace(moment, row_id) if between and moment.tzinfo else None


def _waiting(
    found: WaitingMessage | LookedAtMessage, table: QueueAddress, body: bytes | None = None
) -> WaitingRow:
    goes = route(found.headers, table)
    destination = "" if goes is None else str(goes.destination)
    headers = read_headers(found.headers)
    return WaitingRow(found.id, found.due, headers, found.headers, destination, found.size, body)


async def _tables(visit: Visit) -> Response:
    snapshot = visit.snapshot
    return visit.render("delayed/tables.html", tables=snapshot.delayed, left_out=snapshot.delayed_left_out)


async def _table(visit: Visit) -> Response:
    name, text = visit.query.get("table", ""), visit.query.get("text", "").strip()
    after = visit.query.get("after", "")
    try:
        found = await visit.read(search, visit.site.addresses, name, text, after)
    except QueueNotFoundError as error:
        return visit.missing(str(error))
    figures = next((one for one in visit.snapshot.delayed if str(one.address) == name), None)
    return visit.render("delayed/table.html", name=name, text=text, after=after, found=found, figures=figures)


async def _message(visit: Visit) -> Response:
    name, row_id = visit.query.get("table", ""), visit.query.get("row", "")
    try:
        one = await visit.read(look, visit.site.addresses, name, row_id)
    except QueueNotFoundError as error:
        return visit.missing(str(error))
    if one is None:
        return visit.missing(GONE)
    content = body_content(one.message.body, one.message.size, visit.site.settings.mask)
    return visit.render("delayed/message.html", name=name, one=one, message=one.message, content=content)


async def _asked(visit: Visit) -> One:
    """Return the message that a form names; raises QueueNotFoundError if it does not wait any more."""
    name, row_id = visit.form.get("table", ""), visit.form.get("row", "")
    one = await visit.read(look, visit.site.addresses, name, row_id)
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
    return await change(visit, operation, name, _cancelled, cancel, addresses, name, one.message)


async def _send(visit: Visit, operation: Operation) -> str:
    one = await _asked(visit)
    name = visit.form.get("table", "")
    addresses = visit.site.addresses
    return await change(visit, operation, name, _sent, send, addresses, name, one.message)


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
