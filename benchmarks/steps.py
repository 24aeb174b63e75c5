"""Costs of an endpoint's own steps: the table of processed messages, audit copies.

Invariant: both sides receive the same messages, whose ids are all different, through endpoints with the same settings
but for the step.
"""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import psycopg

import rowbus
from benchmarks.measuring import Side, ratio
from benchmarks.receiving import serve
from benchmarks.reporting import Bench, Result, show
from benchmarks.workload import BODY, ERROR, TABLE, headers_text, run
from rowbus.transport.deduplication.postgresql import InboxTable
from rowbus.transport.queues.postgresql import QueueTable

AUDIT = QueueTable(rowbus.QueueAddress("public", "audit"))
INBOX = InboxTable(rowbus.QueueAddress("public", "bench.Inbox"))
FILL = """
insert into bench (id, headers, body)
select gen_random_uuid(), jsonb_set(%s::jsonb, '{NServiceBus.MessageId}', to_jsonb(gen_random_uuid()))::text, %s
from generate_series(1, %s)
"""
STEPS: dict[str, dict[str, Any]] = {
    "de-duplication": {"deduplicate_for": timedelta(days=7)},
    "audit copies": {"audit_queue": "audit"},
}
"""The settings of an endpoint that has the step."""

TARGETS = {"de-duplication": 0.9, "audit copies": 0.8}


def side(dsn: str, messages: int, name: str, batch_size: int, step: str | None) -> Side:
    """An endpoint with a no-op handler, with a step or without."""
    settings = STEPS[step] if step else {}

    def work() -> int:
        own = rowbus.EndpointSettings(concurrency=1, batch_size=batch_size, **settings)
        return asyncio.run(serve(rowbus.Endpoint("bench", database=dsn, settings=own), messages))

    return Side(name, lambda: _fill(dsn, messages), work)


def _fill(dsn: str, messages: int) -> None:
    tables = (TABLE, AUDIT)
    run(dsn, *(table.drop() for table in tables), *(made for table in tables for made in table.create()))
    run(dsn, *ERROR.create(), *INBOX.create())
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute('truncate "bench.Inbox"')
        connection.execute(FILL, (headers_text(), BODY, messages))
        connection.execute("vacuum analyze bench")


def steps(bench: Bench) -> list[Result]:
    """(z) An endpoint that de-duplicates, and one that audits, against one that does neither."""
    results: list[Result] = []
    for step, target in TARGETS.items():
        for count, batch_size in ((4_000, 1), (40_000, 100)):
            messages = bench.messages(count)
            plain = side(bench.dsn, messages, "without", batch_size, None)
            ours = side(bench.dsn, messages, f"with {step}", batch_size, step)
            runs = bench.meter.alternate([ours, plain], bench.rounds)
            title = f"(z) {step}, batches of {batch_size}"
            show(title, runs)
            results.append(Result(f"{title}, against none", ratio(runs[ours.name], runs[plain.name]), target))
    return results
