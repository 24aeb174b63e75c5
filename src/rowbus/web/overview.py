"""The overview, and what the doctor found: totals, the queues wanted in the order wanted.

Invariants: written from the latest snapshot, and the indexes of failed messages as far as they are filled: a visit
waits for nothing of the database.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final, NamedTuple

from rowbus.log.diagnosis import consumers_with_lanes
from rowbus.transport.lanes import rule
from rowbus.transport.queues.diagnosis import SEQUENCE_WARNING, Finding, Level
from rowbus.transport.queues.traffic import NOBODY, Kind
from rowbus.web.charts import overview_charts, span_of, sparks
from rowbus.web.failed.indexes import indexes
from rowbus.web.pages import Page, View

if TYPE_CHECKING:
    from starlette.responses import Response

    from rowbus.log.diagnosis import ConsumerWithLanes, LogState
    from rowbus.messages.address import QueueAddress
    from rowbus.transport.queues.traffic import Receivers
    from rowbus.web.sampling.snapshot import AbsentEndpoint, Instances, QueueFigures, Snapshot
    from rowbus.web.visit import Visit

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


def with_lanes(queues: Sequence[QueueFigures]) -> list[QueueFigures]:
    """Return the queues that are no lanes; each with its lanes, and what they have counted with it."""
    return [_together(*each) for each in rule.with_lanes(queues, lambda queue: queue.address)]


def _together(queue: QueueFigures, *lanes: QueueFigures) -> QueueFigures:
    if not lanes:
        return queue
    every = (queue, *lanes)
    return replace(
        queue,
        depth=sum(one.depth or 0 for one in every),
        is_exact=all(one.is_exact for one in every),
        in_hand=sum(one.in_hand or 0 for one in every),
        oldest_sent=min((one.oldest_sent for one in every if one.oldest_sent is not None), default=None),
        rate_in=_sum(one.rate_in for one in every),
        rate_out=_sum(one.rate_out for one in every),
        lanes=lanes,
    )


ORDERS: Final[dict[str, Callable[[QueueFigures], tuple[float | str, ...]]]] = {
    "name": lambda queue: (queue.address.schema, queue.address.table),
    "depth": lambda queue: (-(queue.depth or 0),),
    "oldest": lambda queue: (queue.oldest_sent.timestamp() if queue.oldest_sent else float("inf"),),
    "in": lambda queue: (-(queue.rate_in or 0),),
    "out": lambda queue: (-(queue.rate_out or 0),),
}
"""The orders of queues, by the word in the address."""


PER_PAGE: Final = 50


def queues_wanted(
    queues: Iterable[QueueFigures], *, text: str, order: str, troubled: Collection[str] = ()
) -> list[QueueFigures]:
    """Return the queues whose name holds a text, in an order; if that is none, what needs attention comes first."""
    found = [queue for queue in queues if text.lower() in str(queue.address).lower()]
    found.sort(key=ORDERS["name"])
    return sorted(found, key=ORDERS.get(order, lambda queue: _calm(queue, troubled)))


def _calm(queue: QueueFigures, troubled: Collection[str]) -> tuple[float | str, ...]:
    """Rank a queue: first what the doctor names, then failed messages, then what waits, then the rest."""
    depth = queue.depth or 0
    has_failed = queue.kind is Kind.ERROR and depth > 0
    return (str(queue.address) not in troubled, not has_failed, queue.kind is Kind.AUDIT, -depth)


def page_of(queues: Sequence[QueueFigures], asked: str) -> tuple[list[QueueFigures], int, int]:
    """Return a page of queues, its number, and how many pages there are; a number that is none means the first."""
    pages = max(1, -(-len(queues) // PER_PAGE))
    number = min(max(int(asked) if asked.isascii() and asked.isdigit() else 1, 1), pages)
    return list(queues[(number - 1) * PER_PAGE : number * PER_PAGE]), number, pages


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
    known = [queue for queue in with_lanes(snapshot.queues) if queue.address in by_queue]
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


class GoneEndpoint(NamedTuple):
    """An endpoint that was seen in the last day, and its queue, in which messages may wait for it."""

    queue: QueueFigures
    gone: AbsentEndpoint

    @property
    def finding(self) -> Finding:
        """The remedy."""
        count = self.queue.depth or 0
        places = ", ".join(place or HIDDEN for place in self.gone.places)
        text = f"gone since {self.gone.seen:%H:%M:%S} UTC, last from {places}; {count:,} wait"
        advice = "start its endpoint: `rowbus run MODULE:ENDPOINT`"
        return Finding(Level.FAIL, str(self.queue.address), text, advice)


def missed(snapshot: Snapshot) -> list[GoneEndpoint]:
    """Return the endpoints that have gone, by the queue's name."""
    queues = {queue.address: queue for queue in with_lanes(snapshot.queues)}
    known = [GoneEndpoint(queues[gone.queue], gone) for gone in snapshot.gone if gone.queue in queues]
    return sorted(known, key=lambda one: ORDERS["name"](one.queue))


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
    consumers: list[ConsumerWithLanes]


