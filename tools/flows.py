"""Trace five flows, and count how often execution passes from one top folder of `src/rowbus` to another.

Each flow runs on a temporary database (of ROWBUS_DATABASE, else of the embedded server) a few times; the quietest run
counts, because services look for work meanwhile. A call into another folder is one passage, the return another; a
coroutine that waits, and one that goes on after a wait, pass nowhere. What runs outside the package is left out, and
each thread is counted by itself. `--passages` shows which calls they are.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import io
import logging
import sys
import threading
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import timedelta
from dis import opmap
from pathlib import Path
from types import FrameType
from typing import Any, Self

import psycopg
import pyarrow as pa
from pyspark.sql.types import LongType, StringType, StructField, StructType

import rowbus
from rowbus.cli import app
from rowbus.spark.sink import writer as sink_writer
from rowbus.spark.sink.commit.batch import Task
from rowbus.testing import temporary_database

RESUME, YIELD = opmap["RESUME"], opmap["YIELD_VALUE"]
PACKAGE = f"{Path(rowbus.__file__).parent}/"
RUNS = 3
DEADLINE = 20.0  # seconds that a flow may take
SETTLING = 0.3  # seconds until a service waits again
MOST = {"send": 170, "delayed": 150, "event": 165, "sink": 130, "retry": 120}
QUERY = "6ee4b1b1-93f6-4f4c-9a52-17d3e02b1a29"


class Trace:
    """The passages between folders while the block lasts, in the threads that began after it was made or in it."""

    def __init__(self) -> None:
        self.passages = 0
        self.calls: Counter[str] = Counter()
        self._recording = False
        self._places = threading.local()

    def __enter__(self) -> Self:
        self._recording = True
        threading.setprofile(self._see)
        sys.setprofile(self._see)
        return self

    def __exit__(self, *_error: object) -> None:
        self._recording = False
        sys.setprofile(None)
        threading.setprofile(None)

    def _see(self, frame: FrameType, event: str, _argument: object) -> None:
        if not self._recording or not frame.f_code.co_filename.startswith(PACKAGE):
            return
        if event == "call" and not _begins(frame):
            self._places.last = folder(frame)
        elif event == "call":
            caller = _caller(frame)
            if caller is not None and folder(caller) != folder(frame):
                self.calls[f"{_place(caller)} → {_place(frame)}"] += 1
            self._arrive(folder(frame))
        elif event == "return" and not _waits(frame) and (caller := _caller(frame)) is not None:
            self._arrive(folder(caller))

    def _arrive(self, where: str) -> None:
        if getattr(self._places, "last", where) != where:
            self.passages += 1
        self._places.last = where


def folder(frame: FrameType) -> str:
    """Return the top folder, or top module, that a frame's code is in."""
    return frame.f_code.co_filename.removeprefix(PACKAGE).partition("/")[0].removesuffix(".py")


def _begins(frame: FrameType) -> bool:
    """Say whether a call begins a function; a coroutine that goes on is called, too."""
    code, at = frame.f_code.co_code, max(frame.f_lasti, 0)
    return code[at] != RESUME or code[at + 1] == 0


def _waits(frame: FrameType) -> bool:
    """Say whether a return is a coroutine's that waits, or a generator's that yields."""
    return frame.f_code.co_code[max(frame.f_lasti, 0)] == YIELD


def _caller(frame: FrameType) -> FrameType | None:
    caller = frame.f_back
    while caller is not None and not caller.f_code.co_filename.startswith(PACKAGE):
        caller = caller.f_back
    return caller


def _place(frame: FrameType) -> str:
    return f"{frame.f_code.co_filename.removeprefix(PACKAGE)}:{frame.f_code.co_qualname}"


# ------------------------------------------------------------------------------------------------------------- flows


@rowbus.command("Flows.PlaceOrder")
@dataclass
class PlaceOrder:
    """What is sent first."""

    order: int


@rowbus.command("Flows.ChargeCard")
@dataclass
class ChargeCard:
    """What its handler sends on."""

    order: int


def send(dsn: str) -> Trace:
    """Send a message whose handler sends another."""
    endpoint = rowbus.Endpoint("Sales", database=dsn)

    @endpoint.handler
    async def place_order(message: PlaceOrder, context: rowbus.Context) -> None:
        await context.send("Billing", ChargeCard(message.order))

    async def flow() -> Trace:
        async with endpoint:
            return await _sent(dsn, "Billing", None)

    return asyncio.run(flow())


def delayed(dsn: str) -> Trace:
    """Delay a message, and move it to its queue when it is due."""

    async def flow() -> Trace:
        async with rowbus.DelayedMover("Sales", database=dsn):
            return await _sent(dsn, "Sales", timedelta(milliseconds=100))

    return asyncio.run(flow())


