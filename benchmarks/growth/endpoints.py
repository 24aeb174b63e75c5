"""More and more idle endpoints in one process.

Invariant: the targets are for up to 200; a point beyond that is shown.
"""

from __future__ import annotations

from benchmarks import idle
from benchmarks.growth.curves import Figures, Line, Most, curves, ladder, sample
from benchmarks.growth.showing import show
from benchmarks.reporting import Bench, Result

COUNTS, USUAL = (1, 10, 50, 200, 500, 1_000), 200
LINES = {
    "connections": Line("connections", ""),
    "listening": Line("connections that listen", "", Most(1)),
    "cpu": Line("client CPU", "%", Most(1, USUAL)),
    "transactions": Line("transactions a second", "", Most(5, USUAL)),
    "slowest": Line("slowest message, from sending to its handler", "ms", Most(20, USUAL)),
}


def endpoints(bench: Bench) -> list[Result]:
    """(2) Idle endpoints."""
    part = min(1, max(0.05, bench.scale))

    def measure(count: int) -> Figures:
        return idle.measure(bench.dsn, count, idle.SETTLING * part, idle.COUNTED * part)._asdict()

    counts = ladder(COUNTS, USUAL * bench.scale)
    found = sample(counts, measure, bench.rounds)
    return show(bench, curves("idle endpoints in one process", "endpoints", LINES, found))
