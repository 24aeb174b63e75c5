"""Handlers: those that are plain functions, those that fail, and those that take long.

Invariant: all sides receive the same messages, one a transaction, through endpoints that differ in nothing but the
handler and what becomes of a failure.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import statistics
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from typing import Any

import rowbus
from benchmarks import delayed_sides
from benchmarks.measuring import Side, ratio
from benchmarks.reporting import Bench, Result, show
from benchmarks.workload import MESSAGE, PlaceOrder, fill

MOST_CPU = 1.5  # of a plain function, against an async one
FAILURES = {
    "delayed retry": rowbus.Recoverability(immediate=0, delayed=1, increase=timedelta(hours=1)),
    "error copy": rowbus.Recoverability(immediate=0, delayed=0),
}
LEAST_LONG = 500.0
"""Messages a second that move to the table of running work, are claimed, and are ended."""
SINGLE = rowbus.EndpointSettings(concurrency=1, batch_size=1)
Handler = Callable[..., Any]


class Countdown:
    """Counts handled messages, from any thread, and tells when the last one was handled."""

    def __init__(self, messages: int) -> None:
        self._numbers = itertools.count(1)
        self._messages = messages
        self._loop = asyncio.get_running_loop()
        self._done = asyncio.Event()

    def count(self) -> None:
        """Note one more; of threads that do so at once, one notes the last."""
        if next(self._numbers) == self._messages:
            self._loop.call_soon_threadsafe(self._done.set)

    async def wait(self) -> None:
        """Wait for the last."""
        await self._done.wait()


def functions(bench: Bench) -> list[Result]:
    """(a3) Handlers that are plain functions, which run in threads, against async ones."""
    results: list[Result] = []
    for count, batch_size in ((4_000, 1), (60_000, 100)):
        messages = bench.messages(count)
        sides = [
            side(bench.dsn, name, messages, handler, settings=replace(SINGLE, batch_size=batch_size))
            for name, handler in (("def", _plain), ("async def", _asynchronous))
        ]
        runs = bench.meter.alternate(sides, bench.rounds)
        title = f"(a3) handlers, batches of {batch_size}"
        show(title, runs)
        pairs = zip(runs["def"], runs["async def"], strict=True)
        cpu = statistics.median(a.client_cpu / b.client_cpu for a, b in pairs)
        results.append(Result(f"{title}: client CPU of def, against async def", cpu, MOST_CPU, at_most=True))
    return results


def failures(bench: Bench) -> list[Result]:
    """(a4) Messages whose handler fails, for a delayed retry or the error queue, against plain sends."""
    messages = bench.messages(4_000)
    send = side(bench.dsn, "plain send", messages, sending)
    failing = [
        side(bench.dsn, name, messages, _failing, recoverability=policy) for name, policy in FAILURES.items()
    ]
    with _silence():
        runs = bench.meter.alternate([*failing, send], bench.rounds)
    title = "(a4) a handler that fails, against one that sends"
    show(title, runs)
    return [Result(f"{title}: {name}", ratio(runs[name], runs[send.name]), 0.8) for name in FAILURES]


def long_handlers(bench: Bench) -> list[Result]:
    """(a6) Messages of handlers that take long: moved, claimed and ended, by one process."""
    long = side(
        bench.dsn,
        "long=True",
        bench.messages(4_000),
        _asynchronous,
        settings=replace(SINGLE, concurrency=2),
        is_long=True,
    )
    runs = bench.meter.alternate([long], bench.rounds)
    title = "(a6) handlers that take long, a second"
    show(title, runs)
    return [Result(title, statistics.median(run.rate for run in runs[long.name]), LEAST_LONG)]


def side(
    dsn: str,
    name: str,
    messages: int,
    handler: Callable[[Countdown], Handler],
    *,
    settings: rowbus.EndpointSettings = SINGLE,
    recoverability: rowbus.Recoverability | None = None,
    is_long: bool = False,
    fill: Callable[[str, int], None] = fill,
) -> Side:
    """An endpoint with one handler, which receives what `fill` puts into its queue."""

    def prepare() -> None:
        delayed_sides.empty_delayed(dsn)
        fill(dsn, messages)

    async def serve() -> int:
        countdown = Countdown(messages)
        endpoint = rowbus.Endpoint("bench", database=dsn, settings=settings, recoverability=recoverability)
        endpoint.handler(long=is_long)(handler(countdown))
        async with endpoint:
            await countdown.wait()
        return messages

    return Side(name, prepare, lambda: asyncio.run(serve()))


def _plain(countdown: Countdown) -> Handler:
    def no_op(_message: PlaceOrder) -> None:
        countdown.count()

    return no_op


def _asynchronous(countdown: Countdown) -> Handler:
    async def no_op(_message: PlaceOrder) -> None:
        countdown.count()

    return no_op


def sending(countdown: Countdown) -> Handler:
    """Return a handler that sends one message."""

    async def send(_message: PlaceOrder, context: rowbus.Context) -> None:
        await context.send("error", MESSAGE)
        countdown.count()

    return send


def _failing(countdown: Countdown) -> Handler:
    async def fail(_message: PlaceOrder) -> None:
        countdown.count()
        raise ValueError

    return fail


@contextmanager
def _silence() -> Generator[None]:
    """Write no line for each failure; where lines go to is not what is compared."""
    logger = logging.getLogger("rowbus")
    level = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        logger.setLevel(level)
