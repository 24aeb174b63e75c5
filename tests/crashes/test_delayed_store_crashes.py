"""Workers are killed while delayed messages pass through a store.

None is lost, none is early, and none is doubled when the store shares the queues' database.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import psycopg
import pytest

import rowbus
from rowbus.testing import temporary_database
from tests.fixtures.pairs import effort
from tests.fixtures.processes import Programs, await_that

pytestmark = [pytest.mark.slow, pytest.mark.one_version, pytest.mark.timeout(300)]

WORKER = Path(__file__).with_name("crash_programs") / "delayed_store_worker.py"
MESSAGES = effort(200, 1_000)
KILLS = effort(5, 30)
WORKERS = 3
SPREAD = effort(3.0, 12.0)  # seconds over which the messages become due
EARLY = "select count(*) from \"Billing\" where at < (headers::json ->> 'Due')::timestamptz"


@pytest.fixture(params=["shared", "elsewhere"])
def store(request: pytest.FixtureRequest, database: str) -> Iterator[str | None]:
    """Give the connection string of the store; None for the queues' database."""
    if request.param == "shared":
        yield None
        return
    with temporary_database(database) as other:
        yield other


async def install_and_send(database: str, store: str | None, chance: random.Random) -> None:
    """Put all messages into Sales.Timeouts, with their time in a header of their own, and stop."""
    settings = rowbus.DelayedDeliverySettings(rowbus.PostgresDelayedMessageStore(store))
    async with rowbus.Endpoint("Sales", database=database, delayed_delivery=settings) as sales:
        now = datetime.now(UTC)
        for number in range(MESSAGES):
            due = now + timedelta(seconds=2 + chance.random() * SPREAD)
            headers = {"Due": due.isoformat(), "Number": str(number)}
            await sales.send("Billing", {}, type="Crash.Later", headers=headers, deliver_at=due)


def test_killed_workers_lose_nothing_send_nothing_early_and_double_nothing_they_share(
    database: str, store: str | None, tmp_path: Path
) -> None:
    seed = random.randrange(1_000_000)
    chance = random.Random(seed)
    programs = Programs(tmp_path, database)
    with psycopg.connect(database, autocommit=True) as connection:
        asyncio.run(rowbus.Endpoint("Billing", database=database).install())
        connection.execute('alter table "Billing" add column at timestamptz default clock_timestamp()')
        try:
            asyncio.run(install_and_send(database, store, chance))
            arguments = [] if store is None else [store]
            workers = [programs.start(WORKER, *arguments) for _ in range(WORKERS)]
            killed_at_work = 0
            for _ in range(KILLS):
                time.sleep(chance.uniform(0.1, 0.6))  # long sleep: a kill at a random moment
                victim = workers.pop(chance.randrange(WORKERS))
                killed_at_work += victim.is_running
                victim.kill()
                workers.append(programs.start(WORKER, *arguments))
            await_that(
                lambda: (
                    count(connection, "select count(distinct headers::json ->> 'Number') from \"Billing\"")
                    == MESSAGES
                ),
                f"all messages (seed {seed})",
            )
            await_that(lambda: nothing_left(connection, store), "an empty store")
        finally:
            programs.end()

        arrived = Counter(
            number for (number,) in connection.execute("select headers::json ->> 'Number' from \"Billing\"")
        )
        assert set(arrived) == {str(number) for number in range(MESSAGES)}, f"seed {seed}"
        assert count(connection, EARLY) == 0, f"seed {seed}"
        assert count(connection, "select count(*) from error") == 0, f"seed {seed}"
        assert killed_at_work == KILLS
        doubled = sum(arrived.values()) - MESSAGES
        if store is None:
            assert doubled == 0, f"seed {seed}"
        else:
            assert doubled <= 2 * KILLS, f"seed {seed}: each kill may double what was in hand, two messages"


def nothing_left(connection: psycopg.Connection, store: str | None) -> bool:
    if count(connection, 'select count(*) from "Sales.Timeouts"'):
        return False
    if store is None:
        return count(connection, 'select count(*) from "Sales.delayed"') == 0
    with psycopg.connect(store) as other:
        return count(other, 'select count(*) from "Sales.delayed"') == 0


def count(connection: psycopg.Connection, query: str) -> int:
    row = connection.execute(query.encode()).fetchone()
    assert row is not None
    return int(row[0])
