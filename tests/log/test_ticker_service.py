"""The ticker on real servers: one leads, what was written is ticked in time, and trouble is survived and told once."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, contextmanager
from dataclasses import replace
from datetime import timedelta
from typing import Any, TypedDict, Unpack

import psycopg
import pytest
from psycopg import sql

import rowbus
from rowbus.database.postgresql.connection import AsyncSession
from rowbus.database.postgresql.database import Database
from rowbus.errors import ConnectionLostError
from rowbus.log.schema.installer import install_now
from rowbus.log.ticker.ticker import TickerService, Ticking
from rowbus.log.ticker.ticks import open_session
from rowbus.running import backoff
from rowbus.running.critical import Alarm
from rowbus.testing import FakeClock
from tests.conformance.transport import eventually, never
from tests.fixtures.database import CrashableServer

SOON = 2.0  # seconds: what "at once" may take on a busy machine; every default that could be mistaken for it is longer
DEAD_SLOW = timedelta(hours=1)

Connection = psycopg.Connection[Any]
StartTicker = Callable[..., Awaitable[rowbus.Ticker]]

SHORT = timedelta(milliseconds=50)
QUICK = rowbus.TickerSettings(standby_delay=SHORT, retry_delay=SHORT, maintenance_period=SHORT)


class Settings(TypedDict, total=False):
    """The settings that tests choose."""

    tick_period: timedelta | None
    standby_delay: timedelta
    retry_delay: timedelta
    maintenance_period: timedelta


@pytest.fixture(autouse=True)
def _quick_breakers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have a failure wait 50 ms instead of 1 s, and 10 s once critical."""
    monkeypatch.setattr(backoff, "WAIT_WHEN_ARMED", 0.05)
    monkeypatch.setattr(backoff, "WAIT_WHEN_TRIGGERED", 0.05)


@pytest.fixture
async def start(log_database: str) -> AsyncIterator[StartTicker]:
    """Give what starts a ticker on the test's database, with short delays unless it is told others."""
    async with AsyncExitStack() as stack:

        async def start(**settings: Unpack[Settings]) -> rowbus.Ticker:
            return await stack.enter_async_context(ticker(log_database, **settings))

        yield start


def ticker(dsn: str, **settings: Unpack[Settings]) -> rowbus.Ticker:
    return rowbus.Ticker(dsn, settings=replace(QUICK, **settings))


@pytest.fixture
def log_script() -> str:
    return ""  # when a tick is due depends on when the log was made


@pytest.fixture
def orders(pgq: Connection) -> str:
    """Give the name of a log with a consumer `audit`."""
    pgq.execute("select pgq.create_queue('orders'), pgq.register_consumer('orders', 'audit')")
    return "orders"


def one(connection: Connection, query: str, *parameters: object) -> Any:  # noqa: ANN401 - whatever was asked for
    row = connection.execute(query.encode(), parameters or None).fetchone()
    assert row is not None
    return row[0]


def append(connection: Connection, log: str = "orders", type: str = "placed") -> int:
    return int(one(connection, "select pgq.insert_event(%s, %s, 'data')", log, type))


def last_tick(connection: Connection, log: str = "orders") -> int:
    query = """
        select max(t.tick_id) from pgq.tick as t inner join pgq.queue as q on q.queue_id = t.tick_queue
        where q.queue_name = %s
    """
    return int(one(connection, query, log))


def consume(connection: Connection, log: str = "orders", consumer: str = "audit") -> list[int]:
    """Finish whatever batches there are and return the ids of their events."""
    found: list[int] = []
    while batch := one(connection, "select pgq.next_batch(%s, %s)", log, consumer):
        found += [row[0] for row in connection.execute("select * from pgq.get_batch_events(%s)", [batch])]
        connection.execute("select pgq.finish_batch(%s)", [batch])
    return found


async def consumed(connection: Connection, events: list[int], seconds: float = SOON) -> None:
    """Wait until the consumer was given these events."""
    found: list[int] = []

    def all_found() -> bool:
        found.extend(consume(connection))
        return len(found) >= len(events)

    await eventually(all_found, seconds)
    assert found == events


