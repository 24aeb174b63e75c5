"""`make bench`: run the comparisons and print their ratios beside the targets.

Invariant: exit code 1 if a target is missed, so that a claim in the documentation can be checked.
"""

from __future__ import annotations

import argparse
import logging
import shutil
import statistics
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

from benchmarks import receiving, sending, snapshot
from benchmarks.measuring import Measurement, Meter, ratio
from rowbus.database.embedded import Cluster, find_binaries

console = Console()


@dataclass(frozen=True, slots=True)
class Bench:
    """What a comparison needs."""

    dsn: str
    meter: Meter
    rounds: int
    scale: float

    def messages(self, count: int) -> int:
        """Return a number of messages, scaled."""
        return max(200, int(count * self.scale))


@dataclass(frozen=True, slots=True)
class Result:
    """A ratio and what it should be at least."""

    title: str
    ratio: float
    target: float

    @property
    def met(self) -> bool:
        """Whether the target is met."""
        return self.ratio >= self.target


def show(title: str, results: dict[str, list[Measurement]]) -> None:
    """Print the medians of one comparison."""
    table = Table(title=title, title_justify="left")
    for column in ("side", "msg/s", "client CPU µs/msg", "server CPU µs/msg", "WAL bytes/msg"):
        table.add_column(column, justify="left" if column == "side" else "right")
    for name, runs in results.items():
        table.add_row(
            name,
            f"{statistics.median(run.rate for run in runs):,.0f}",
            f"{statistics.median(run.client_cpu / run.messages for run in runs) * 1e6:,.1f}",
            f"{statistics.median(run.server_cpu / run.messages for run in runs) * 1e6:,.1f}",
            f"{statistics.median(run.wal_bytes / run.messages for run in runs):,.0f}",
        )
    console.print(table)


def single(bench: Bench) -> list[Result]:
    """(a) One message a transaction."""
    title = "(a) single-message transactional receive"
    return [
        result
        for concurrency in (1, 8)
        for result in receive(bench, title, 4_000, 0.85, concurrency=concurrency, batch_size=1)
    ]


def batches(bench: Bench) -> list[Result]:
    """(b) Batches of a hundred."""
    title = "(b) transactional batches of 100"
    return [
        result
        for concurrency in (1, 2)
        for result in receive(bench, title, 60_000, 0.6, concurrency=concurrency, batch_size=100)
    ]


def receive(bench: Bench, title: str, count: int, target: float, **options: int) -> list[Result]:
    """An endpoint against hand-written loops of both kinds, at the same concurrency and batch size."""
    messages = bench.messages(count)
    ours = receiving.rowbus_side(bench.dsn, messages, **options)
    others = [
        receiving.tasks_side(bench.dsn, messages, **options),
        receiving.threads_side(bench.dsn, messages, **options),
    ]
    runs = bench.meter.alternate([ours, *others], bench.rounds)
    title = f"{title}, concurrency {options['concurrency']}"
    show(title, runs)
    return [
        Result(f"{title}, against {other.name}", ratio(runs[ours.name], runs[other.name]), target)
        for other in others
    ]


def send(bench: Bench) -> list[Result]:
    """(c) Single sends."""
    messages = bench.messages(3_000)
    ours = sending.client_send(bench.dsn, messages)
    others = [sending.bare_send(bench.dsn, messages), sending.bare_insert(bench.dsn, messages)]
    runs = bench.meter.alternate([ours, *others], bench.rounds)
    show("(c) single send", runs)
    return [
        Result(f"(c) single send, against {other.name}", ratio(runs[ours.name], runs[other.name]), 0.85)
        for other in others
    ]


def send_many(bench: Bench) -> list[Result]:
    """(d) Many at once."""
    messages = bench.messages(60_000)
    ours, bare = sending.client_send_many(bench.dsn, messages), sending.bare_copy(bench.dsn, messages)
    runs = bench.meter.alternate([ours, bare], bench.rounds)
    show("(d) send_many", runs)
    return [Result("(d) send_many, against psycopg's COPY", ratio(runs[ours.name], runs[bare.name]), 0.7)]


def peers(bench: Bench) -> list[Result]:
    """(e) The peers."""
    from benchmarks import peers as peer_sides  # noqa: PLC0415 - only this comparison needs them installed

    ours = receiving.rowbus_side(bench.dsn, bench.messages(60_000), concurrency=2, batch_size=100)
    slow = peer_sides.procrastinate_side(bench.dsn, bench.messages(1_000))
    fast = peer_sides.pgqueuer_side(bench.dsn, bench.messages(20_000))
    runs = bench.meter.alternate([ours, slow, fast], bench.rounds)
    show("(e) no-op jobs, each in its best configuration", runs)
    return [
        Result("(e) batches of 100, against procrastinate", ratio(runs[ours.name], runs[slow.name]), 50),
        Result("(e) batches of 100, against pgqueuer", ratio(runs[ours.name], runs[fast.name]), 2.5),
    ]


def held_snapshot(bench: Bench) -> list[Result]:
    """(f) The last tenth of 200,000 messages beside a held snapshot."""
    results = []
    for batch_size, rounds in ((100, bench.rounds), (1, 1)):
        messages = bench.messages(200_000)
        held, free = (
            snapshot.LastTenth(bench.dsn, messages, batch_size=batch_size, held=held)
            for held in (True, False)
        )
        sides = [held.side(), free.side()]
        runs = bench.meter.alternate(sides, rounds)
        show(f"(f) {messages:,} messages beside a held snapshot, batches of {batch_size}", runs)
        value = statistics.median(a / b for a, b in zip(held.rates[1:], free.rates[1:], strict=True))
        results.append(Result(f"(f) last tenth beside a held snapshot, batches of {batch_size}", value, 0.8))
    return results


COMPARISONS: dict[str, Callable[[Bench], list[Result]]] = {
    "single": single,
    "batches": batches,
    "send": send,
    "send_many": send_many,
    "peers": peers,
    "held_snapshot": held_snapshot,
}


def main() -> int:
    """Parse the command line, start a server, run what was asked for, print the verdict."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument(
        "names", nargs="*", choices=[[], *COMPARISONS], help="which comparisons; all by default"
    )
    parser.add_argument("--rounds", type=int, default=5, help="rounds that count, after a cold one")
    parser.add_argument("--scale", type=float, default=1.0, help="factor on the numbers of messages")
    arguments = parser.parse_args()
    logging.basicConfig(level=logging.ERROR)
    directory = Path(tempfile.mkdtemp(prefix="rowbus-bench-"))
    directory.chmod(0o711)  # the server runs as another user when we are root
    cluster = Cluster(find_binaries(), directory / "server")
    cluster.start()
    try:
        bench = Bench(cluster.dsn, Meter(cluster.dsn), arguments.rounds, arguments.scale)
        results = [result for name in arguments.names or COMPARISONS for result in COMPARISONS[name](bench)]
    finally:
        cluster.stop("immediate")
        shutil.rmtree(directory)
    return verdict(results)


def verdict(results: list[Result]) -> int:
    """Print all ratios beside their targets; 1 if one is missed."""
    table = Table(title="Ratios (median of the rounds)", title_justify="left")
    for column in ("comparison", "ratio", "target", ""):
        table.add_column(column, justify="right" if column in {"ratio", "target"} else "left")
    for result in results:
        table.add_row(
            result.title, f"{result.ratio:.2f}", f"≥ {result.target:g}", "met" if result.met else "MISSED"
        )
    console.print(table)
    return 0 if all(result.met for result in results) else 1


if __name__ == "__main__":
    sys.exit(main())
