"""Any session can take the lock of the one ticker: who has it is named where tickers wait, and where people look."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from typing import Any

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

import rowbus
from rowbus.database.postgresql.database import Database
from rowbus.log.consumers.table import ConsumerTable
from rowbus.log.ticker import ticks
from tests.conformance.transport import eventually
from tests.fixtures import forked
from tests.log.orders import QUICK, Orders

Connection = psycopg.Connection[Any]
MALLORY = "rowbus_test_mallory"
TAKE = "select pg_advisory_lock(hashtextextended('rowbus ticker', 0))"
SETTINGS = rowbus.TickerSettings(standby_delay=timedelta(milliseconds=50))


@pytest.fixture
def mallory(pgq: Connection, log_database: str) -> Iterator[Connection]:
    """Give the session of a role of no rights, which has taken the ticker's lock."""
    pgq.execute(f"drop role if exists {MALLORY}; create role {MALLORY} login")
    dsn = make_conninfo(log_database, user=MALLORY, application_name="just psql")
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(TAKE)
        yield connection
    pgq.execute(f"drop role {MALLORY}")


async def test_a_ticker_that_stands_by_says_who_has_the_lock(
    mallory: Connection, log_database: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "rowbus")
    ticker = rowbus.Ticker(log_database, settings=SETTINGS)
    await ticker.start()
    await eventually(lambda: any("Standing by" in record.getMessage() for record in caplog.records))
    await ticker.stop()

    (line,) = [record.getMessage() for record in caplog.records if "Standing by" in record.getMessage()]
    assert (
        f"just psql as {MALLORY} (process {mallory.info.backend_pid} of the server, from the local socket"
        in line
    )


@pytest.mark.usefixtures("mallory")
def test_doctor_says_who_keeps_the_ticker_from_ticking_and_how_to_end_it(
    pgq: Connection, log_database: str, mallory: Connection
) -> None:
    pgq.execute("select pgq.create_queue('q')")
    pgq.execute("update pgq.tick set tick_time = now() - interval '1 hour'")
    done = forked.run_text("--database", log_database, "doctor", "--json")

    (found,) = [each for each in json.loads(done.stdout) if each["subject"] == "ticker"]
    assert found["level"] == "warn"
    assert f"just psql as {MALLORY}" in found["text"]
    assert f"pg_terminate_backend({mallory.info.backend_pid})" in found["advice"]


@pytest.mark.every_version
def test_whoever_looks_sees_the_role_and_the_program_but_the_address_only_with_the_right_to(
    pgq: Connection, log_database: str, mallory: Connection
) -> None:
    pgq.execute("drop role if exists rowbus_test_looker; create role rowbus_test_looker login")
    looker = Database(make_conninfo(log_database, user="rowbus_test_looker"))
    with looker.session() as session:
        (found,) = session.run(ticks.leaders())
        seen = session.connection.execute(
            "select role_name, application_name, client_addr from pgq.ticker_leader"
        )
        assert seen.fetchall() == [(MALLORY, "just psql", None)]
    pgq.execute("drop role rowbus_test_looker")

    assert (found.pid, found.role, found.application) == (mallory.info.backend_pid, MALLORY, "just psql")
    assert (found.address, found.since) == (None, None)
    assert str(found) == f"just psql as {MALLORY} (process {found.pid} of the server)"
    assert pgq.execute("select pid, connected_at is not null from pgq.ticker_leader").fetchall() == [
        (found.pid, True)
    ]


async def test_a_consumer_that_stands_by_says_who_has_the_lock(
    orders: Orders, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "rowbus")
    log = orders.log()

    @log.consumer("one", settings=replace(QUICK, stand_by=True))
    async def one(_event: rowbus.Event) -> None:
        pass

    with Database(orders.dsn, application_name="the other one").session() as other:
        assert other.run(ConsumerTable("orders", "one").try_lead())
        await log.start()
        await eventually(lambda: any("standing by" in record.getMessage() for record in caplog.records))
        await log.stop()

    (line,) = [record.getMessage() for record in caplog.records if "standing by" in record.getMessage()]
    assert "standing by: the other one as postgres (process " in line