async def _sent(dsn: str, arrives_in: str, delay: timedelta | None) -> Trace:
    """Send two messages, one after the other, and trace the second: the first finds the service starting."""
    with psycopg.connect(dsn) as connection:
        for trace in (Trace(), Trace()):
            before = _count(dsn, arrives_in)
            with trace:
                with connection.transaction():
                    rowbus.Client(connection).send("Sales", PlaceOrder(1), delay=delay)
                await _until(lambda: _count(dsn, arrives_in) > before)  # noqa: B023 - within the loop
            await asyncio.sleep(SETTLING)
        return trace


def event(dsn: str) -> Trace:
    """Append an event, make a tick, consume the event."""
    log = rowbus.Log(dsn, "orders")
    seen: list[rowbus.Event] = []

    @log.consumer("revenue")
    async def revenue(event: rowbus.Event, _context: rowbus.LogContext) -> None:
        seen.append(event)

    async def flow() -> Trace:
        async with log:
            with psycopg.connect(dsn) as connection, Trace() as trace:
                with connection.transaction():
                    rowbus.Log(connection, "orders").append({"order": 1}, type="order_placed")
                await asyncio.get_running_loop().run_in_executor(
                    ThreadPoolExecutor(1), rowbus.Ticker(dsn).run_once
                )
                await _until(lambda: bool(seen))
            return trace

    return asyncio.run(flow())


def sink(dsn: str) -> Trace:
    """Write a micro-batch of one row into a table and commit it, as Spark does but without Spark."""
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("create table if not exists goods (id int8 primary key, name text)")
        number = _count(dsn, "goods")
    options = {"dsn": dsn, "checkpointLocation": "/checkpoints/flows", "deliver": "table", "table": "goods"}
    schema = StructType([StructField("id", LongType()), StructField("name", StringType())])
    rows = pa.record_batch({"id": pa.array([number], pa.int64()), "name": pa.array(["chair"])})
    with Trace() as trace:
        writer = sink_writer.stream_writer(options, schema, False)  # noqa: FBT003 - as Spark calls it
        task = Task(0, number + 1, QUERY, number)
        message = sink_writer.StreamWriter(replace(writer.sink, task=lambda: task)).write(iter([rows]))
        sink_writer.stream_writer(options, schema, False).commit([message], number)  # noqa: FBT003 - as above
    return trace


def retry(dsn: str) -> Trace:
    """Put the one message of the error queue back by `rowbus errors retry --all`."""
    asyncio.run(_fail(dsn))
    with Trace() as trace:
        command("errors", "retry", "--all", "--database", dsn)
    return trace


async def _fail(dsn: str) -> None:
    endpoint = rowbus.Endpoint("Sales", database=dsn)

    @endpoint.handler
    async def place_order(_message: PlaceOrder, _context: rowbus.Context) -> None:
        raise rowbus.Unrecoverable("for the flow")

    async with endpoint:
        with psycopg.connect(dsn) as connection:
            connection.execute('truncate "Sales", error')
            rowbus.Client(connection).send("Sales", PlaceOrder(1))
        await _until(lambda: _count(dsn, "error") == 1)


FLOWS: dict[str, Callable[[str], Trace]] = {
    "send": send,
    "delayed": delayed,
    "event": event,
    "sink": sink,
    "retry": retry,
}


# ------------------------------------------------------------------------------------------------------------ around


def command(*arguments: str) -> None:
    """Run a command of `rowbus` in this process, without its output."""
    with contextlib.redirect_stdout(io.StringIO()):
        app(list(arguments), standalone_mode=False)


def _count(dsn: str, table: str) -> int:
    with psycopg.connect(dsn) as connection:
        counted: Any = connection.execute(
            psycopg.sql.SQL("select count(*) from {}").format(psycopg.sql.Identifier(table))
        ).fetchone()
        return int(counted[0])


async def _until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(DEADLINE):
        while not holds():  # noqa: ASYNC110 - what is waited for is in the database
            await asyncio.sleep(0.005)


def main() -> int:
    """Count and print; return 1 if a flow has more passages than it may."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("flows", nargs="*", metavar="FLOW", help=f"which: {', '.join(FLOWS)}; all by default")
    parser.add_argument("--passages", action="store_true", help="show the calls into another folder")
    given = parser.parse_args()
    logging.disable()
    with temporary_database() as dsn:
        command("schema", "install", "--log", "--database", dsn)
        command("queue", "create", "Billing", "--database", dsn)
        command("queue", "create", "error", "--database", dsn)
        command("log", "create", "orders", "--database", dsn)
        asyncio.run(_fail(dsn))  # creates the queues of Sales
        traces = {
            name: min((FLOWS[name](dsn) for _ in range(RUNS)), key=lambda trace: trace.passages)
            for name in given.flows or FLOWS
        }
    for name, trace in traces.items():
        print(f"{name:8} {trace.passages:4} passages, at most {MOST[name]}")
        for call, times in trace.calls.most_common() if given.passages else ():
            print(f"    {times:3} {call}")
    return int(any(trace.passages > MOST[name] for name, trace in traces.items()))


if __name__ == "__main__":
    sys.exit(main())
