"""Traffic of a queue: what it is for, waits in it and is in hand, who takes it out, and what is wrong if nobody does.

A message in hand is one whose row is deleted by a transaction that runs.

Invariants: diagnosis is pure; that nobody receives is said only where receivers can be seen, of messages that nobody
has in hand. `in_hand` is bounded, whatever the queue holds: it looks at `LOOKED_AT`, the oldest, and locks nothing.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from enum import Enum
from typing import TYPE_CHECKING, Final, NamedTuple

from rowbus.database.statements import Statement, load
from rowbus.messages.headers import Header
from rowbus.messages.message import read_headers, short_type, time_sent
from rowbus.transport.queues.diagnosis import Finding, Level, duration

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from rowbus.database.statements import Rows
    from rowbus.messages.address import QueueAddress

NOBODY_AFTER: Final = timedelta(seconds=5)
"""So long a message may wait for a receiver that polls, or by a clock that is off; after it, nobody receives *now*.

Who was killed and who is restarted leave the same: no lock. So this is said of both, as a warning, for as long as it
is so; in a rolling restart another process receives. The alert waits two minutes.
"""
HEAP: Final = 1_000  # so many are not left to a receiver that is about to start
CLOCK_OFF: Final = timedelta(seconds=5)  # by so much clocks of machines differ without harm
NOBODY: Final = "nobody receives there"
GROWS_AFTER: Final = timedelta(days=7)  # so long may an audit queue be left alone
LOOKED_AT: Final = 1_000


class Kind(Enum):
    """The purpose of a queue, as far as its name and its oldest message tell."""

    QUEUE = "queue"
    ERROR = "error queue"
    AUDIT = "audit queue"


class Receivers(NamedTuple):
    """The processes that receive from a queue, from one place, and when the first and the last of them connected.

    Processes without notifications, and those of NServiceBus, cannot be found. No place: the role may not see it.
    """

    queue: QueueAddress
    place: str | None
    processes: int
    since: datetime | None
    latest: datetime | None


class QueueState(NamedTuple):
    """The state of a queue: `depth` stops at the limit given, `oldest_headers` is raw text, `at` the database's time.

    `in_hand` is None where the database cannot tell; then `depth` leaves out messages in flight.
    """

    depth: int
    in_hand: int | None
    oldest_headers: str | None
    at: datetime


class Traffic(NamedTuple):
    """The state of a queue. `waited` is the age of the oldest message; None, and no `receivers`: not known.

    An age below zero is that of a message whose `sender` has a clock that is ahead.
    """

    kind: Kind
    depth: int
    in_hand: int | None
    waited: timedelta | None
    receivers: int | None
    sender: str = ""


class MessageInHand(NamedTuple):
    """A message in hand: its type, which names its handler, its id, and who has had it since when."""

    type: str
    message_id: str
    pid: int
    place: str | None
    since: datetime | None


def kind_of(address: QueueAddress, headers: Mapping[str, str | None] | None = None) -> Kind:
    """Say what a queue is for: error and audit queues are called so by convention, or hold what is theirs."""
    name, headers = address.table.lower(), headers or {}
    if name == "error" or Header.FAILED_QUEUE in headers:
        return Kind.ERROR
    return Kind.AUDIT if name == "audit" or Header.PROCESSING_ENDED in headers else Kind.QUEUE


def traffic_of(
    address: QueueAddress, state: QueueState, receivers: int | None, *, most: int, estimate: int
) -> Traffic:
    """Gather the facts; a count that has stopped at `most` gives way to the server's estimate."""
    headers = read_headers(state.oldest_headers) if state.oldest_headers else None
    sent = time_sent(headers)
    depth = state.depth if state.depth < most else max(state.depth, estimate)
    waited = None if sent is None else state.at - sent
    sender = (headers or {}).get(Header.ORIGINATING_MACHINE) or ""
    return Traffic(kind_of(address, headers), depth, state.in_hand, waited, receivers, sender)


def diagnose_traffic(subject: str, *queues: Traffic) -> Iterator[Finding]:
    """Judge what waits in a queue, with its lanes if it has some; says nothing where messages are taken out."""
    if alone := [one for one in queues if _is_left_alone(one)]:
        waited = max((one.waited for one in alone if one.waited is not None), default=None)
        since = "" if waited is None else f", the oldest for {duration(waited)}"
        advice = (
            "start its endpoint: `rowbus run MODULE:ENDPOINT`; one of NServiceBus's, or without notifications, is not "
            "seen, but would have taken them"
        )
        depth = sum(one.depth for one in alone)
        yield Finding(Level.WARN, subject, f"{depth:,} wait{since}, and {NOBODY}", advice)
    ages = [(one.waited, one.sender) for one in queues if one.waited is not None]
    if ages and min(ages)[0] < -CLOCK_OFF:
        waited, sender = min(ages)
        text = f"its oldest message was sent {duration(-waited)} from now, by the database's clock"
        advice = f"set the clock of the machine that sent it, {sender or 'which it does not name'}, by NTP"
        yield Finding(Level.WARN, subject, text, advice)
    for one in queues:
        if one.kind is Kind.AUDIT and one.waited is not None and one.waited > GROWS_AFTER:
            text = f"only grows: {one.depth:,} audited messages, the oldest is {duration(one.waited)} old"
            remedy = "read them into a log: `rowbus log from-queue`, or delete the old ones"
            yield Finding(Level.WARN, subject, text, remedy)


def in_hand(address: QueueAddress) -> Statement[list[MessageInHand]]:
    """Find which messages of a queue of PostgreSQL are in hand, and whose; the one for longest first. Locks nothing."""
    query = load(
        "transport/queues/sql/postgresql/in_hand.sql",
        identifiers={"schema": address.schema, "queue": address.table},
        failing=f"Failed to look into {address}",
        queue=str(address),
        prepare=False,
    )
    return Statement(query, {"looked_at": LOOKED_AT, "most": LOOKED_AT}, _held)


def _is_left_alone(traffic: Traffic) -> bool:
    is_old = traffic.waited is None or traffic.waited > NOBODY_AFTER or traffic.depth >= HEAP
    return (
        traffic.kind is Kind.QUEUE
        and traffic.receivers == 0
        and traffic.depth > 0
        and not traffic.in_hand
        and is_old
    )


def _held(rows: Rows, _count: int) -> list[MessageInHand]:
    return [_message(*row) for row in rows]


def _message(row_id: object, text: str, pid: int, place: str | None, since: datetime | None) -> MessageInHand:
    headers = read_headers(text)
    message_id = (headers or {}).get(Header.MESSAGE_ID) or str(row_id)
    return MessageInHand(short_type(headers), message_id, pid, place, since)
