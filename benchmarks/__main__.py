"""`make bench`: run the comparisons and print their ratios beside the targets.

Invariant: exit code 1 if a target is missed, so that a claim in the documentation can be checked.
"""

from __future__ import annotations

import argparse
import logging
import signal
import statistics
import sys
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

from benchmarks import (
    delayed_comparisons,
    handlers,
    log_comparisons,
    receiving,
    sagas,
    sending,
    snapshot,
    spark_comparisons,
    steps,
    versions,
)
from benchmarks.endpoint_sending import endpoint_send
from benchmarks.far_sqlserver import far_sqlserver
from benchmarks.growth import comparisons as growth
from benchmarks.idle import idle
from benchmarks.lanes import lanes
from benchmarks.latency import latency
from benchmarks.measuring import Meter, ratio
from benchmarks.publishing import publish
from benchmarks.reporting import Bench, NotRunError, Result, show, verdict
from benchmarks.requests import request
from benchmarks.servers import running
from benchmarks.statements import auto, handler_send, statement
from benchmarks.telemetry import telemetry
from benchmarks.web import web
from rowbus.database.embedded import find_binaries


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


def platform(bench: Bench) -> list[Result]:
    """(w) What reports to ServicePulse cost an endpoint."""
    results = []
    for count, options in ((6_000, {"batch_size": 1}), (60_000, {"batch_size": 100})):
        messages = bench.messages(count)
        plain = receiving.rowbus_side(bench.dsn, messages, concurrency=1, **options)
        reporting = receiving.reporting_side(bench.dsn, messages, concurrency=1, **options)
        runs = bench.meter.alternate([reporting, plain], bench.rounds)
        title = f"(w) heartbeats and metrics, batches of {options['batch_size']}"
        show(title, runs)
        results.append(Result(f"{title}, against none", ratio(runs[reporting.name], runs[plain.name]), 0.97))
    return results


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


def client_cpu(bench: Bench) -> list[Result]:
    """(c2) A new client for each message: its CPU against that of one which stays."""
    messages = bench.messages(3_000)
    new, kept = sending.client_for_each_send(bench.dsn, messages), sending.client_send(bench.dsn, messages)
    runs = bench.meter.alternate([new, kept], bench.rounds)
    show("(c2) a new client for each send", runs)
    pairs = zip(runs[new.name], runs[kept.name], strict=True)
    value = statistics.median(b.client_cpu / a.client_cpu for a, b in pairs)
    return [Result("(c2) client CPU of a client that stays, against a new one for each send", value, 0.7)]


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
    for batch_size, rounds in ((100, bench.rounds), (1, min(3, bench.rounds))):
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


MESSAGES: dict[str, Callable[[Bench], list[Result]]] = {
    "single": single,
    "batches": batches,
    "platform": platform,
    "telemetry": telemetry,
    "web": web,
    "send": send,
    "client_cpu": client_cpu,
    "endpoint_send": endpoint_send,
    "send_many": send_many,
    "peers": peers,
    "held_snapshot": held_snapshot,
    "request": request,
    "sagas": sagas.sagas,
    "steps": steps.steps,
    "lanes": lanes,
    "publish": publish,
    "functions": handlers.functions,
    "statement": statement,
    "handler_send": handler_send,
    "auto": auto,
    "failures": handlers.failures,
    "long_handlers": handlers.long_handlers,
    "idle": idle,
    "latency": latency,
    "far_sqlserver": far_sqlserver,
}
DELAYED = delayed_comparisons.COMPARISONS
LOG = log_comparisons.COMPARISONS
GROWTH = growth.COMPARISONS
SPARK = spark_comparisons.COMPARISONS
TOGETHER = {growth.ALL: list(GROWTH), spark_comparisons.ALL: list(spark_comparisons.FIGURES)}
"""Several names by the one that stands for them."""


def main() -> int:
    """Parse the command line, start a server, run what was asked for, print the verdict."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument(
        "names",
        nargs="*",
        choices=[[], *MESSAGES, *DELAYED, *LOG, *GROWTH, *SPARK, *TOGETHER],
        help="which comparisons; all by default",
    )
    parser.add_argument("--rounds", type=int, default=5, help="rounds that count, after a cold one")
    parser.add_argument("--scale", type=float, default=1.0, help="factor on the numbers of messages")
    parser.add_argument(
        "--pictures", type=Path, metavar="FOLDER", help="draw each curve of growth there, as SVG"
    )
    parser.add_argument(
        "--server", type=int, metavar="VERSION", help="Spark's comparisons: on this PostgreSQL only, 15 or 18"
    )
    parser.add_argument("--base", metavar="COMMIT", help="run that commit's package in turn, and show both")
    arguments = parser.parse_args()
    logging.basicConfig(level=logging.ERROR)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # or the servers would stay
    asked = arguments.names or [*MESSAGES, *DELAYED, *LOG, *GROWTH, *SPARK]
    names = [name for each in asked for name in TOGETHER.get(each, [each])]
    if arguments.base and arguments.server:
        parser.error("--server is not for --base, whose commit may not have it")
    if arguments.base:
        return versions.compare(arguments.base, names, arguments.rounds, arguments.scale)
    with ExitStack() as stack:
        return verdict([result for name in names for result in run(name, arguments, stack)])


def run(name: str, arguments: argparse.Namespace, stack: ExitStack) -> list[Result]:
    """Run one comparison on the server it is for, which is started if it is the first there."""
    if name in SPARK:
        return spark_comparisons.run(name, arguments)
    binaries = log_comparisons.find_server() if name in LOG else find_binaries()
    dsn = running(binaries, stack)
    bench = Bench(dsn, Meter(dsn), arguments.rounds, arguments.scale, arguments.pictures)
    try:
        return {**MESSAGES, **DELAYED, **LOG, **GROWTH}[name](bench)
    except NotRunError as reason:
        return [Result(name, 0.0, 0.0, not_run=str(reason))]


if __name__ == "__main__":
    sys.exit(main())
