"""One measurement, and the alternation of two sides.

Invariant: what is counted is the work alone: preparation happens before the clock starts, and a checkpoint before
each measurement, so that neither side pays for the other's writes.
"""

from __future__ import annotations

import gc
import os
import statistics
import time
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path

import psycopg

REAPING = 0.1  # seconds for the server to reap backends that left: until then their CPU is nowhere to be read
TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class Measurement:
    """The time and the costs of one run of one side."""

    messages: int
    seconds: float
    client_cpu: float
    server_cpu: float
    wal_bytes: int

    @property
    def rate(self) -> float:
        """Messages per second."""
        return self.messages / self.seconds


def alone() -> AbstractContextManager[Iterable[int]]:
    """Have no other processes run."""
    return nullcontext(())


@dataclass(frozen=True, slots=True)
class Side:
    """One side of a comparison: `prepare` makes the table ready, `work` does it and returns how many messages.

    `around` both, other processes run, whose numbers it gives: their CPU is the client's.
    """

    name: str
    prepare: Callable[[], None]
    work: Callable[[], int]
    around: Callable[[], AbstractContextManager[Iterable[int]]] = alone


class Meter:
    """Measures sides on one server."""

    def __init__(self, dsn: str) -> None:
        """Read WAL through a connection, and CPU from the processes of the server on the other side of it."""
        self._connection = psycopg.connect(dsn, autocommit=True)
        self._postmaster = _parent(self._connection.info.backend_pid)

    def measure(self, side: Side) -> Measurement:
        """Prepare, then run the work once."""
        with side.around() as others:
            side.prepare()
            self._connection.execute("checkpoint")
            gc.collect()
            wal, server = self._wal(), server_cpu(self._postmaster)
            client, started = _client_cpu(others), time.perf_counter()
            messages = side.work()
            seconds, client = time.perf_counter() - started, _client_cpu(others) - client
            time.sleep(REAPING)
            server = server_cpu(self._postmaster) - server
            return Measurement(messages, seconds, client, server, self._wal() - wal)

    def alternate(self, sides: list[Side], rounds: int) -> dict[str, list[Measurement]]:
        """Run the sides in turn, `rounds` times, in changing order; the first, cold round is not counted."""
        results: dict[str, list[Measurement]] = {side.name: [] for side in sides}
        for number in range(rounds + 1):
            ordered = sides if number % 2 == 0 else list(reversed(sides))
            for side in ordered:
                measurement = self.measure(side)
                if number > 0:
                    results[side.name].append(measurement)
        return results

    def _wal(self) -> int:
        row = self._connection.execute("select pg_current_wal_insert_lsn() - '0/0'::pg_lsn").fetchone()
        assert row is not None
        return int(row[0])


def ratio(ours: list[Measurement], theirs: list[Measurement]) -> float:
    """The median of the ratios of the rounds: each compares neighbours in time."""
    return statistics.median(a.rate / b.rate for a, b in zip(ours, theirs, strict=True))


def percentile(rounds: list[list[float]], percent: int) -> float:
    """The median of the rounds' percentiles, without the first, cold round."""
    return statistics.median(statistics.quantiles(each, n=100)[percent - 1] for each in rounds[1:])


def server_cpu(postmaster: int) -> float:
    """CPU seconds of a server: the postmaster, its live children, and those it has reaped."""
    total = sum(_cpu(postmaster, reaped=True))
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and _parent(int(entry.name)) == postmaster:
            total += sum(_cpu(int(entry.name), reaped=False))
    return total / TICKS


def _fields(pid: int) -> list[str]:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return []


def _parent(pid: int) -> int:
    fields = _fields(pid)
    return int(fields[1]) if fields else 0


def _cpu(pid: int, *, reaped: bool) -> list[int]:
    return [int(value) for value in _fields(pid)[11 : 15 if reaped else 13]]


def _client_cpu(others: Iterable[int]) -> float:
    times = os.times()
    own = times.user + times.system + times.children_user + times.children_system
    return own + sum(sum(_cpu(pid, reaped=False)) for pid in others) / TICKS