async def leading(*tickers: rowbus.Ticker) -> rowbus.Ticker:
    """Wait until one of them leads, and return it."""
    await eventually(lambda: any(ticker.is_leading for ticker in tickers), 10)
    return next(ticker for ticker in tickers if ticker.is_leading)


def terminate_leader(connection: Connection) -> None:
    """End the session that holds the lock of leadership."""
    query = "select count(pg_terminate_backend(pid)) from pgq.ticker_leader"
    assert one(connection, query) == 1


def told(caplog: pytest.LogCaptureFixture, text: str = "") -> list[str]:
    """Return the lines an operator would see that contain a text."""
    return [
        record.getMessage()
        for record in caplog.records
        if record.levelno >= logging.INFO
        and record.name.startswith("rowbus.")
        and text in record.getMessage()
    ]


@pytest.fixture(autouse=True)
def _all_lines(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "rowbus")


# ------------------------------------------------------------------------------------------------------------ leading


async def test_of_two_tickers_exactly_one_leads(
    start: StartTicker, pgq: Connection, caplog: pytest.LogCaptureFixture
) -> None:
    first, second = await start(), await start()

    leader = await leading(first, second)
    await eventually(lambda: len(told(caplog, "Standing by")) == 1)
    await never(lambda: first.is_leading and second.is_leading)

    assert leader.is_leading
    assert len(told(caplog, "Leading")) == 1


async def test_another_ticker_takes_over_when_the_leader_stops(
    start: StartTicker, orders: str, pgq: Connection
) -> None:
    first, second = await start(), await start()
    leader = await leading(first, second)
    other = second if leader is first else first

    await leader.stop()
    await eventually(lambda: other.is_leading, SOON)

    await consumed(pgq, [append(pgq)])


async def test_another_ticker_takes_over_when_the_leaders_connection_breaks(
    start: StartTicker, orders: str, pgq: Connection
) -> None:
    first, second = await start(), await start()
    await leading(first, second)

    for _ in range(3):
        leader = await leading(first, second)
        terminate_leader(pgq)
        await eventually(lambda leader=leader: not leader.is_leading, SOON)
        await leading(first, second)
        await consumed(pgq, [append(pgq)])
        assert not (first.is_leading and second.is_leading)


@pytest.mark.one_version
async def test_a_ticker_that_stands_by_with_the_default_delay_leads_within_two_seconds(
    start: StartTicker, pgq: Connection
) -> None:
    leader = await start()
    await leading(leader)
    standby = await start(standby_delay=rowbus.TickerSettings().standby_delay)

    await leader.stop()

    await eventually(lambda: standby.is_leading, 2)


async def test_one_who_calls_the_sql_function_beside_it_does_no_harm(
    start: StartTicker, orders: str, pgq: Connection, log_database: str
) -> None:
    pgq.execute("select pgq.set_queue_config('orders', 'ticker_max_lag', '0')")
    await leading(await start())
    events = []

    async with await psycopg.AsyncConnection.connect(log_database, autocommit=True) as another:
        for _ in range(50):
            events.append(append(pgq))
            await another.execute("select pgq.ticker()")

    await consumed(pgq, events)


# ------------------------------------------------------------------------------------------------------------- ticking


async def test_an_event_is_ticked_after_the_default_period_and_not_after_pgqs_three_seconds(
    start: StartTicker, orders: str, pgq: Connection
) -> None:
    await leading(await start())

    for _ in range(3):
        await consumed(pgq, [append(pgq)], 1)


async def test_the_very_first_event_of_a_log_is_not_missed(start: StartTicker, pgq: Connection) -> None:
    await leading(await start())

    for log in ("a", "b", "c"):
        pgq.execute("select pgq.create_queue(%s)", [log])
        pgq.execute("select pgq.register_consumer(%s, 'audit')", [log])
        await asyncio.sleep(0.05)
        event = append(pgq, log)
        await eventually(lambda log=log, event=event: consume(pgq, log) == [event], SOON)
        assert event == 1


