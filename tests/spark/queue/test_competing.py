"""Rowbus endpoints and Spark receive from one queue at the same time: each message goes to exactly one of them."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
from collections import Counter
from typing import Any

import rowbus
from rowbus.spark.queue_source.receive import QueueStreamReader
from tests.spark.queue.queues import ALL, Offset, Queue, batch, expired

MESSAGES = 2000

HOLDER = """
import sys
from rowbus.spark.queue_source import source as queue_source
from pyspark.sql.streaming.datasource import ReadMaxRows

options = {"queue": "Work", "dsn": sys.argv[1], "mode": "receive", "consumer": "lake"}
reader = queue_source.stream_reader(options, queue_source.schema(options))
start = reader.initialOffset()
print(reader.latestOffset(start, ReadMaxRows(3)), flush=True)
sys.stdin.read()
"""


async def test_an_endpoint_and_two_streams_share_a_queue_and_each_message_is_delivered_once(
    database: str,
) -> None:
    queue = await asyncio.to_thread(Queue, database)
    handled: list[int] = []
    endpoint = rowbus.Endpoint("Work", database=database)

    @endpoint.handler("Shop.Work")
    async def work(message: dict[str, Any]) -> None:
        handled.append(message["number"])

    readers = [
        queue.receiver(consumer=name, maxOffsetsPerTrigger=50, pollIntervalMs=5) for name in ("a", "b")
    ]
    await endpoint.install()
    await endpoint.start()
    try:
        streams = [asyncio.create_task(asyncio.to_thread(receive, reader)) for reader in readers]
        for number in range(0, MESSAGES, 100):
            await asyncio.to_thread(queue.send, *range(number, number + 100))
        streamed = await asyncio.gather(*streams)
        while await asyncio.to_thread(queue.waiting):  # noqa: ASYNC110 - nobody tells when a queue is empty
            await asyncio.sleep(0.02)
    finally:
        await endpoint.stop()
    for reader in readers:
        reader.stop()

    counts = Counter([*handled, *streamed[0], *streamed[1]])
    assert counts == Counter(range(MESSAGES))
    assert min(len(handled), len(streamed[0]), len(streamed[1])) > 0


def receive(reader: QueueStreamReader) -> list[int]:
    """Receive until a message has been the last for a while."""
    found: list[int] = []
    start: Offset = reader.initialOffset()
    idle = 0
    while idle < 50:
        end = reader.latestOffset(start, reader.getDefaultReadLimit())
        idle = idle + 1 if end == start else 0
        found += batch(reader, start, end)
        start = end
    return found


def test_messages_of_a_killed_process_are_taken_up_by_its_successor_or_go_back(queue: Queue) -> None:
    queue.send(*range(5))
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDER, queue.dsn], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    with process:
        assert process.stdout is not None
        assert "'claim': 1" in process.stdout.readline()
        assert (queue.waiting(), queue.claimed()) == ([3, 4], [0, 1, 2])
        process.send_signal(signal.SIGKILL)

    successor = queue.receiver(lockTimeoutMs=5000)
    start = successor.initialOffset()
    assert batch(successor, start, successor.latestOffset(start, ALL)) == [0, 1, 2]
    successor.stop()
    queue.expire_leases()
    with queue.session() as session:
        assert expired(session) == 3
    assert queue.waiting() == [3, 4, 0, 1, 2]
