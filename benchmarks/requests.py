"""Requests: how long an answer takes, one after the other, and how long a thousand at once take.

Invariant: who answers is a process of its own, started and warm before the clock starts.
"""

from __future__ import annotations

import asyncio
import statistics
import subprocess
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass

import rowbus
from benchmarks.reporting import Bench, Result, console

ROUND_TRIP = 10.0  # milliseconds, in the median
AT_ONCE = 1_000


@rowbus.command("Bench.Ask")
@dataclass
class Ask:
    """A request."""

    number: int


@rowbus.message("Bench.Answer")
@dataclass
class Answer:
    """Its answer."""

    number: int


def request(bench: Bench) -> list[Result]:
    """(x) Requests, and their answers."""
    with answering(bench.dsn):
        times, together = asyncio.run(_ask(bench.dsn, bench.messages(2_000), bench.rounds))
    times.sort()
    middle, high = statistics.median(times) * 1e3, times[len(times) * 95 // 100] * 1e3
    console.print(
        f"(x) {len(times):,} requests one after the other: median {middle:.1f} ms, 95 % within {high:.1f} ms; "
        f"{AT_ONCE:,} at once: {statistics.median(together):.2f} s, all answered"
    )
    return [
        Result("(x) a request and its answer, median", middle, ROUND_TRIP, " ms", at_most=True),
        Result(f"(x) {AT_ONCE:,} requests at once", statistics.median(together), 30.0, " s", at_most=True),
    ]


@contextmanager
def answering(dsn: str) -> Generator[None]:
    """Have a process answer meanwhile."""
    program = subprocess.Popen([sys.executable, "-m", __name__, dsn], stdin=subprocess.DEVNULL)
    try:
        yield
    finally:
        program.terminate()
        program.wait()


async def _ask(dsn: str, count: int, rounds: int) -> tuple[list[float], list[float]]:
    await _endpoint(dsn).install()
    async with rowbus.AsyncRequestClient("bench", database=dsn) as client:

        async def ask(number: int) -> float:
            began = time.perf_counter()
            answer = await client.request("answering", Ask(number), Answer, timeout=60)
            if answer.number != number:
                raise AssertionError(answer)
            return time.perf_counter() - began

        for number in range(50):
            await ask(number)
        times = [await ask(number) for number in range(count)]
        together: list[float] = []
        for _ in range(rounds):
            began = time.perf_counter()
            await asyncio.gather(*(ask(number) for number in range(AT_ONCE)))
            together.append(time.perf_counter() - began)
        return times, together


def _endpoint(dsn: str) -> rowbus.Endpoint:
    endpoint = rowbus.Endpoint("answering", database=dsn)

    @endpoint.handler
    async def answer(message: Ask, context: rowbus.Context) -> None:
        await context.reply(Answer(message.number))

    return endpoint


if __name__ == "__main__":
    _endpoint(sys.argv[1]).run()