async def test_an_event_of_a_long_transaction_is_not_missed_though_no_event_comes_after_it(
    start: StartTicker, orders: str, pgq: Connection, log_database: str
) -> None:
    await leading(await start())
    with psycopg.connect(log_database) as long:
        before = last_tick(pgq)
        event = append(long)
        await eventually(lambda: last_tick(pgq) > before)  # the sequence has moved
        await quiet(pgq)
        assert consume(pgq) == []
        long.commit()

        await consumed(pgq, [event], 1)


async def quiet(connection: Connection) -> None:
    """Wait until the ticks of quiet times are more than two seconds apart."""
    query = """
        select tick_time - lag(tick_time) over (order by tick_id) > '1 second'
        from pgq.tick order by tick_id desc limit 1
    """
    await eventually(lambda: one(connection, query) is True, 20)


async def test_a_tick_notifies_with_its_id(
    start: StartTicker, orders: str, pgq: Connection, log_database: str
) -> None:
    await leading(await start())
    async with await psycopg.AsyncConnection.connect(log_database, autocommit=True) as listening:
        channel = one(pgq, "select pgq.notify_channel('orders')")
        await listening.execute(sql.SQL("listen {}").format(sql.Identifier(channel)))
        append(pgq)

        heard = [int(notify.payload) async for notify in listening.notifies(timeout=SOON, stop_after=1)]

    assert one(pgq, "select count(*) from pgq.tick where tick_id = %s", heard[0]) == 1


async def test_each_log_is_ticked_at_its_own_period(start: StartTicker, pgq: Connection) -> None:
    for log, period in (("quick", "10 milliseconds"), ("slow", "1 hour")):
        pgq.execute("select pgq.create_queue(%s)", [log])
        pgq.execute("select pgq.set_queue_option(%s, 'tick_period', %s)", [log, period])
    await leading(await start())
    slow = last_tick(pgq, "slow")
    quick = last_tick(pgq, "quick")

    def ticked_often() -> bool:
        append(pgq, "quick")
        append(pgq, "slow")
        return last_tick(pgq, "quick") > quick + 20

    await eventually(ticked_often, 10)

    assert last_tick(pgq, "slow") == slow
    assert shortest_gap(pgq, "quick") < timedelta(milliseconds=50)  # the least by default


def shortest_gap(connection: Connection, log: str) -> timedelta:
    """Return the shortest time between two ticks of a log, the first two left out."""
    query = """
        select min(gap) from (
            select t.tick_time - lag(t.tick_time) over (order by t.tick_id) as gap
            from pgq.tick as t inner join pgq.queue as q on q.queue_id = t.tick_queue
            where q.queue_name = %s and t.tick_id > 3
        ) as gaps
    """
    gap = one(connection, query, log)
    assert isinstance(gap, timedelta)
    return gap


async def test_a_log_whose_lag_somebody_has_set_is_ticked_after_that(
    start: StartTicker, pgq: Connection
) -> None:
    for log in ("theirs", "ours"):
        pgq.execute("select pgq.create_queue(%s)", [log])
    pgq.execute("select pgq.set_queue_config('theirs', 'ticker_max_lag', '1 hour')")
    await leading(await start())
    ticks = last_tick(pgq, "theirs")
    append(pgq, "theirs")
    append(pgq, "ours")

    before = last_tick(pgq, "ours")
    append(pgq, "ours")
    await eventually(lambda: last_tick(pgq, "ours") > before, SOON)

    assert last_tick(pgq, "theirs") == ticks


async def test_without_a_period_pgqs_own_rules_decide(
    start: StartTicker, orders: str, pgq: Connection
) -> None:
    pgq.execute("select pgq.set_queue_config('orders', 'ticker_max_count', '5')")
    await leading(await start(tick_period=None))
    before = last_tick(pgq)

    append(pgq)
    await never(lambda: last_tick(pgq) > before)
    for _ in range(5):
        append(pgq)

    await eventually(lambda: last_tick(pgq) > before, SOON)


