"""Costs of lanes, limits by key and unique sends: the same messages with and without, in one process.

Invariant: both sides receive the same messages, with the same handler and the same number in hand at a time; those of
the side with lanes are in their lanes before it begins.
"""

from __future__ import annotations

import asyncio
import itertools
from typing import NamedTuple

import psycopg

import rowbus
from benchmarks.measuring import Side, ratio
from benchmarks.receiving import serve
from benchmarks.reporting import Bench, Result, show
from benchmarks.workload import BODY, ERROR, MESSAGE, TABLE, empty, headers_text, run
from rowbus.database.statements import control

AT_ONCE = 8
KEYS = 10_000
FILL = """
insert into bench (id, headers, body)
select gen_random_uuid(), (%s::jsonb || jsonb_build_object(%s::text, %s::text || (number %% %s)))::text, %s
from generate_series(1, %s) as number
"""

FILL_BODIES = """
insert into bench (id, headers, body)
select gen_random_uuid(), %s, convert_to('{"order_id": "key-' || (number %% %s) || '", "total": 9.5}', 'UTF8')
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


def _limited_side(dsn: str, messages: int, *, batch_size: int, limited: bool) -> Side:
    """An endpoint with a no-op handler, with a limit by key or without."""
    limit = rowbus.Concurrency(2, by="order_id") if limited else None

    def prepare() -> None:
        empty(dsn)
        with psycopg.connect(dsn, autocommit=True) as connection:
            connection.execute(FILL_BODIES, (headers_text(), KEYS, messages))
            connection.execute("vacuum analyze bench")

    def work() -> int:
        settings = rowbus.EndpointSettings(concurrency=AT_ONCE, batch_size=batch_size)
        return asyncio.run(serve(rowbus.Endpoint("bench", database=dsn, settings=settings), messages, limit))

    return Side("with a limit by key" if limited else "without", prepare, work)


def _sending_side(dsn: str, messages: int, *, unique: bool) -> Side:
    """`Client.send`, each in a transaction of its own, of messages that exist once or of plain ones."""
    numbers = itertools.count()

    def prepare() -> None:
        empty(dsn)
        settings = rowbus.EndpointSettings(takes_unique=True)
        asyncio.run(rowbus.Endpoint("bench", database=dsn, settings=settings).install())

    def work() -> int:
        with psycopg.connect(dsn, autocommit=True) as connection:
            client = rowbus.Client(connection)
            for _ in range(messages):
                if unique:
                    client.send("bench", MESSAGE, unique=f"order-{next(numbers)}", while_waiting=True)
                else:
                    client.send("bench", MESSAGE)
        return messages

    return Side("unique" if unique else "plain", prepare, work)


def _compare(bench: Bench, title: str, ours: Side, plain: Side, target: float) -> Result:
    runs = bench.meter.alternate([ours, plain], bench.rounds)
    show(title, runs)
    return Result(f"{title}, against none", ratio(runs[ours.name], runs[plain.name]), target)


def lanes(bench: Bench) -> list[Result]:
    """(l) Order by key, fairness, priority, limits by key and unique sends, against the same without."""
    results: list[Result] = []
    for kind in KINDS:
        for count, batch_size in ((4_000, 1), (40_000, 100)):
            messages = bench.messages(count)
            ours = _side(bench.dsn, messages, kind, batch_size=batch_size, divided=True)
            plain = _side(bench.dsn, messages, kind, batch_size=batch_size, divided=False)
            title = f"(l) {kind.title}, batches of {batch_size}"
            results.append(_compare(bench, title, ours, plain, kind.target))
    return [*results, *_limits(bench), _unique(bench)]


def _limits(bench: Bench) -> list[Result]:
    _drop_lanes(bench.dsn)
    results: list[Result] = []
    for count, batch_size in ((4_000, 1), (40_000, 100)):
        messages = bench.messages(count)
        ours, plain = (
            _limited_side(bench.dsn, messages, batch_size=batch_size, limited=limited)
            for limited in (True, False)
        )
        title = f"(l) limits by key, {KEYS:,} keys, batches of {batch_size}"
        results.append(_compare(bench, title, ours, plain, 0.85))
    return results


def _unique(bench: Bench) -> Result:
    ours, plain = (_sending_side(bench.dsn, bench.messages(3_000), unique=unique) for unique in (True, False))
    return _compare(bench, "(l) unique sends", ours, plain, 0.85)
