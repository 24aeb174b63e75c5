"""One measurement: a small one that says how many messages fit into the time, then the one that counts.

Invariants: what is counted is the work alone, from the first message that is done until the last: connections, filling
and stopping are before and after it; `planned` and `share_of` are pure; each part gets some of any time.
"""

from __future__ import annotations

import gc
import time
from typing import TYPE_CHECKING, Final, NamedTuple

from rowbus.bench.figures import Figure, LeftOut

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

SHORTEST: Final = 0.05  # seconds for one part, if there is no time left
# The share of a part's time; the rest is for connections, filling, and the small measurement before.
MEASURED: Final = 0.5


def planned(rate: float, seconds: float, least: int, most: int) -> int:
    """Return how many messages to measure with for so many seconds, at a rate that was seen."""
    return max(least, min(int(rate * seconds), most))


def share_of(left: float, parts: int) -> float:
    """Return how many seconds of those left the next of so many parts counts for."""
    return max(SHORTEST, left / max(parts, 1) * MEASURED)


class Budget:
    """The seconds of a whole measurement. What one part leaves, the others have."""

    def __init__(self, seconds: float, parts: int) -> None:
        """Begin now."""
        self._until = time.perf_counter() + seconds
        self._parts = parts

    def share(self) -> float:
        """Return how many seconds the next part counts for."""
        parts, self._parts = self._parts, self._parts - 1
        return share_of(self._until - time.perf_counter(), parts)


PATIENCE: Final = 30.0  # seconds in which the first message has to be done


class Watch:
    """The clock of one measurement. Made before the preparations, started and stopped once each."""

    def __init__(self, seconds: float, wal: Callable[[], int | None]) -> None:
        """Be over when the work has lasted for so many seconds."""
        self.messages = 0
        self.seconds = self.client_cpu = 0.0
        self.wal_bytes: int | None = None
        self._longest = seconds
        self._wal = wal
        self._until = time.perf_counter() + PATIENCE

    @property
    def is_over(self) -> bool:
        """Whether the work has had its time, or does not begin."""
        return time.perf_counter() >= self._until

    def start(self) -> None:
        """Begin to count."""
        gc.collect()
        self._wal_before = self._wal()
        self._cpu_before, self._started = time.process_time(), time.perf_counter()
        self._until = self._started + self._longest

    def stop(self, messages: int) -> None:
        """End, after so many messages."""
        self.seconds = time.perf_counter() - self._started if messages else 0.0
        self.client_cpu = time.process_time() - self._cpu_before if messages else 0.0
        after = self._wal()
        if messages and after is not None and self._wal_before is not None:
            self.wal_bytes = after - self._wal_before
        self.messages = messages


Work = "Callable[[int, Watch], None]"


class Side(NamedTuple):
    """One side of a measurement: `work` prepares, and does up to so many messages unless the watch is over before."""

    name: str
    by: str
    work: Callable[[int, Watch], None]
    least: int = 20
    """The number of messages that says how fast it is."""
    most: int = 1_000_000


def measure(side: Side, seconds: float, wal: Callable[[], int | None]) -> Figure | LeftOut:
    """Measure one side for about so many seconds."""
    first = Watch(seconds, wal)
    side.work(side.least, first)
    if not first.messages:
        return LeftOut(side.name, f"{side.by} did no message in {PATIENCE:.0f} s")
    count = planned(first.messages / first.seconds, seconds, side.least, side.most)
    counts = Watch(2 * seconds, wal)
    side.work(count, counts)
    watch = counts if counts.messages else first
    return Figure(side.name, side.by, watch.messages, watch.seconds, watch.client_cpu, watch.wal_bytes)


def repeat(once: Callable[[], object], count: int, watch: Watch) -> None:
    """Do one thing over and over; the first time, which makes plans and caches, is not counted."""
    once()
    watch.start()
    done = 0
    while done < count and not watch.is_over:
        once()
        done += 1
    watch.stop(done)


def until_over(things: Iterator[object], watch: Watch) -> Iterator[object]:
    """Yield things until there are no more, or their time is up."""
    for thing in things:
        yield thing
        if watch.is_over:
            return


def timed(once: Callable[[], object], seconds: float, most: int) -> list[float]:
    """Time one thing over and over for so many seconds, at least once; the first time is not counted."""
    once()
    samples: list[float] = []
    until = time.perf_counter() + seconds
    while not samples or (len(samples) < most and time.perf_counter() < until):
        started = time.perf_counter()
        once()
        samples.append(time.perf_counter() - started)
    return samples