async def test_a_paused_log_is_not_ticked(start: StartTicker, orders: str, pgq: Connection) -> None:
    pgq.execute("select pgq.set_queue_config('orders', 'ticker_paused', 'true')")
    await leading(await start())
    append(pgq)
    ticks = last_tick(pgq)

    await never(lambda: last_tick(pgq) > ticks)


@pytest.mark.parametrize("isolation", ["repeatable read", "serializable"])
@pytest.mark.one_version
async def test_it_ticks_whatever_the_databases_default_isolation_is(
    start: StartTicker, orders: str, pgq: Connection, caplog: pytest.LogCaptureFixture, isolation: str
) -> None:
    name = one(pgq, "select current_database()")
    for setting in (f"default_transaction_isolation = '{isolation}'", "default_transaction_read_only = on"):
        pgq.execute(sql.SQL("alter database {} set ").format(sql.Identifier(name)) + sql.SQL(setting))
    await leading(await start())

    await consumed(pgq, [append(pgq)])
    await eventually(lambda: one(pgq, "select every(queue_switch_step2 is not null) from pgq.queue"))
    assert told(caplog, "fail") == []


async def test_a_log_that_somebody_has_locked_holds_up_no_other(
    start: StartTicker, orders: str, pgq: Connection, log_database: str, caplog: pytest.LogCaptureFixture
) -> None:
    pgq.execute("select pgq.create_queue('locked'), pgq.create_queue('dropped')")
    await leading(await start())
    with psycopg.connect(log_database) as locking, psycopg.connect(log_database) as dropping:
        locking.execute("select * from pgq.queue where queue_name = 'locked' for update")
        append(pgq, "locked")
        await eventually(lambda: len(told(caplog, "The log locked is left alone")) == 1)
        dropping.execute("select pgq.drop_queue('dropped')")
        await eventually(lambda: len(told(caplog, "The log dropped is left alone")) == 1)

        for _ in range(20):
            await consumed(pgq, [append(pgq)], 1)
        dropping.commit()
        locking.rollback()

    await eventually(lambda: len(told(caplog, "The log locked is ticked again")) == 1, 10)
    assert len(told(caplog, "left alone")) == 2


async def test_a_lock_that_is_soon_free_makes_no_line(
    pgq: Connection, log_database: str, caplog: pytest.LogCaptureFixture
) -> None:
    pgq.execute("select pgq.create_queue('locked')")
    pgq.execute(
        "select pgq.set_queue_config('locked', 'ticker_max_count', '1')"
    )  # one event makes a tick due
    append(pgq, "locked")
    clock = FakeClock()
    session = await open_session(Database(log_database), QUICK)
    ticking = Ticking(session, QUICK, clock)
    try:
        with psycopg.connect(log_database) as locking:
            locking.execute("select * from pgq.queue where queue_name = 'locked' for update")
            assert await ticking.look() == []
            assert "lock timeout" in ticking.failures["locked"]
        clock.advance(1)
        assert [tick.log for tick in await ticking.look()] == ["locked"]
    finally:
        await session.close()

    assert ticking.failures == {}
    assert told(caplog, "The log locked") == []


TICKED = "select count(distinct tick_queue) from pgq.tick where tick_time > now() - interval '30 seconds'"


class Cost:
    """Counts the transactions of a ticker, each a statement of its own, and the seconds that it means to rest."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.transactions = self.rests = 0
        self.rested = 0.0
        run, pause = AsyncSession.run, TickerService.pause

        async def counted(session: AsyncSession, statement: Any) -> Any:  # noqa: ANN401 - of any kind
            self.transactions += 1
            return await run(session, statement)

        async def noted(service: TickerService, seconds: float) -> None:
            self.rests += 1
            self.rested += seconds
            await pause(service, seconds)

        monkeypatch.setattr(AsyncSession, "run", counted)
        monkeypatch.setattr(TickerService, "pause", noted)


async def test_an_idle_ticker_costs_a_few_transactions_a_second(
    log_database: str, pgq: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the seconds that it means to rest, which a busy machine can only make longer."""
    for number in range(20):
        pgq.execute("select pgq.create_queue(%s)", [f"log {number}"])
    pgq.execute("update pgq.tick set tick_time = now() - interval '1 minute'")
    async with rowbus.Ticker(log_database) as idle:
        await leading(idle)
        await eventually(lambda: one(pgq, TICKED) == 20)
        cost = Cost(monkeypatch)
        await eventually(lambda: cost.rests > 20)

    # Ten looks a second, however many logs: one look for each log would be two hundred.
    assert cost.transactions < 50 * cost.rested


