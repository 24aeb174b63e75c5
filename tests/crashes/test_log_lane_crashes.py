"""The number of a consumer's lanes is changed under load, between kills: each key keeps its order, and none is lost."""

from __future__ import annotations

import itertools
import subprocess
import sys
import threading
from pathlib import Path
from random import Random
from typing import Any

import psycopg
import pytest

from rowbus.database.postgresql.database import Database
from rowbus.log.schema.installer import install_now
from tests.fixtures.pairs import effort
from tests.fixtures.processes import Programs, await_that

pytestmark = [pytest.mark.one_version, pytest.mark.timeout(600)]

PROGRAM = Path(__file__).with_name("log_crash_programs") / "lane_consumer.py"
KEYS = 8
DONE = """
select coalesce(min(sub_last_tick), 0) = (select max(tick_id) from pgq.tick) and bool_and(sub_batch is null)
from pgq.subscription
"""


class Load(threading.Thread):
    """Appends events of each key, and ticks unless it is told to wait."""

    def __init__(self, dsn: str) -> None:
        super().__init__()
        self._dsn = dsn
        self._ended = threading.Event()
        self.ticks = threading.Lock()
        self.count = 0

    def run(self) -> None:
        with psycopg.connect(self._dsn, autocommit=True) as connection:
            for number in itertools.count():
                with connection.transaction():
                    for key in range(KEYS):
                        connection.execute(
                            "select pgq.insert_event('orders', 'order', %s, %s, null, null, null)",
                            [str(number), str(key)],
                        )
                self.count = number + 1
                with self.ticks:
                    connection.execute("select pgq.ticker('orders')")
                if self._ended.wait(0.01):
                    return

    def end(self) -> None:
        self._ended.set()
        self.join()


def change(dsn: str, lanes: int) -> subprocess.CompletedProcess[str]:
    command = ("log", "lanes", "orders", "one", str(lanes), "--database", dsn)
    return subprocess.run(
        [sys.executable, "-m", "rowbus", *command], check=False, capture_output=True, text=True
    )


def run(folder: Path, dsn: str, changes: int) -> None:
    with Database(dsn).session() as session:
        install_now(session)
    programs, load, chance = Programs(folder, dsn), Load(dsn), Random(7)
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("create table seen (key text, number integer, at bigserial)")
        connection.execute(
            "select pgq.create_queue('orders'), pgq.set_queue_config('orders', 'ticker_max_lag', '0')"
        )
        lanes = 2
        try:
            for turn in range(changes + 1):
                alive = [programs.start(PROGRAM, str(lanes)) for _ in range(2)]
                await_registered(connection, lanes)
                if not turn:
                    load.start()
                seen = count(connection)
                await_that(lambda: count(connection) > seen + 20 * KEYS, "events to be handled")  # noqa: B023
                assert "Nothing was changed" in change(dsn, lanes + 1).stderr
                alive.pop(chance.randrange(2)).kill()
                alive.append(programs.start(PROGRAM, str(lanes)))
                if turn == changes:
                    break
                with load.ticks:
                    await_that(lambda: one(connection, DONE), "all that is ticked to be done")
                    for worker in alive:
                        worker.kill()
                    lanes = chance.choice([number for number in (1, 2, 3, 5, 8) if number != lanes])
                    done = change(dsn, lanes)
                    assert done.returncode == 0, done.stderr
            load.end()
            connection.execute("select pgq.force_tick('orders')")
            connection.execute("select pgq.ticker('orders')")
            await_that(lambda: one(connection, DONE), "the last events to be handled")
        finally:
            load.end()
            programs.end()
        found = connection.execute(
            "select key, array_agg(number order by at) from seen group by 1 order by 1"
        )
        assert found.fetchall() == [(str(key), [*range(load.count)]) for key in range(KEYS)]


def await_registered(connection: psycopg.Connection[Any], lanes: int) -> None:
    query = "select count(*) from pgq.get_consumer_info('orders')"
    await_that(lambda: one(connection, query) == lanes, f"{lanes} lanes to be registered")


def count(connection: psycopg.Connection[Any]) -> int:
    return int(one(connection, "select count(*) from seen"))


def one(connection: psycopg.Connection[Any], query: str) -> Any:  # noqa: ANN401 - a value of the server's
    row = connection.execute(query.encode()).fetchone()
    assert row is not None
    return row[0]


@pytest.mark.slow
def test_each_key_keeps_its_order_through_changes_and_kills(database: str, tmp_path: Path) -> None:
    run(tmp_path, database, effort(2, 20))
