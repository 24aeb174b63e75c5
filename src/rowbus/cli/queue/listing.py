"""Queues with their state, and messages, as people and programs read them.

Invariants: a queue this role may not read, that belongs to a stranger, or that is locked or dropped meanwhile, does not
hide the others; what cannot be decoded is shown all the same, as raw text or hexadecimal digits, and says so.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, NamedTuple

from rowbus.cli.output import complain
from rowbus.errors import QueueNotFoundError
from rowbus.messages.message import read_body, read_headers, time_sent
from rowbus.transport.lanes import rule
from rowbus.transport.queues.catalog.looking import NotLookedAtError, find_queues, look
from rowbus.transport.queues.catalog.ownership import not_looked_at
from rowbus.transport.queues.diagnosis import SEQUENCE_WARNING, duration, named_with_lanes

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rowbus.database.sessions import Session
    from rowbus.messages.address import QueueAddress
    from rowbus.messages.message import PeekedMessage
    from rowbus.transport.queues.catalog.table import Catalog
    from rowbus.transport.queues.shape import QueueShape
    from rowbus.transport.queues.traffic import QueueState

COLUMNS = ("queue", "depth#", "in hand#", "oldest#", "sequence#", "used#")
MOST = 100_001  # messages are counted one further than what is shown, to tell 100,000 from more


class Entry(NamedTuple):
    """A queue and, if it is looked at, how it stands; `left_out` says why not, if this role may read it."""

    shape: QueueShape
    state: QueueState | None
    left_out: str = ""
    lane_of: QueueAddress | None = None
    """The endpoint's own queue, of a lane."""
    lanes: int = 0
    """Lanes that are counted with it."""

    @property
    def oldest(self) -> timedelta | None:
        """The age of the oldest message, if there is one whose headers tell."""
        if self.state is None or self.state.oldest_headers is None:
            return None
        sent = time_sent(read_headers(self.state.oldest_headers))
        return None if sent is None else self.state.at - sent


def find(session: Session, catalog: Catalog, schema: str | None) -> list[Entry]:
    """Find the queues of one schema or of all, and count their messages."""
    shapes = [
        shape
        for shape in find_queues(session, catalog)
        if shape.is_queue and schema in {None, shape.address.schema}
    ]
    addresses = [shape.address for shape in shapes]
    lane_of = {lane: own for lane, own in rule.own_queues(addresses).items() if lane != own}
    return [_listed(session, catalog, shape)._replace(lane_of=lane_of.get(shape.address)) for shape in shapes]


def tell_left_out(address: QueueAddress, reason: str) -> None:
    """Tell of a table that is not looked at."""
    complain(f"{address} is {not_looked_at(reason)}")


def readable(session: Session, catalog: Catalog) -> Iterator[QueueAddress]:
    """Yield all queues that this role may read; tell of those that are not looked at."""
    for shape in find_queues(session, catalog):
        if shape.is_queue and shape.left_out:
            tell_left_out(shape.address, shape.left_out)
        elif shape.is_queue and shape.readable:
            yield shape.address


def with_lanes(queues: Sequence[Entry]) -> list[Entry]:
    """Return the queues that are no lanes; each counts what its lanes have."""
    return [_together(*each) for each in rule.with_lanes(queues, lambda queue: queue.shape.address)]


def _together(queue: Entry, *lanes: Entry) -> Entry:
    every = (queue, *lanes)
    states = [one.state for one in every if one.state is not None]
    if not lanes or not states:
        return queue
    oldest = max((one for one in every if one.oldest is not None), key=_age, default=queue)
    state = states[0]._replace(
        depth=min(sum(one.depth for one in states), MOST),
        in_hand=sum(one.in_hand or 0 for one in states),
        oldest_headers=None if oldest.state is None else oldest.state.oldest_headers,
    )
    return queue._replace(state=state, lanes=len(lanes))


def _age(queue: Entry) -> timedelta:
    return queue.oldest or timedelta()


def _listed(session: Session, catalog: Catalog, shape: QueueShape) -> Entry:
    if not shape.readable:
        return Entry(shape, None, shape.left_out)
    try:
        return Entry(shape, look(session, shape.address, catalog.queue_state(shape.address, MOST)))
    except NotLookedAtError as error:
        return Entry(shape, None, error.reason)
    except QueueNotFoundError:
        return Entry(shape, None)


def bounded(depth: int) -> str:
    """Write a count that stops at `MOST`."""
    return str(depth) if depth < MOST else f"{MOST - 1}+"


def _in_hand(state: QueueState) -> str:
    return "" if state.in_hand is None else bounded(state.in_hand)


def as_row(queue: Entry) -> tuple[str, ...]:
    """Return a queue as a row of the table."""
    state, sequence = queue.state, queue.shape.sequence
    counts = (_unread(queue), "") if state is None else (bounded(state.depth), _in_hand(state))
    age = "" if queue.oldest is None else duration(queue.oldest)
    name = named_with_lanes(queue.shape.address, queue.lanes)
    if sequence is None or sequence.position is None:
        return name, *counts, age, "", ""
    return name, *counts, age, str(sequence.position), f"{sequence.used:.0%}"


def _unread(queue: Entry) -> str:
    return not_looked_at(queue.left_out) if queue.left_out else "not readable"


def as_json(queue: Entry) -> dict[str, object]:
    """Return a queue for programs: `depth_is_exact` is false when there are more, ages are in seconds."""
    state, sequence = queue.state, queue.shape.sequence
    return {
        "queue": str(queue.shape.address),
        "schema": queue.shape.address.schema,
        "table": queue.shape.address.table,
        "lane_of": None if queue.lane_of is None else str(queue.lane_of),
        "depth": None if state is None else min(state.depth, MOST - 1),
        "depth_is_exact": state is not None and state.depth < MOST,
        "not_looked_at": queue.left_out or None,
        "in_hand": None if state is None else state.in_hand,
        "oldest_age": queue.oldest,
        "sequence_position": None if sequence is None else sequence.position,
        "sequence_used": None if sequence is None else round(sequence.used, 4),
        "sequence_warning": warning(queue) is not None,
    }


def warning(queue: Entry) -> str | None:
    """Return what to say of a queue whose sequence nears its end."""
    sequence = queue.shape.sequence
    if sequence is None or sequence.used < SEQUENCE_WARNING:
        return None
    return (
        f"the sequence of {queue.shape.address} has used {sequence.used:.0%} of its numbers; at 100% every send fails. "
        "While the queue is empty, restart it: alter sequence … restart"
    )


def cut_note(message: PeekedMessage) -> str:
    """Say that a body is only its beginning; nothing if it is not."""
    if message.cut_from is None or message.body is None:
        return ""
    return f" (the first {len(message.body)} of {message.cut_from} bytes)"


def message_as_json(message: PeekedMessage) -> dict[str, object]:
    """Return a message for programs; `raw_headers` takes the place of `headers` that cannot be decoded."""
    headers, body = read_headers(message.headers), read_body(message.body)
    return {
        "seq": message.seq,
        "row_id": message.id,
        "expires": message.expires,
        "headers": headers,
        **({"raw_headers": message.headers} if headers is None else {}),
        "body": body.text,
        "body_encoding": body.encoding,
        **({} if message.cut_from is None else {"body_cut_from": message.cut_from}),
    }
