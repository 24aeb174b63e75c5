"""Roles through Rowbus: produce, consume, operate; each with as little of PgQ's roles as it needs."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import make_conninfo

import rowbus
from rowbus.database.postgresql.database import Database
from rowbus.errors import StorageError
from rowbus.log.ticker.ticks import Upkeep, open_session
from tests.fixtures import forked
from tests.log.orders import QUICK, Given, Orders, note, several, texts, until

ROLE = "rowbus_test_role"
OWNER = "rowbus_test_owner"
IN_CHUNKS = replace(QUICK, chunk_size=10)


@pytest.fixture
def granted(orders: Orders, request: pytest.FixtureRequest) -> Iterator[Orders]:
    """Give the log as a role finds it that has one of PgQ's roles, or none; `connection` stays the owner's."""
    member, connection = request.param, orders.connection
    connection.execute("select pgq.set_grants(%s)", ["new" if member else "old"])
    connection.execute(f"create role {ROLE}")
    connection.execute(f"grant insert on seen to {ROLE}; grant usage on seen_at_seq to {ROLE}")
    if member:
        connection.execute(sql.SQL("grant {} to {}").format(sql.Identifier(member), sql.Identifier(ROLE)))
    orders.dsn = make_conninfo(orders.dsn, options=f"-c role={ROLE}")
    yield orders
    connection.execute(f"drop owned by {ROLE} cascade; drop role {ROLE}")


def with_only(member: str) -> pytest.MarkDecorator:
    """Run a test as a role that has only this of PgQ's, and as one that has none, where privileges are not split."""
    return pytest.mark.parametrize("granted", [member, None], ids=[member, "everybody"], indirect=True)


def with_just(member: str) -> pytest.MarkDecorator:
    """Run a test as a role that has only this of PgQ's."""
    return pytest.mark.parametrize("granted", [member], indirect=True)


def run(orders: Orders, *arguments: str) -> str:
    """Run the command line as the role; gives what it prints."""
    done = forked.run_text("--database", orders.dsn, *arguments)
    assert done.returncode == 0, done.stderr
    return done.stdout


# --------------------------------------------------------------------------------------------------------- producing


@with_only("pgq_writer")
def test_a_writer_appends_one_and_many(granted: Orders) -> None:
    with psycopg.connect(granted.dsn) as connection:
        log = rowbus.Log(connection, "orders")
        log.append("a", type="order")
        assert log.append_many([("order", text) for text in texts(range(1500))]) == 1500
    assert granted.one("select count(*) from pgq.event_1") == (1501,)


@with_only("pgq_writer")
def test_a_writer_captures_a_table_of_its_own(granted: Orders) -> None:
    granted.connection.execute(f"create schema authorization {ROLE}")
    with psycopg.connect(granted.dsn) as connection:
        connection.execute("create table rowbus_test_role.sales (id int primary key)")
    run(granted, "log", "capture", "rowbus_test_role.sales", "--log", "orders")
    with psycopg.connect(granted.dsn) as connection:
        connection.execute("insert into rowbus_test_role.sales values (7)")
    assert granted.one("select ev_data::json ->> 'id' from pgq.event_1") == ("7",)


@with_just("pgq_writer")
async def test_a_writer_does_not_consume(granted: Orders) -> None:
    log = granted.log()

    @log.consumer("one", settings=QUICK)
    async def one(_event: rowbus.Event) -> None:
        pass

    with pytest.raises(StorageError, match="permission denied"):
        await log.start()


# --------------------------------------------------------------------------------------------------------- consuming


@with_only("pgq_reader")
@pytest.mark.parametrize("batch", [False, True])
async def test_a_reader_consumes_also_large_batches(granted: Orders, *, batch: bool) -> None:
    log = granted.log()

    @log.consumer("one", batch=batch, settings=IN_CHUNKS)
    async def one(given: Given, context: rowbus.LogContext) -> None:
        await note(context, *several(given))

    async with log:
        granted.deliver(*texts(range(35)))
        await granted.finished()
    assert granted.seen() == texts(range(35))


@with_only("pgq_reader")
async def test_a_reader_retries_and_keeps_what_follows_a_retry_waiting(granted: Orders) -> None:
    log = granted.log()

    @log.consumer("one", key="extra1", settings=replace(IN_CHUNKS, workers=2))
    async def one(event: rowbus.Event, context: rowbus.LogContext) -> None:
        await note(context, event)
        if event.data == "0" and event.retry is None:
            raise ValueError

    async with log:
        granted.deliver(*texts(range(25)), key="a")
        await granted.finished()
        assert granted.seen() == []
        granted.deliver("25", key="a")
        await granted.finished()
        assert granted.redeliver() == 26
        await granted.finished()
    assert granted.seen() == texts(range(26))


@with_just("pgq_reader")
async def test_a_reader_is_a_member_of_a_cooperative_consumer(granted: Orders) -> None:
    granted.register("one")
    log = granted.log()

    @log.consumer(
        "one", subconsumer="member", settings=replace(IN_CHUNKS, dead_after=timedelta(milliseconds=90))
    )
    async def one(event: rowbus.Event, context: rowbus.LogContext) -> None:
        await note(context, event)

    async with log:
        granted.deliver("a", "b")
        await until(lambda: len(granted.seen()) == 2)