@contextmanager
def connected(dsn: str) -> Iterator[Connection]:
    with psycopg.connect(dsn, autocommit=True) as connection:
        yield connection


# --------------------------------------------------------------------------------------------------------- maintenance


async def test_an_event_to_be_retried_comes_back_when_its_time_has_come(
    start: StartTicker, orders: str, pgq: Connection
) -> None:
    await leading(await start(retry_delay=rowbus.TickerSettings().retry_delay, maintenance_period=DEAD_SLOW))
    event = append(pgq)
    await eventually(lambda: last_batch_retried(pgq, event), SOON)

    await consumed(pgq, [event], 3)


def last_batch_retried(connection: Connection, event: int) -> bool:
    """Put an event of the next batch off for a second, if there is one; say whether that was done."""
    batch = one(connection, "select pgq.next_batch('orders', 'audit')")
    if batch is None:
        return False
    found = [row[0] for row in connection.execute("select * from pgq.get_batch_events(%s)", [batch])]
    if event in found:
        connection.execute("select pgq.event_retry(%s, %s, 1)", [batch, event])
    connection.execute("select pgq.finish_batch(%s)", [batch])
    return event in found


async def test_many_retries_are_moved_at_once(start: StartTicker, orders: str, pgq: Connection) -> None:
    pgq.execute("select pgq.insert_event('orders', 'placed', n::text) from generate_series(1, 3000) as n")
    pgq.execute("select pgq.force_tick('orders')")
    pgq.execute("select pgq.ticker('orders')")
    batch = one(pgq, "select pgq.next_batch('orders', 'audit')")
    assert one(pgq, "select pgq.batch_retry(%s, 0)", batch) == 3000
    pgq.execute("select pgq.finish_batch(%s)", [batch])

    await leading(await start(maintenance_period=DEAD_SLOW))

    await eventually(lambda: one(pgq, "select count(*) from pgq.retry_queue") == 0, 10)
    found: list[int] = []

    def all_found() -> bool:
        found.extend(consume(pgq))
        return len(found) >= 3000

    await eventually(all_found, 10)
    assert len(set(found)) == 3000


def rotation(connection: Connection) -> tuple[int, bool]:
    query = (
        b"select queue_cur_table, queue_switch_step2 is not null from pgq.queue where queue_name = 'orders'"
    )
    current, settled = connection.execute(query).fetchone() or (0, False)
    return current, settled


async def test_tables_are_rotated_and_the_previous_one_is_analysed(
    start: StartTicker, orders: str, pgq: Connection
) -> None:
    await leading(await start())
    event = append(pgq)
    await consumed(pgq, [event])
    pgq.execute("select pgq.set_queue_config('orders', 'rotation_period', '50 milliseconds')")

    await eventually(lambda: rotation(pgq)[0] == 1, 10)
    pgq.execute("select pgq.set_queue_config('orders', 'rotation_period', '1 hour')")

    await eventually(lambda: rotation(pgq)[1])
    await eventually(lambda: rows_estimated(pgq) >= 0)


def rows_estimated(connection: Connection) -> float:
    query = """
        select c.reltuples from pgq.queue as q inner join pg_class as c
        on c.oid = to_regclass(q.queue_data_pfx || '_' || (q.queue_cur_table + 2) % 3)
    """
    return float(one(connection, query))


