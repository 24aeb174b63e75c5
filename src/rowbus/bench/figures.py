"""The figures of a measurement, and what they are measured on: values.

Invariant: pure; a figure that could not be had is None, never 0.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rowbus.transport.queues.diagnosis import Finding

ROWBUS: Final = "Rowbus"
DRIVER: Final = "psycopg"

SELECT_ONE: Final = "round trip of `select 1`"
COMMIT: Final = "commit of one small row"
AT_REST: Final = "a message at rest, from send to handler"

SINGLE_RECEIVE: Final = "receive, one a transaction"


class Settings(NamedTuple):
    """Settings by which a commit is safe and dear; the columns of `bench/sql/postgresql/settings.sql`."""

    fsync: bool
    full_page_writes: bool
    synchronous_commit: str
    has_synchronous_standbys: bool
    wal_level: str
    shared_buffers: int
    commit_delay: int
    shows_wal: bool


class Latency(NamedTuple):
    """The times of something that was done over and over, in seconds."""

    name: str
    p50: float
    p99: float
    samples: int


class Figure(NamedTuple):
    """The cost of one side of a measurement: so many messages, in seconds, of the client's processor, and in WAL."""

    name: str
    by: str
    messages: int
    seconds: float
    client_cpu: float
    wal_bytes: int | None

    @property
    def rate(self) -> float:
        """Messages a second."""
        return self.messages / self.seconds

    @property
    def cpu_of_one(self) -> float:
        """Microseconds of the client's processor for each message."""
        return self.client_cpu / self.messages * 1e6

    @property
    def wal_of_one(self) -> float | None:
        """Bytes of WAL for each message, those of others' writes at the time included."""
        return None if self.wal_bytes is None else self.wal_bytes / self.messages


class LeftOut(NamedTuple):
    """A measurement that was not made, and why."""

    name: str
    why: str


class Report(NamedTuple):
    """All that was found out about a server."""

    database: str
    version: str
    concurrency: int
    settings: Settings
    latencies: Sequence[Latency]
    figures: Sequence[Figure]
    left_out: Sequence[LeftOut]
    findings: Sequence[Finding]


def percentiles(name: str, samples: Sequence[float]) -> Latency:
    """Return the latency of what was timed, at least once."""
    ordered = sorted(samples)
    return Latency(name, _at(ordered, 0.5), _at(ordered, 0.99), len(ordered))


def latency_of(latencies: Sequence[Latency], name: str) -> Latency | None:
    """Return the latency of this name, if it was measured."""
    return next((latency for latency in latencies if latency.name == name), None)


def figure_of(figures: Sequence[Figure], name: str, by: str) -> Figure | None:
    """Return the figure of this name and side, if it was measured."""
    return next((figure for figure in figures if (figure.name, figure.by) == (name, by)), None)


def _at(ordered: Sequence[float], share: float) -> float:
    """Return the value that this share of the ordered ones does not exceed."""
    return ordered[min(int(share * len(ordered)), len(ordered) - 1)]