@with_only("pgq_reader")
async def test_a_reader_puts_dead_letters_aside_and_lists_them(granted: Orders) -> None:
    log = granted.log()

    @log.consumer("one", settings=replace(QUICK, max_retries=0))
    async def one(_event: rowbus.Event) -> None:
        raise ValueError("no good")

    async with log:
        granted.deliver("a")
        await granted.finished()
    (dead,) = granted.log().dead_letters("one")
    assert (dead.event.data, "no good" in dead.reason) == ("a", True)


@with_only("pgq_reader")
def test_a_reader_seeks_reads_ranges_and_unregisters(granted: Orders) -> None:
    granted.register("one")
    first, last = granted.deliver("a"), granted.deliver("b", "c")
    log = granted.log()

    assert log.seek("one", tick=first) == first
    assert [tick.id for tick in log.ticks()][-2:] == [first, last]
    assert [event.data for event in log.read(first, last)] == ["b", "c"]
    assert log.unregister("one")


@with_just("pgq_reader")
def test_a_reader_does_not_produce_or_operate(granted: Orders) -> None:
    granted.register("one")
    with psycopg.connect(granted.dsn) as connection, pytest.raises(StorageError, match="permission denied"):
        rowbus.Log(connection, "orders").append("a", type="order")
    for operate in (granted.log().replay, granted.log().purge):
        with pytest.raises(StorageError, match="permission denied"):
            operate("one")


# --------------------------------------------------------------------------------------------------------- operating


@with_only("pgq_admin")
async def test_an_admin_ticks(granted: Orders) -> None:
    granted.put("a")
    async with rowbus.Ticker(granted.dsn):
        await until(
            lambda: granted.one("select max(tick_event_seq) from pgq.tick where tick_id > 1") != (None,)
        )


@with_just("pgq_admin")
async def test_an_admin_maintains(granted: Orders) -> None:
    granted.connection.execute(
        "update pgq.queue set queue_rotation_period = '0', queue_switch_time = 'epoch'"
    )
    granted.tick()
    session = await open_session(Database(granted.dsn), None)
    try:
        report = await Upkeep(session).everything()
    finally:
        await session.close()
    assert report.failed == {}
    assert report.analyzed == ["pgq.event_1_0"]
    assert granted.one("select queue_cur_table from pgq.queue") == (1,)
    assert granted.one("select reltuples from pg_class where relname = 'event_1_0'") == (0,)


@with_just("pgq_admin")
async def test_what_an_admin_may_not_vacuum_or_analyse_is_said_and_not_counted(granted: Orders) -> None:
    granted.connection.execute(f"create role {OWNER}; grant create on schema pgq to {OWNER}")
    try:
        granted.connection.execute(f"alter table pgq.event_1_2 owner to {OWNER}")
        granted.connection.execute("alter function pgq.maint_analyze owner to pgq_admin")
        granted.connection.execute("""
            create or replace function pgq.maint_operations(out func_name text, out func_arg text)
            returns setof record language sql as $$ values ('vacuum', 'pgq.event_1_2'), ('vacuum', 'pgq.tick') $$
        """)
        session = await open_session(Database(granted.dsn), None)
        try:
            report = await Upkeep(session).everything()
        finally:
            await session.close()
    finally:
        granted.connection.execute(f"reassign owned by {OWNER} to current_user; drop owned by {OWNER}")
        granted.connection.execute(f"drop role {OWNER}")

    assert (report.operations, report.analyzed) == ([], [])
    assert list(report.failed) == ["vacuum pgq.event_1_2", "vacuum pgq.tick", "analyse orders"]
    assert f"Only its owner, {OWNER}, may vacuum pgq.event_1_2" in report.failed["vacuum pgq.event_1_2"]
    assert f"can only be analysed by their owner, {OWNER}" in report.failed["analyse orders"]


@with_only("pgq_admin")
async def test_an_admin_replays_and_purges_dead_letters(granted: Orders) -> None:
    granted.register("one")
    granted.deliver("a", "b")
    (batch,) = granted.one("select pgq.next_batch('orders', 'one')")
    granted.one("select pgq.events_dead(%s, array[1, 2]::bigint[], array['x', 'y'])", batch)
    log = granted.log()

    assert log.replay("one", [log.dead_letters("one")[0].id]) == 1
    assert log.purge("one") == 1


@with_only("pgq_admin")
def test_an_admin_creates_configures_and_drops_logs(granted: Orders) -> None:
    run(granted, "log", "create", "another")
    run(granted, "log", "config", "another", "tick_period=50ms", "ticker_max_count=7")
    run(granted, "log", "drop", "another", "--yes")
    assert granted.all("select queue_name from pgq.queue") == [("orders",)]


@pytest.mark.parametrize("granted", ["pgq_admin", "pgq_reader", "pgq_writer", None], indirect=True)
def test_everybody_sees_how_logs_and_consumers_stand(granted: Orders) -> None:
    granted.register("one")
    granted.deliver("a", "b")

    (log,) = json.loads(run(granted, "log", "list", "--json"))
    (consumer,) = json.loads(run(granted, "log", "consumers", "--json"))
    assert (log["log"], consumer["consumer"], consumer["pending"]) == ("orders", "one", 2)