async def test_the_reason_why_rotation_is_blocked_is_told_once(
    start: StartTicker, orders: str, pgq: Connection, caplog: pytest.LogCaptureFixture
) -> None:
    await leading(await start())
    append(pgq)
    pgq.execute("select pgq.set_queue_config('orders', 'rotation_period', '20 milliseconds')")

    await eventually(lambda: len(told(caplog, "The tables of log orders cannot be rotated")) == 1, 10)
    await never(lambda: len(told(caplog, "cannot be rotated")) > 1, 1)
    assert "audit" in told(caplog, "cannot be rotated")[0]
    caplog.clear()

    def consume_all() -> bool:
        consume(pgq)
        return bool(told(caplog, "Nothing blocks the rotation of log orders any more"))

    await eventually(consume_all, 10)


@pytest.fixture
def operations(pgq: Connection) -> Callable[..., None]:
    """Give what makes the database ask for these operations instead of its own."""

    def ask_for(*wanted: tuple[str, str | None]) -> None:
        pgq.execute("create table wanted (func_name text, func_arg text)")
        pgq.cursor().executemany("insert into wanted values (%s, %s)", wanted)
        pgq.execute("""
            create or replace function pgq.maint_operations(out func_name text, out func_arg text)
            returns setof record language sql as 'select func_name, func_arg from public.wanted'
        """)
        pgq.execute("create table calls (id serial, what text)")

    return ask_for


def calls(connection: Connection) -> list[str]:
    return [row[0] for row in connection.execute("select what from calls order by id")]


def define(connection: Connection, name: str, argument: str, returns: str, body: str) -> None:
    connection.execute(
        f"create function {name}({argument}) returns {returns} language plpgsql as $$ begin {body} end $$".encode()
    )


def test_operations_are_carried_out_as_pgqd_does(
    log_database: str, pgq: Connection, operations: Callable[..., None]
) -> None:
    operations(
        ("public.count_down", None),
        ("missing.function", "orders"),
        ("public.broken", None),
        ("unqualified", None),
        ("vacuum", "pgq.subscription"),
        ("vacuum analyze", "public.calls"),
        ('public."With Argument"', "orders"),
    )
    define(pgq, "count_down", "", "int", "insert into public.calls (what) values ('down'); "
           "return case when (select count(*) from public.calls) < 3 then 1 else 0 end;")  # fmt: skip
    define(pgq, "broken", "", "int", "perform 1 / 0; return 1;")
    define(pgq, "unqualified", "", "int", "return 0;")
    define(
        pgq, '"With Argument"', "log text", "text", "insert into public.calls (what) values (log); return '';"
    )

    done = rowbus.Ticker(log_database).run_once().maintenance

    assert calls(pgq) == ["down", "down", "down", "orders"]
    assert done.operations == [
        "public.count_down",
        "vacuum pgq.subscription",
        "vacuum analyze public.calls",
        'public."With Argument" orders',
    ]
    assert "There is no function missing.function" in done.failed["missing.function orders"]
    assert "division by zero" in done.failed["public.broken"]
    assert "name it with its schema" in done.failed["unqualified"]
    statistics = "select count(*) from pg_stats where tablename = 'calls'"
    assert one(pgq, statistics) == 2


async def test_an_operation_that_fails_is_told_once_and_again_when_it_works(
    start: StartTicker, pgq: Connection, operations: Callable[..., None], caplog: pytest.LogCaptureFixture
) -> None:
    operations(("public.broken", None), ("public.counted", None))
    define(pgq, "broken", "", "int", "perform 1 / 0; return 0;")
    define(pgq, "counted", "", "int", "insert into public.calls (what) values ('x'); return 0;")
    await leading(await start())

    await eventually(lambda: len(calls(pgq)) >= 5)
    assert len(told(caplog, "Maintenance failed (public.broken)")) == 1
    pgq.execute("create or replace function broken() returns int language sql as 'select 0'")

    await eventually(lambda: len(told(caplog, "Maintenance works again (public.broken)")) == 1)


# ------------------------------------------------------------------------------------------------------------- trouble


