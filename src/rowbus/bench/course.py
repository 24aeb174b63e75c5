"""The course of a measurement: the server, its latencies, what is sent and received, the log, and the verdicts.

Invariant: what it made is dropped before it returns or raises. Latencies are timed one after another, so none waits
for the one before.
"""

from __future__ import annotations

import asyncio
import time
from contextlib import nullcontext
from typing import TYPE_CHECKING, Final, NamedTuple, cast

from rowbus.bench import statements
from rowbus.bench.diagnosis import Facts, diagnose, usable_concurrency
from rowbus.bench.figures import AT_REST, COMMIT, SELECT_ONE, Figure, Latency, LeftOut, Report, percentiles
from rowbus.bench.logs import PARTS as LOG_PARTS
from rowbus.bench.logs import log_of_its_own, log_sides
from rowbus.bench.measuring import Budget, measure, timed
from rowbus.bench.place import QUEUE, place_of_its_own, terminated_like_interrupted
from rowbus.bench.receiving import receiving_sides, settings_of
from rowbus.bench.sending import (
    MESSAGE,
    PlaceOrder,
    bytes_of_one,
    moving_sides,
    prepare_sending,
    sending_sides,
)
from rowbus.database.backends import addresses_of, inspecting, open_database
from rowbus.endpoint.endpoint import Endpoint
from rowbus.transport.client import AsyncClient
from rowbus.transport.queues.catalog.table import catalog_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from rowbus.bench.figures import Settings
    from rowbus.bench.measuring import Side
    from rowbus.bench.place import Place
    from rowbus.database.sessions import Session
    from rowbus.transport.queues.diagnosis import ServerFacts


MOST: Final = 2_000  # samples
REST: Final = 0.03  # seconds between two messages, so that the receiver is at rest
PATIENCE: Final = 10.0  # seconds for one message


def round_trip(place: Place, seconds: float) -> Latency:
    """Time `select 1`."""
    statement = statements.select_one()
    with place.session() as session:
        return percentiles(SELECT_ONE, timed(lambda: session.run(statement), seconds, MOST))


def commit(place: Place, seconds: float) -> Latency:
    """Time the insert of one small row in a transaction of its own, as the server's settings have it commit."""
    statement = statements.insert_order(place.schema, MESSAGE.order_id, MESSAGE.total)
    with place.session() as session:
        return percentiles(COMMIT, timed(lambda: session.run(statement), seconds, MOST))


def at_rest(place: Place, seconds: float) -> Latency | LeftOut:
    """Time messages from the call of `send` to that of their handler, in one process."""
    with place.session() as session:
        session.run(statements.truncate(place.queue))
    samples = asyncio.run(_send_one_by_one(place, seconds))
    if not samples:
        return LeftOut(AT_REST, f"no message came within {PATIENCE:.0f} s")
    return percentiles(AT_REST, samples)


async def _send_one_by_one(place: Place, seconds: float) -> list[float]:
    arrived = asyncio.Event()
    endpoint = Endpoint(QUEUE, database=place.dsn, settings=settings_of(place, 1, 1), delayed_delivery=None)

    @endpoint.handler
    async def arrive(_message: PlaceOrder) -> None:
        arrived.set()

    async with endpoint, place.async_session() as session:
        client = AsyncClient(session.connection, schema=place.schema)
        samples: list[float] = []
        until = time.perf_counter() + seconds
        while not samples or time.perf_counter() < until:
            try:
                samples.append(await _time_one(client, arrived))
            except TimeoutError:
                break
    return samples[1:] or samples  # the first one waits for plans and caches


async def _time_one(client: AsyncClient, arrived: asyncio.Event) -> float:
    await asyncio.sleep(REST)
    arrived.clear()
    started = time.perf_counter()
    await client.send(QUEUE, MESSAGE)
    async with asyncio.timeout(PATIENCE):
        await arrived.wait()
    return time.perf_counter() - started


LATENCIES = 3


class Plan(NamedTuple):
    """The plan of a measurement: in this schema, for about so many seconds, with so many messages at a time."""

    dsn: str
    schema: str
    seconds: float
    concurrency: int
    tell: Callable[[str], None]
    """Hears what is measured now."""


def run(plan: Plan) -> Report:
    """Measure a PostgreSQL server. Creates the schema of the plan, and drops it.

    Raises PermissionDeniedError for a role that may not create schemas, and StorageError. Ctrl-C and SIGTERM raise
    KeyboardInterrupt, when all is dropped.
    """
    database = open_database(plan.dsn)
    with inspecting(database) as session:
        server = cast("ServerFacts", session.run(catalog_of(addresses_of(plan.dsn)).server()))
        settings = session.run(statements.settings())
    with terminated_like_interrupted(), place_of_its_own(plan.dsn, plan.schema, server) as place:
        course = Course(plan, place, server, settings)
        course.measure_all()
        return course.report()


class Course:
    """One measurement, in a place that is there."""

    def __init__(self, plan: Plan, place: Place, server: ServerFacts, settings: Settings) -> None:
        """Measure with as many connections as there are."""
        self._plan, self._place, self._server, self._settings = plan, place, server, settings
        free = server.connection_limit - server.connections
        self._concurrency = usable_concurrency(plan.concurrency, free)
        self._latencies: list[Latency] = []
        self._figures: list[Figure] = []
        self._left_out: list[LeftOut] = []
        self._others_wal: float | None = None

    def measure_all(self) -> None:
        """Measure one after another."""
        place = self._place
        prepare_sending(place)
        sides = [*sending_sides(place), *receiving_sides(place, self._concurrency), *moving_sides(place)]
        self._budget = Budget(self._plan.seconds, LATENCIES + len(sides) + LOG_PARTS)
        with place.session() if self._settings.shows_wal else nullcontext() as session:
            self._wal_session = session
            self._measure_latencies()
            self._measure_sides(sides)
            with log_of_its_own(place) as why_not:
                if why_not:
                    self._left_out.append(LeftOut("event log", why_not))
                else:
                    self._measure_sides(list(log_sides(place)))

    def report(self) -> Report:
        """Return what was found."""
        return Report(
            self._place.database.name,
            self._server.version,
            self._concurrency,
            self._settings,
            self._latencies,
            self._figures,
            self._left_out,
            diagnose(self._facts()),
        )

    def _facts(self) -> Facts:
        return Facts(
            self._server,
            self._settings,
            self._latencies,
            self._figures,
            self._plan.concurrency,
            self._concurrency,
            self._place.is_direct,
            self._others_wal,
            bytes_of_one(),
        )

    def _measure_latencies(self) -> None:
        before, started = self._wal(), time.perf_counter()
        self._note(round_trip(self._place, self._share(SELECT_ONE)))
        after = self._wal()
        if before is not None and after is not None:
            self._others_wal = (after - before) / (time.perf_counter() - started)
        self._note(commit(self._place, self._share(COMMIT)))
        self._note(at_rest(self._place, self._share(AT_REST)))

    def _measure_sides(self, sides: Sequence[Side]) -> None:
        for side in sides:
            self._note(measure(side, self._share(f"{side.name} ({side.by})"), self._wal))

    def _share(self, name: str) -> float:
        self._plan.tell(name)
        return self._budget.share()

    def _wal(self) -> int | None:
        session: Session | None = self._wal_session
        return None if session is None else session.run(statements.wal_position())

    def _note(self, found: Latency | Figure | LeftOut) -> None:
        if isinstance(found, Latency):
            self._latencies.append(found)
        elif isinstance(found, Figure):
            self._figures.append(found)
        else:
            self._left_out.append(found)
