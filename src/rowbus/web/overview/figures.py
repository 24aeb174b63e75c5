"""What the overview says of a snapshot: totals, and the queues wanted, in the order wanted.

Invariant: pure.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final, NamedTuple

from rowbus.transport.queues.diagnosis import SEQUENCE_WARNING, Level
from rowbus.web.sampling.snapshot import Kind

if TYPE_CHECKING:
    from rowbus.log.diagnosis import ConsumerState, LogState
    from rowbus.messages.address import QueueAddress
    from rowbus.transport.queues.diagnosis import Finding
    from rowbus.web.sampling.snapshot import QueueFigures, Snapshot
    from rowbus.web.sampling.statistics import Instances, Receivers


HIDDEN: Final = "hidden from this role"


class Totals(NamedTuple):
    """The figures at the top of the page."""

    waiting: int
    is_exact: bool
    in_hand: int
    rate_in: float | None
    rate_out: float | None
    failed: int
    failed_is_exact: bool
    due_later: int
    overdue: int
    worst_lag: timedelta | None


def totals(snapshot: Snapshot) -> Totals:
    """Add up a snapshot. What waits in error and audit queues does not count as waiting, and no rate of theirs."""
    ordinary = [queue for queue in snapshot.queues if queue.kind is Kind.QUEUE]
    failed = snapshot.error_queues()
    lags = [consumer.lag for consumer in snapshot.consumers if consumer.lag is not None]
    return Totals(
        sum(queue.depth or 0 for queue in ordinary),
        all(queue.is_exact for queue in ordinary),
        sum(queue.in_hand or 0 for queue in ordinary),
        _sum(queue.rate_in for queue in ordinary),
        _sum(queue.rate_out for queue in ordinary),
        sum(queue.depth or 0 for queue in failed),
        all(queue.is_exact for queue in failed),
        sum(one.state.waiting - one.state.overdue for one in snapshot.delayed),
        sum(one.state.overdue for one in snapshot.delayed),
        max(lags, default=None),
    )


def _sum(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) if known else None


ORDERS: Final[dict[str, Callable[[QueueFigures], tuple[float | str, ...]]]] = {
    "name": lambda queue: (queue.address.schema, queue.address.table),
    "depth": lambda queue: (-(queue.depth or 0),),
    "oldest": lambda queue: (queue.oldest_sent.timestamp() if queue.oldest_sent else float("inf"),),
    "in": lambda queue: (-(queue.rate_in or 0),),
    "out": lambda queue: (-(queue.rate_out or 0),),
}
"""How queues can be ordered, by the word in the address."""


def queues_wanted(queues: Iterable[QueueFigures], *, text: str, order: str) -> list[QueueFigures]:
    """Return the queues whose name holds a text, in an order; by name if the order is none."""
    found = [queue for queue in queues if text.lower() in str(queue.address).lower()]
    found.sort(key=ORDERS["name"])
    return sorted(found, key=ORDERS.get(order, ORDERS["name"]))


class Endpoint(NamedTuple):
    """An endpoint by its queue, and the processes that receive there: where they run, and since when."""

    queue: QueueFigures
    processes: int
    places: Sequence[str]
    since: datetime | None
    latest: datetime | None


def endpoints(snapshot: Snapshot) -> list[Endpoint]:
    """Gather the processes that receive from each queue, by the queue's name."""
    by_queue: dict[QueueAddress, list[Receivers]] = defaultdict(list)
    for one in snapshot.receivers:
        by_queue[one.queue].append(one)
    known = [queue for queue in snapshot.queues if queue.address in by_queue]
    return [_endpoint(queue, by_queue[queue.address]) for queue in sorted(known, key=ORDERS["name"])]


def _endpoint(queue: QueueFigures, parts: list[Receivers]) -> Endpoint:
    return Endpoint(
        queue,
        sum(part.processes for part in parts),
        [_place(part.place, part.processes) for part in parts],
        min((part.since for part in parts if part.since is not None), default=None),
        max((part.latest for part in parts if part.latest is not None), default=None),
    )


def _place(place: str | None, processes: int) -> str:
    return f"{place or HIDDEN} ({processes})" if processes > 1 else place or HIDDEN


class Program(NamedTuple):
    """A program of Rowbus's, as its sessions show it: `places` are the addresses they come from."""

    name: str
    sessions: int
    busy: int | None
    places: Sequence[str]
    since: datetime | None


def programs(found: Iterable[Instances]) -> list[Program]:
    """Gather the sessions of each program, without our own."""
    by_name: dict[str, list[Instances]] = defaultdict(list)
    for one in found:
        by_name[one.name.removeprefix("rowbus ")].append(one)
    by_name.pop("web", None)
    return [_program(name, by_name[name]) for name in sorted(by_name)]


def _program(name: str, parts: list[Instances]) -> Program:
    busy = [part.busy for part in parts if part.busy is not None]
    return Program(
        name,
        sum(part.sessions for part in parts),
        sum(busy) if busy else None,
        [part.place or HIDDEN for part in parts],
        min((part.since for part in parts if part.since is not None), default=None),
    )


class LogRow(NamedTuple):
    """A log with its consumers."""

    state: LogState
    consumers: list[ConsumerState]


def logs(snapshot: Snapshot) -> list[LogRow]:
    """Put consumers to their logs."""
    return [
        LogRow(state, [one for one in snapshot.consumers if one.log == state.log]) for state in snapshot.logs
    ]


def to_do(findings: Iterable[Finding]) -> list[Finding]:
    """Return the findings that say what to do."""
    return [finding for finding in findings if finding.level is not Level.OK]


def nears_its_end(queue: QueueFigures) -> bool:
    """Say whether a queue's sequence is used up so far that it has to be restarted."""
    return queue.shape.sequence is not None and queue.shape.sequence.used >= SEQUENCE_WARNING
