"""`Endpoint.send` from outside handlers: one after another, and by eight tasks, against `Client.send`.

Invariant: what is counted begins when the endpoint is started; its stop is counted, which takes some milliseconds.
"""

from __future__ import annotations

import asyncio
import statistics

import rowbus
from benchmarks.measuring import Side, ratio
from benchmarks.reporting import Bench, Result, show
from benchmarks.sending import bare_send, client_send
from benchmarks.workload import MESSAGE, PlaceOrder, empty

MOST_CPU = {1: 200.0, 8: 100.0}  # µs of the client a message, by the number of tasks


class _Sending:
    """An endpoint that sends to the queue of the benchmarks, and receives nothing."""

    def __init__(self, dsn: str, messages: int, tasks: int) -> None:
        self._dsn, self._messages, self._tasks = dsn, messages, tasks

    def prepare(self) -> None:
        """Start the endpoint on a loop of its own."""
        empty(self._dsn)
        self._endpoint = rowbus.Endpoint("bench.Sender", database=self._dsn)
        self._endpoint.handler(_ignore)
        self._runner = asyncio.Runner()
        self._runner.run(self._endpoint.start())

    def work(self) -> int:
        """Send, and stop the endpoint."""
        with self._runner as runner:
            runner.run(self._send())
        return self._messages

    async def _send(self) -> None:
        each = self._messages // self._tasks
        async with asyncio.TaskGroup() as group:
            for _ in range(self._tasks):
                group.create_task(self._send_many(each))
        await self._endpoint.stop()

    async def _send_many(self, count: int) -> None:
        for _ in range(count):
            await self._endpoint.send("bench", MESSAGE)


async def _ignore(_message: PlaceOrder) -> None:
    """Handle what never comes."""


def endpoint_send(bench: Bench) -> list[Result]:
    """(c3) `Endpoint.send` outside handlers."""
    messages = bench.messages(3_000) // 8 * 8
    ours = {
        tasks: Side(f"Endpoint.send, {tasks} at a time", sending.prepare, sending.work)
        for tasks in (1, 8)
        for sending in (_Sending(bench.dsn, messages, tasks),)
    }
    client, bare = client_send(bench.dsn, messages), bare_send(bench.dsn, messages)
    runs = bench.meter.alternate([*ours.values(), client, bare], bench.rounds)
    show("(c3) Endpoint.send outside handlers", runs)
    results: list[Result] = []
    for tasks, side in ours.items():
        cpu = statistics.median(run.client_cpu / run.messages for run in runs[side.name]) * 1e6
        results += [
            Result(f"(c3) {side.name}: client CPU", cpu, MOST_CPU[tasks], " µs", at_most=True),
            Result(f"(c3) {side.name}, against Client.send", ratio(runs[side.name], runs[client.name]), 0.8),
        ]
    return results
