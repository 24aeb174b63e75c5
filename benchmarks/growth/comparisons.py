"""The curves by name, each to be measured alone; `growth` is all of them.

Invariant: every curve can be measured without the others.
"""

from __future__ import annotations

from collections.abc import Callable

from benchmarks.growth import backlog, delayed, endpoints, logs, messages, subscribers, workers
from benchmarks.reporting import Bench, Result

ALL = "growth"

COMPARISONS: dict[str, Callable[[Bench], list[Result]]] = {
    "growth-backlog": backlog.waiting,
    "growth-dead-rows": backlog.dead_rows,
    "growth-snapshot": backlog.beside_a_snapshot,
    "growth-endpoints": endpoints.endpoints,
    "growth-workers": workers.workers,
    "growth-logs": logs.logs,
    "growth-consumers": logs.consumers,
    "growth-retained": logs.retained,
    "growth-delayed": delayed.waiting,
    "growth-burst": delayed.burst,
    "growth-bodies": messages.bodies,
    "growth-headers": messages.headers,
    "growth-subscribers": subscribers.subscribers,
}
