"""The operator's page over much that waits: how fast it answers, and what it costs an endpoint beside it.

Invariant: the page is `rowbus web` in a process of its own, asked over HTTP; while it is not measured, it is stopped.
"""

from __future__ import annotations

import os
import re
import signal
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace

import httpx
import psycopg
from psycopg import sql
from psycopg.conninfo import make_conninfo

import rowbus
from benchmarks import receiving
from benchmarks.measuring import Side, ratio
from benchmarks.reporting import Bench, Result, console, show
from benchmarks.workload import BODY, headers_text, run
from rowbus.database.postgresql.connection import Session
from rowbus.log.schema.installer import install_now
from rowbus.messages.headers import Header, decode_headers, encode_headers
from rowbus.transport.queues.postgresql import QueueTable

QUEUES, LOGS, KINDS = 200, 50, 20
VISITS = 20
PERIOD = 5.0  # seconds between two updates of an open overview
ANSWERS = 300  # ms that a page may take
COST = 0.99  # of the throughput without the page
ADDRESS = re.compile(r"at (http://\S+)(/enter\?ticket=\S+)")


@dataclass(frozen=True, slots=True)
class Visitor:
    """A process that serves the page, and who looks at it."""

    process: subprocess.Popen[str]
    client: httpx.Client

    def times(self, path: str) -> list[float]:
        """Ask for a page again and again; return how long each answer took, in ms."""
        return [self._took(path) for _ in range(VISITS)]

    def _took(self, path: str) -> float:
        began = time.perf_counter()
        self.client.get(path).raise_for_status()
        return (time.perf_counter() - began) * 1000

    def await_text(self, path: str, text: str) -> float:
        """Ask until a page no longer has a text; return how long that took, in seconds."""
        began = time.perf_counter()
        while text in self.client.get(path).raise_for_status().text:
            time.sleep(0.1)
        return time.perf_counter() - began


def web(bench: Bench) -> list[Result]:
    """(v) The operator's page."""
    dsn = make_conninfo(bench.dsn, dbname="web_bench")
    with psycopg.connect(bench.dsn, autocommit=True) as connection:
        connection.execute("create database web_bench")
    _populate(dsn, bench.messages(1_000_000), bench.messages(100_000))
    with _serving(dsn) as visitor:
        read = visitor.await_text("/failed", "The queue is being read")
        console.print(f"(v) the index of failed messages was complete after {read:.1f} s")
        results = [
            _answers(visitor, title, path)
            for title, path in (
                ("overview", "/"),
                ("failed messages", "/failed"),
                ("failed messages with an exception", "/failed?exception=Shop.Error7"),
                ("failed messages that hold a text", "/failed?text=order-77"),
            )
        ]
        results.append(_cost(replace(bench, dsn=dsn), visitor))
    with psycopg.connect(bench.dsn, autocommit=True) as connection:
        connection.execute("drop database web_bench with (force)")
    return results


def _answers(visitor: Visitor, title: str, path: str) -> Result:
    times = visitor.times(path)
    console.print(
        f"(v) {title}: median {statistics.median(times):.0f} ms, slowest of {VISITS} {max(times):.0f} ms"
    )
    return Result(
        f"(v) {title}, nine of ten answers",
        statistics.quantiles(times, n=10)[-1],
        ANSWERS,
        " ms",
        at_most=True,
    )


def _cost(bench: Bench, visitor: Visitor) -> Result:
    plain = receiving.rowbus_side(bench.dsn, bench.messages(40_000), concurrency=1, batch_size=1)
    watched = Side("beside an open overview", plain.prepare, lambda: _watched(visitor, plain))
    visitor.process.send_signal(signal.SIGSTOP)
    runs = bench.meter.alternate([watched, plain], bench.rounds)
    show("(v) an endpoint, and the same beside an open overview", runs)
    visitor.process.send_signal(signal.SIGCONT)
    return Result(
        "(v) an endpoint beside an open overview, against none",
        ratio(runs[watched.name], runs[plain.name]),
        COST,
    )


def _watched(visitor: Visitor, side: Side) -> int:
    """Do a side's work while a visitor has the overview open."""
    ended = threading.Event()

    def look() -> None:
        while not ended.wait(PERIOD):
            visitor.client.get("/").raise_for_status()

    visitor.process.send_signal(signal.SIGCONT)
    try:
        with ThreadPoolExecutor() as thread:
            looking = thread.submit(look)
            try:
                return side.work()
            finally:
                ended.set()
                looking.result()
    finally:
        visitor.process.send_signal(signal.SIGSTOP)


@contextmanager
def _serving(dsn: str) -> Generator[Visitor]:
    command = [sys.executable, "-m", "rowbus", "web", "--port", "0"]
    environment = os.environ | {"ROWBUS_DATABASE": dsn, "PYTHONUNBUFFERED": "1"}
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment
    ) as process:
        try:
            assert process.stdout is not None
            found = next(filter(None, map(ADDRESS.search, process.stdout)))
            with httpx.Client(base_url=found[1], timeout=60, follow_redirects=True) as client:
                client.get(found[2]).raise_for_status()
                yield Visitor(process, client)
        finally:
            process.kill()


# ---------------------------------------------------------------------------------------------------- what it looks at


def _populate(dsn: str, messages: int, failures: int) -> None:
    """Make queues, an error queue and logs, as much as is asked for."""
    queues = [QueueTable(rowbus.QueueAddress("public", f"Queue{number}")) for number in range(QUEUES)]
    errors = QueueTable(rowbus.QueueAddress("public", "error"))
    run(dsn, *(statement for queue in (*queues, errors) for statement in queue.create()))
    with psycopg.connect(dsn, autocommit=True) as connection:
        for queue in queues:
            _fill(connection, queue.address.table, headers_text(), messages // QUEUES)
        for kind in range(KINDS):
            _fill(connection, "error", _failed(kind), failures // KINDS)
        connection.execute("vacuum analyze")
        install_now(Session(connection))
        for number in range(LOGS):
            connection.execute("select pgq.create_queue(%s)", (f"log{number}",))
            connection.execute("select pgq.register_consumer(%s, 'consumer')", (f"log{number}",))


def _fill(connection: psycopg.Connection, table: str, headers: str, rows: int) -> None:
    """Add messages; the body of each has an order of its own."""
    query = sql.SQL(
        "insert into {} (id, headers, body) select gen_random_uuid(), %s, %s || convert_to(' order-' || n, 'UTF8') "
        "from generate_series(1, %s) as n"
    )
    connection.execute(query.format(sql.Identifier(table)), (headers, BODY, rows))


def _failed(kind: int) -> str:
    """Return the headers of a message that an endpoint gave up on."""
    failure = {
        Header.EXCEPTION_TYPE: f"Shop.Error{kind}",
        Header.EXCEPTION_MESSAGE: "there are no tents",
        Header.EXCEPTION_STACK_TRACE: "   at shop.place_order() in /srv/shop.py:line 8\n" * 30,
        Header.TIME_OF_FAILURE: "2026-05-01 12:00:00:000000 Z",
        Header.FAILED_QUEUE: '"public"."Queue1"',
    }
    return encode_headers({**decode_headers(headers_text()), **failure})
