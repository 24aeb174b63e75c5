"""What lanes cost: the same messages with and without, in one process.

Invariant: both sides receive the same messages, with the same handler and the same number in hand at a time; those of
the side with lanes are in their lanes before it begins.
"""

from __future__ import annotations

import asyncio
from typing import NamedTuple

import psycopg

import rowbus
from benchmarks.measuring import Side, ratio
from benchmarks.receiving import serve
from benchmarks.reporting import Bench, Result, show
from benchmarks.workload import BODY, ERROR, TABLE, headers_text, run
from rowbus.database.statements import control

AT_ONCE = 8
KEYS = 10_000
FILL = """
insert into bench (id, headers, body)
select gen_random_uuid(), (%s::jsonb || jsonb_build_object(%s::text, %s::text || (number %% %s)))::text, %s
from generate_series(1, %s) as number
"""


class Kind(NamedTuple):
    """A kind of lanes: which header chooses the lane, what stands before a number there, and how many there are."""

    title: str
    lanes: rowbus.Lanes
    header: str
    prefix: str
    values: int
    target: float


KINDS = (
    Kind(f"{KEYS:,} keys in {AT_ONCE} lanes", rowbus.by_key(AT_ONCE), "Rowbus.Key", "key-", KEYS, 0.7),
    Kind("32 tenants in 64 lanes", rowbus.fair(by="tenant"), "tenant", "tenant-", 32, 0.9),
    Kind("3 priorities", rowbus.by_priority("p0", "p1", "p2"), "Rowbus.Priority", "p", 3, 0.9),
)


def _side(dsn: str, messages: int, kind: Kind, *, batch_size: int, divided: bool) -> Side:
    """An endpoint with a no-op handler, with lanes or without."""
    lanes = kind.lanes if divided else None

    def endpoint() -> rowbus.Endpoint:
        settings = rowbus.EndpointSettings(concurrency=AT_ONCE, batch_size=batch_size)
        return rowbus.Endpoint("bench", database=dsn, settings=settings, lanes=lanes)

    def prepare() -> None:
        _drop_lanes(dsn)
        run(dsn, TABLE.drop(), *TABLE.create(), *ERROR.create())
        asyncio.run(endpoint().install())
        with psycopg.connect(dsn, autocommit=True) as connection:
            values = (headers_text(), kind.header, kind.prefix, kind.values, BODY, messages)
            connection.execute(FILL, values)
            connection.execute("vacuum analyze")

    name = "with lanes" if divided else "without"
    return Side(name, prepare, lambda: asyncio.run(serve(endpoint(), messages)))


def _drop_lanes(dsn: str) -> None:
    """Drop the lanes of the side before."""
    with psycopg.connect(dsn, autocommit=True) as connection:
        found = connection.execute(
            "select relname from pg_class where relkind = 'r' and relname like 'bench#%'"
        )
        names = [name for (name,) in found]
    run(dsn, *(control(f'drop table "{name}"'.encode(), f"Failed to drop {name}") for name in names))


def lanes(bench: Bench) -> list[Result]:
    """(l) Order by key, fairness and priority, against the same endpoint without."""
    results: list[Result] = []
    for kind in KINDS:
        for count, batch_size in ((4_000, 1), (40_000, 100)):
            messages = bench.messages(count)
            ours = _side(bench.dsn, messages, kind, batch_size=batch_size, divided=True)
            plain = _side(bench.dsn, messages, kind, batch_size=batch_size, divided=False)
            runs = bench.meter.alternate([ours, plain], bench.rounds)
            title = f"(l) {kind.title}, batches of {batch_size}"
            show(title, runs)
            value = ratio(runs[ours.name], runs[plain.name])
            results.append(Result(f"{title}, against none", value, kind.target))
    return results