def logs(snapshot: Snapshot) -> list[LogRow]:
    """Put consumers to their logs."""
    consumers = consumers_with_lanes(snapshot.consumers)
    return [LogRow(log, [one for one in consumers if one.state.log == log.log]) for log in snapshot.logs]


def to_do(snapshot: Snapshot) -> list[Finding]:
    """Return the findings that say what to do, first of endpoints that went and left messages."""
    gone = [one.finding for one in missed(snapshot) if one.queue.depth]
    subjects = {finding.subject for finding in gone}
    return gone + [
        finding
        for finding in snapshot.findings
        if finding.level is not Level.OK and (finding.subject not in subjects or NOBODY not in finding.text)
    ]


def nears_its_end(queue: QueueFigures) -> bool:
    """Say whether a queue's sequence is used up so far that it has to be restarted."""
    return queue.shape.sequence is not None and queue.shape.sequence.used >= SEQUENCE_WARNING


async def _show(visit: Visit) -> Response:
    snapshot = visit.snapshot
    found = to_do(snapshot)
    wanted = queues_wanted(
        with_lanes(snapshot.queues),
        text=visit.query.get("q", ""),
        order=visit.query.get("sort", ""),
        troubled={finding.subject for finding in found},
    )
    queues, number, pages = page_of(wanted, visit.query.get("page", ""))
    return visit.render(
        "overview/page.html",
        snapshot=snapshot,
        totals=_without_acknowledgements(totals(snapshot), visit),
        groups=_groups(visit),
        queues=queues,
        page=number,
        pages=pages,
        many=len(wanted),
        endpoints=endpoints(snapshot),
        programs=programs(snapshot.instances),
        logs=logs(snapshot),
        missed=missed(snapshot),
        to_do=found,
        spark=sparks(visit),
        charts=overview_charts(visit),
        span=span_of(visit),
        nears_its_end=nears_its_end,
    )


def _without_acknowledgements(found: Totals, visit: Visit) -> Totals:
    """Count no message as failed that only tells ServiceControl of a retry."""
    kept = indexes(visit.site)
    left = sum(kept.acknowledgements(queue.address) for queue in visit.snapshot.error_queues())
    return found._replace(failed=max(found.failed - left, 0))


def _groups(visit: Visit) -> int | None:
    """Return how many groups of failures there are; None unless all error queues that hold any were read."""
    kept = indexes(visit.site)
    failed = [queue for queue in visit.snapshot.error_queues() if queue.depth]
    counts = [kept.groups(visit.site, queue) for queue in failed]
    known = [count for count in counts if count is not None]
    return sum(known) if known and len(known) == len(failed) else None


async def _examined(visit: Visit) -> Response:
    findings = visit.snapshot.findings
    return visit.render(
        "overview/findings.html", snapshot=visit.snapshot, findings=findings, to_do=to_do(visit.snapshot)
    )


PAGE: Final = Page("Overview", (View("overview", "/", _show),))
FINDINGS: Final = Page("Doctor", (View("findings", "/doctor", _examined),))
