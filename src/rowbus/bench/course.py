"""The course of a measurement: the server, its latencies, what is sent and received, the log, and the verdicts.

Invariant: what it made is dropped before it returns or raises.
"""

from __future__ import annotations

import time
from contextlib import nullcontext
from typing import TYPE_CHECKING, NamedTuple, cast

from rowbus.bench import latencies, statements
from rowbus.bench.diagnosis import Facts, diagnose, usable_concurrency
from rowbus.bench.figures import AT_REST, COMMIT, SELECT_ONE, Figure, Latency, LeftOut, Report
from rowbus.bench.logs import PARTS as LOG_PARTS
from rowbus.bench.logs import log_of_its_own, log_sides
from rowbus.bench.measuring import Budget, measure
from rowbus.bench.place import place_of_its_own, terminated_like_interrupted
from rowbus.bench.receiving import receiving_sides
from rowbus.bench.sending import bytes_of_one, moving_sides, prepare_sending, sending_sides
from rowbus.database.backends import addresses_of, inspecting, open_database
from rowbus.transport.queues.catalog.table import catalog_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from rowbus.bench.figures import Settings
    from rowbus.bench.measuring import Side
    from rowbus.bench.place import Place
    from rowbus.database.sessions import Session
    from rowbus.transport.queues.diagnosis import ServerFacts

LATENCIES = 3


class Plan(NamedTuple):
    """What to measure: in a schema of this name, for about so many seconds, with so many messages at a time."""

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
        self._note(latencies.round_trip(self._place, self._share(SELECT_ONE)))
        after = self._wal()
        if before is not None and after is not None:
            self._others_wal = (after - before) / (time.perf_counter() - started)
        self._note(latencies.commit(self._place, self._share(COMMIT)))
        self._note(latencies.at_rest(self._place, self._share(AT_REST)))

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
