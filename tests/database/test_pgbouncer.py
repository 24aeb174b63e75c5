"""Behind a real PgBouncer in transaction mode: an endpoint with the settings of docs/how-to/behind-a-pooler.md.

The pool is smaller than the number of sessions, so sessions do change their server connection between transactions.
"""

from __future__ import annotations

import asyncio
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import NamedTuple

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict, make_conninfo

import rowbus
from rowbus.database.embedded.account import server_account

PGBOUNCER = shutil.which("pgbouncer", path="/usr/sbin:/usr/local/sbin:/usr/bin:/usr/local/bin")
PATIENCE = 30.0
POOL_SIZE = 7  # a transaction for each of 5 slots, and 2 connections for everything else
SETTINGS = rowbus.EndpointSettings(
    notifications=False, prepared_statements=False, peek_delay=timedelta(milliseconds=100), concurrency=4
)
INI = """
[databases]
{name} = {target} user={user}

[pgbouncer]
unix_socket_dir = {folder}
listen_port = 6432
auth_type = any
pool_mode = transaction
default_pool_size = {pool_size}
logfile = {folder}/log
"""

pytestmark = pytest.mark.skipif(PGBOUNCER is None, reason="the program pgbouncer is not installed")


class Pooled(NamedTuple):
    """The same database, by two ways."""

    dsn: str
    direct: str


@rowbus.command("Shop.PlaceOrder")
@dataclass
class PlaceOrder:
    order_id: int


@rowbus.message("Shop.OrderAccepted")
@dataclass
class OrderAccepted:
    order_id: int


@pytest.fixture
def pooled(database: str) -> Iterator[Pooled]:
    """Give the test's database through a PgBouncer of its own."""
    account = server_account()
    folder = Path(tempfile.mkdtemp(prefix="rowbus-pgbouncer-"))
    facts = conninfo_to_dict(database)
    (folder / "ini").write_text(_configuration(folder, facts), encoding="utf-8")
    account.own(folder)
    account.own(folder / "ini")
    assert PGBOUNCER is not None
    process = subprocess.Popen([PGBOUNCER, "-q", folder / "ini"], stderr=subprocess.DEVNULL, **account.switch)
    try:
        dsn = make_conninfo("", host=str(folder), port=6432, dbname=facts["dbname"], user="anybody")
        _await_answer(dsn, folder / "log")
        yield Pooled(dsn, database)
    finally:
        process.terminate()
        process.wait(PATIENCE)
        shutil.rmtree(folder)


def _configuration(folder: Path, facts: dict[str, str | int | None]) -> str:
    known = [name for name in ("host", "port", "dbname", "password") if facts.get(name)]
    target = " ".join(f"{name}={facts[name]}" for name in known)
    user = facts.get("user") or "postgres"
    return INI.format(name=facts["dbname"], target=target, user=user, folder=folder, pool_size=POOL_SIZE)


def _await_answer(dsn: str, log: Path) -> None:
    deadline = time.monotonic() + PATIENCE
    while True:
        try:
            psycopg.connect(dsn).close()
        except psycopg.OperationalError:
            assert time.monotonic() < deadline, log.read_text() if log.exists() else "pgbouncer did not start"
            time.sleep(0.01)
        else:
            return


def test_clients_send_through_a_pooler_in_transaction_mode(pooled: Pooled) -> None:
    asyncio.run(rowbus.Endpoint("Sales", database=pooled.dsn, settings=SETTINGS).install())

    for number in range(20):  # a prepared statement would have been made at the sixth
        with psycopg.connect(pooled.dsn, prepare_threshold=None) as connection:
            client = rowbus.Client(connection, notify=False)
            client.send("Sales", PlaceOrder(number))
            client.send_many("Sales", map(PlaceOrder, range(2)))

    with psycopg.connect(pooled.direct) as connection:
        assert connection.execute('select count(*) from "Sales"').fetchone() == (60,)


async def test_an_endpoint_behind_a_pooler_handles_every_message_once(pooled: Pooled) -> None:
    once_more = rowbus.Recoverability(immediate=1, delayed=1, increase=timedelta(milliseconds=100))
    sales = rowbus.Endpoint("Sales", database=pooled.dsn, settings=SETTINGS, recoverability=once_more)
    web = rowbus.Endpoint("Web", database=pooled.dsn, settings=replace(SETTINGS, concurrency=1))

    @sales.handler
    async def place_order(order: PlaceOrder, context: rowbus.Context) -> None:
        await context.connection.execute("insert into orders values (%s)", (order.order_id,))
        if order.order_id < 0:
            raise ValueError("no such order")
        await context.reply(OrderAccepted(order.order_id))

    @web.handler
    def order_accepted(message: OrderAccepted, context: rowbus.SyncContext) -> None:
        context.connection.execute("insert into accepted values (%s)", (message.order_id,))

    async with await psycopg.AsyncConnection.connect(pooled.direct, autocommit=True) as watcher:
        await watcher.execute("create table orders (id int); create table accepted (id int)")
        async with sales, web:
            await _send_orders(pooled.dsn)
            await _await_count(watcher, "select count(*) from accepted", 300)
            await _await_count(watcher, "select count(*) from error", 2)

        assert await _count(watcher, "select count(distinct id) from accepted") == 300
        assert await _count(watcher, "select count(*) from orders") == 300, "a failed attempt was not undone"
        assert (
            await _count(watcher, 'select (select count(*) from "Sales") + (select count(*) from "Web")') == 0
        )


async def _send_orders(dsn: str) -> None:
    async with await psycopg.AsyncConnection.connect(dsn, prepare_threshold=None) as connection:
        client = rowbus.AsyncClient(connection, reply_to="Web", notify=False)
        for number in range(10):
            await client.send("Sales", PlaceOrder(number))
            await connection.commit()
        await client.send_many("Sales", map(PlaceOrder, [*range(10, 300), -1, -2]))


async def _await_count(connection: psycopg.AsyncConnection, query: str, count: int) -> None:
    deadline = time.monotonic() + PATIENCE
    while (seen := await _count(connection, query)) < count:
        assert time.monotonic() < deadline, f"{query}: {seen} instead of {count}"
        await asyncio.sleep(0.01)


async def _count(connection: psycopg.AsyncConnection, query: str) -> int:
    row = await (await connection.execute(query.encode())).fetchone()
    assert row is not None
    return int(row[0])
