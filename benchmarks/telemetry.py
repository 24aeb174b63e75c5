"""Costs of measuring and tracing an endpoint: on against off, one message at a time.

Invariant: the traced side has an SDK that samples one trace of a hundred and exports to nowhere: what is measured is
Rowbus's part and the SDK's, and no network.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace

from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import ParentBasedTraceIdRatio

from benchmarks import receiving
from benchmarks.measuring import Measurement, ratio
from benchmarks.reporting import Bench, Result, show
from rowbus.running.telemetry import instruments

SAMPLED = 0.01


def telemetry(bench: Bench) -> list[Result]:
    """(z) What metrics and traces cost an endpoint."""
    messages = bench.messages(6_000)
    plain = receiving.rowbus_side(bench.dsn, messages, concurrency=1, batch_size=1)
    sides = [
        replace(plain, name="off"),
        replace(plain, name="metrics", work=_within(_measuring, plain.work)),
        replace(plain, name="metrics and traces", work=_within(_tracing, plain.work)),
    ]
    runs = bench.meter.alternate(sides, bench.rounds)
    show("(z) metrics and traces, one message at a time", runs)
    off = runs["off"]
    return [
        result
        for side in sides[1:]
        for result in (
            Result(f"(z) {side.name}, against off", ratio(runs[side.name], off), 0.9),
            Result(f"(z) {side.name}: client CPU of off, to theirs", _cpu_ratio(off, runs[side.name]), 0.9),
        )
    ]


def _cpu_ratio(ours: list[Measurement], theirs: list[Measurement]) -> float:
    """Return the median of the ratios of the rounds, which other programs on the machine disturb less than rates."""
    return statistics.median(a.client_cpu / b.client_cpu for a, b in zip(ours, theirs, strict=True))


def _within(
    switched: Callable[[], AbstractContextManager[None]], work: Callable[[], int]
) -> Callable[[], int]:
    """Return the work of a side, switched on."""

    def done() -> int:
        with switched():
            return work()

    return done


@contextmanager
def _measuring() -> Generator[None]:
    instruments.turn_on()
    try:
        yield
    finally:
        instruments.turn_off()


@contextmanager
def _tracing() -> Generator[None]:
    provider = TracerProvider(sampler=ParentBasedTraceIdRatio(SAMPLED))
    provider.add_span_processor(BatchSpanProcessor(InMemorySpanExporter()))
    instruments.use(provider)
    try:
        with _measuring():
            yield
    finally:
        instruments.use(None)
        provider.shutdown()