@pytest.mark.one_version
async def test_a_database_without_the_event_log_is_waited_for(
    database: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with ticker(database) as waiting:
        await eventually(lambda: len(told(caplog, "this database has no event log".capitalize()[5:])) == 1)
        await never(lambda: waiting.is_leading)
        with Database(database).session() as session:
            install_now(session)
        await eventually(lambda: waiting.is_leading)

    assert len(told(caplog)) < 8


@pytest.mark.one_version
def test_without_the_event_log_once_says_what_to_do(database: str) -> None:
    with pytest.raises(rowbus.ConfigurationError, match="rowbus log install"):
        rowbus.Ticker(database).run_once()


@pytest.mark.parametrize("crash", [True, False], ids=["kill", "stop"])
async def test_it_goes_on_when_the_server_is_back(
    crashable_server: CrashableServer, caplog: pytest.LogCaptureFixture, *, crash: bool
) -> None:
    dsn = crashable_server.dsn
    with Database(dsn).session() as session:
        install_now(session)
    with connected(dsn) as connection:
        connection.execute("select pgq.create_queue('orders'), pgq.register_consumer('orders', 'audit')")
    async with ticker(dsn) as ticking, ticker(dsn) as another:
        await leading(ticking, another)
        await asyncio.to_thread(crashable_server.kill if crash else crashable_server.stop)
        await never(lambda: False, 0.5)
        await asyncio.to_thread(crashable_server.start)
        await leading(ticking, another)
        with connected(dsn) as connection:
            await consumed(connection, [append(connection)])

    assert any("Ticking works again" in line for line in told(caplog))
    assert len(told(caplog)) <= 14, told(caplog)
    assert all("\n" not in line for line in told(caplog))


async def test_a_server_that_is_not_there_is_an_error_at_the_start(crashable_server: CrashableServer) -> None:
    crashable_server.stop()
    with pytest.raises(rowbus.ConnectionLostError):
        await rowbus.Ticker(crashable_server.dsn).start()
    crashable_server.start()


@pytest.mark.one_version
async def test_an_outage_that_lasts_is_a_critical_error_once(crashable_server: CrashableServer) -> None:
    with Database(crashable_server.dsn).session() as session:
        install_now(session)
    critical: list[str] = []
    settings = rowbus.TickerSettings(time_to_trigger_circuit_breaker=timedelta(milliseconds=200))
    ticking = rowbus.Ticker(
        crashable_server.dsn, settings=settings, on_critical_error=lambda text, _error: critical.append(text)
    )
    async with ticking:
        await leading(ticking)
        await asyncio.to_thread(crashable_server.stop)
        await eventually(lambda: bool(critical))
        await never(lambda: len(critical) > 1)
        await asyncio.to_thread(crashable_server.start)
        await leading(ticking)


class Crowded(Database):
    """A database with no connection to spare: one session at a time, unless `spares`."""

    spares = False
    _session: AsyncSession | None = None

    async def connect(self) -> AsyncSession:
        if not self.spares and self._session is not None and not self._session.closed:
            raise ConnectionLostError("too many connections", sqlstate="53300", transient=True)
        self._session = await super().connect()
        return self._session


@pytest.mark.one_version
async def test_maintenance_that_fails_for_long_while_ticks_go_on_is_a_critical_error_once(
    pgq: Connection, log_database: str, caplog: pytest.LogCaptureFixture
) -> None:
    critical: list[str] = []
    database = Crowded(log_database)
    alarm = Alarm(lambda text, _error: critical.append(text), timedelta(milliseconds=100))
    service = TickerService(database, QUICK, alarm)

    await service.start()
    await eventually(lambda: bool(critical))
    await never(lambda: len(critical) > 1, 0.3)
    database.spares = True
    await eventually(lambda: bool(told(caplog, "Maintenance of the logs works again")))
    await service.stop()

    assert critical == ["Maintenance of the logs failed"]
    assert len(told(caplog, "Maintenance of the logs failed; trying again until it works")) == 1


@pytest.mark.one_version
async def test_stopping_leaves_no_session_behind(start: StartTicker, pgq: Connection) -> None:
    running = await start()
    await leading(running)

    await running.stop()

    sessions = (
        "select count(*) from pg_stat_activity where application_name = 'rowbus ticker' and datname = %s"
    )
    name = one(pgq, "select current_database()")
    await eventually(lambda: one(pgq, sessions, name) == 0)
    assert not running.is_leading
    await running.start()
    await leading(running)
