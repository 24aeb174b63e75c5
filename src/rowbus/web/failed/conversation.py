"""A conversation: the messages that can still be found, what their headers tell, and a diagram of them.

Invariants: bounded in messages and in time; what was not looked at is said. Figures and texts only, which a template
writes as SVG. At most `MOST_LIVES` endpoints have lines. Pure and total: a header that is missing or odd leaves
something out, and nothing else.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Final, NamedTuple

from rowbus.errors import InvalidTimestampError, MalformedHeadersError, QueueNotFoundError, StorageError
from rowbus.errors.strangers import printable
from rowbus.messages.headers import Header, decode_headers, parse_enclosed_types
from rowbus.messages.timestamps import parse_timestamp
from rowbus.transport.queues.catalog.looking import NotLookedAtError, look, looking
from rowbus.transport.recoverability.failures.index import Search
from rowbus.transport.recoverability.failures.table import Copy, failures_table
from rowbus.transport.recoverability.table import error_queue_table

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from datetime import datetime

    from rowbus.database.sessions import Session
    from rowbus.messages.address import QueueAddress
    from rowbus.transport.recoverability.failures.index import FailureIndex

MOST_LIVES: Final = 10
WIDTH: Final = 220  # of a line's lane
ROW: Final = 44  # of an arrow
TOP: Final = 56
LONGEST: Final = 24  # characters of a label
REST: Final = "others"


class Life(NamedTuple):
    """The line of an endpoint."""

    x: int
    name: str
    label: str


class Arrow(NamedTuple):
    """A message: from one line to another, or to the same."""

    x1: int
    x2: int
    y: int
    label: str
    step: Step

    @property
    def is_loop(self) -> bool:
        """Whether an endpoint sent it to itself."""
        return self.x1 == self.x2

    @property
    def tip(self) -> int:
        """Where the line ends, before the head of the arrow."""
        return self.x2 - 7 if self.x2 > self.x1 else self.x2 + 7

    @property
    def head(self) -> str:
        """The points of the head."""
        back = -9 if self.x2 > self.x1 else 9
        return f"{self.x2},{self.y} {self.x2 + back},{self.y - 5} {self.x2 + back},{self.y + 5}"

    @property
    def middle(self) -> int:
        """Where the label stands."""
        return (self.x1 + self.x2) // 2


class Diagram(NamedTuple):
    """The whole drawing."""

    width: int
    height: int
    lives: list[Life]
    arrows: list[Arrow]


def drawn(steps: Sequence[Step]) -> Diagram:
    """Lay out a conversation: endpoints from left to right as they first appear, messages from top to bottom."""
    names = list(dict.fromkeys(name for step in steps for name in (step.sender, step.receiver)))
    if len(names) > MOST_LIVES:
        names = [*names[: MOST_LIVES - 1], REST]
    places = {name: WIDTH // 2 + at * WIDTH for at, name in enumerate(names)}
    rest = places.get(REST, 0)
    lives = [Life(x, name, shortened(name)) for name, x in places.items()]
    arrows = [
        Arrow(
            places.get(step.sender, rest),
            places.get(step.receiver, rest),
            TOP + ROW * (at + 1),
            shortened(last_part(step.type) or "message"),
            step,
        )
        for at, step in enumerate(steps)
    ]
    return Diagram(WIDTH * max(len(names), 2), TOP + ROW * (len(steps) + 1), lives, arrows)


def last_part(type_name: str) -> str:
    """Return the last part of the name of a type, without what it is generic in."""
    return type_name.partition("[")[0].partition("`")[0].replace("+", ".").rpartition(".")[2]


def shortened(text: str) -> str:
    """Return a label that fits, and holds nothing that turns the direction of writing."""
    shown = printable(text[:LONGEST])
    return shown if len(text) <= LONGEST else f"{shown[: LONGEST - 1]}…"


TRACES: Final = (
    ("Stack trace, as .NET writes it", Header.EXCEPTION_STACK_TRACE),
    ("Traceback, as Python prints it", Header.EXCEPTION_TRACEBACK),
)
LONGEST_NAME: Final = 200
ELSEWHERE: Final = "(unknown)"


class Event(NamedTuple):
    """Something that happened to the message; `at` is None when nothing tells when."""

    at: datetime | None
    text: str


class Step(NamedTuple):
    """A message of a conversation: who sent it, who processed it or failed to, and when it was sent.

    `row_id` is that of a failed one. `is_this` marks the message that is looked at.
    """

    message_id: str
    type: str
    sender: str
    receiver: str
    at: datetime | None
    has_failed: bool
    row_id: str = ""
    is_this: bool = False
    related_to: str = ""


def origin(headers: Mapping[str, str | None]) -> list[Event]:
    """Return what headers tell of where a message came from, in order."""
    sender, machine = headers.get(Header.ORIGINATING_ENDPOINT), headers.get(Header.ORIGINATING_MACHINE)
    events = [Event(time(headers, Header.TIME_SENT), f"sent by {_place(sender, machine)}")]
    if edited := headers.get(Header.EDIT_OF):
        events.append(Event(None, f"made by editing the failed message {edited}"))
    if retried := headers.get(Header.RETRY_UNIQUE_MESSAGE_ID):
        events.append(Event(None, f"sent back by ServiceControl as {retried}"))
    return events


def step(headers_text: str, *, row_id: str = "", is_this: bool = False) -> Step | None:
    """Return what a copy in an error or audit queue tells; None for one that cannot be read or is no message."""
    try:
        headers = decode_headers(headers_text)
    except MalformedHeadersError:
        return None
    if headers.get(Header.RETRY_SUCCESSFUL):
        return None
    has_failed = headers.get(Header.FAILED_QUEUE) is not None
    return Step(
        headers.get(Header.MESSAGE_ID) or "",
        next(iter(parse_enclosed_types(headers.get(Header.ENCLOSED_MESSAGE_TYPES))), ""),
        (headers.get(Header.ORIGINATING_ENDPOINT) or ELSEWHERE)[:LONGEST_NAME],
        (headers.get(Header.PROCESSING_ENDPOINT) or ELSEWHERE)[:LONGEST_NAME],
        time(headers, Header.TIME_SENT),
        has_failed,
        row_id if has_failed else "",
        is_this,
        headers.get(Header.RELATED_TO) or "",
    )


def in_order(steps: Iterable[Step | None]) -> list[Step]:
    """Return the messages of a conversation as they were sent; those that do not tell when stand last."""
    known = [one for one in steps if one is not None]
    return sorted(known, key=lambda one: (one.at is None, one.at.timestamp() if one.at else 0.0))


def time(headers: Mapping[str, str | None], name: str) -> datetime | None:
    """Return the time that a header tells, None if it tells none."""
    try:
        return parse_timestamp(headers.get(name) or "")
    except InvalidTimestampError:
        return None


def _place(endpoint: str | None, machine: str | None) -> str:
    return f"{endpoint or ELSEWHERE}{f' on {machine}' if machine else ''}"


MOST: Final = 60
LOOKED_AT: Final = 20_000  # newest messages of the audit queue
SECONDS: Final = 1.0


class Conversation(NamedTuple):
    """Messages in the order in which they were sent, their drawing, and a note of what was looked at."""

    steps: list[Step]
    diagram: Diagram
    note: str


def conversation(
    session: Session, index: FailureIndex, identity: str, audit: QueueAddress, *, this: str
) -> Conversation | None:
    """Find the messages of a conversation; `this` is the row that is looked at. None without an id."""
    if not identity or "\0" in identity:
        return None
    failed = list(islice(Search(conversation=identity).among(index.failures), MOST))
    asked = error_queue_table(index.address).headers([one.failed.row_id for one in failed])
    rows = look(session, index.address, asked)
    copies, note = _audited(session, audit, identity)
    steps = in_order(
        [
            *(step(row.headers, row_id=row.id, is_this=row.id == this) for row in rows),
            *(step(copy.headers) for copy in copies),
        ]
    )
    return Conversation(steps[:MOST], drawn(steps[:MOST]), note)


def _audited(session: Session, audit: QueueAddress, identity: str) -> tuple[list[Copy], str]:
    table = failures_table(audit)
    try:
        with looking(session, audit):
            session.run(table.bound_time(SECONDS))
            found = session.run(table.newest_with(identity, looked_at=LOOKED_AT, most=MOST))
    except QueueNotFoundError:
        return [], f"There is no audit queue {audit}: only messages that failed are shown."
    except (NotLookedAtError, StorageError) as error:
        return (
            [],
            f"The audit queue could not be looked into, so only messages that failed are shown: {error}",
        )
    return found, f"Processed messages are found among the newest {LOOKED_AT:,} of {audit}."
