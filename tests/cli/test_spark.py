"""`rowbus spark`: the real commands, each of which starts a Spark of its own; so few, and all slow that do."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from rowbus.database.postgresql.database import Database
from rowbus.log.consumers.table import ConsumerTable
from tests.cli.test_telemetry import has
from tests.fixtures.command_line import Ask, CommandLine
from tests.fixtures.forked import ROWBUS

pytestmark = [pytest.mark.one_version, pytest.mark.timeout(600)]
SPARK = ("--cores", "2")
MOST_SECONDS = 400.0
Tick = Callable[[str], None]


@pytest.fixture
def database(log_database: str) -> str:
    """Give a database that has the event log."""
    return log_database


@pytest.fixture
def tick(ask: Ask) -> Tick:
    def tick(log: str) -> None:
        ask("select pgq.force_tick(%s)", [log])
        ask("select pgq.ticker(%s)", [log])

    return tick


def rows(path: Path) -> int:
    return sum(pq.read_metadata(file).num_rows for file in path.glob("**/*.parquet"))


def run(rowbus: CommandLine, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a command, with the patience that starting Spark on a busy machine needs."""
    return subprocess.run(
        [*ROWBUS, *arguments],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        cwd=rowbus.folder,
        env=rowbus.environment(),
        timeout=MOST_SECONDS,
    )


def wait_until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + MOST_SECONDS
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def done(rowbus: CommandLine, *arguments: str) -> str:
    finished = run(rowbus, *arguments)
    assert finished.returncode == 0, finished.stderr
    return finished.stdout


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.turns("commands of Spark", 1)
def test_archive_says_what_it_did_and_where_it_is(rowbus: CommandLine, ask: Ask, tick: Tick) -> None:
    ask("select pgq.create_queue('orders')")
    ask("select pgq.insert_event('orders', 'made', i::text) from generate_series(1, 5) as i")
    tick("orders")
    finished = run(rowbus, "spark", "archive", "orders", "--to", "archive", *SPARK)
    assert finished.returncode == 0, finished.stderr
    path = rowbus.folder / "archive"
    assert finished.stdout.splitlines() == [
        f"Archived 5 events in 1 batch: {path}",
        "Log orders need not retain anything before tick 2 for archive.",
    ]
    assert "Archiving orders: 1 batch, 5 events" in finished.stderr
    assert rows(path) == 5
    found = json.loads(
        done(rowbus, "spark", "release", "archive/_checkpoint", "--consumer", "archive", "--json")
    )
    assert found == {"orders": 2}
    refused = run(rowbus, "spark", "compact", "archive")
    assert refused.returncode == 2
    assert "rewrite this archive with Spark" in " ".join(refused.stderr.split())


def test_commands_that_cannot_be_meant_fail_before_spark_starts(rowbus: CommandLine) -> None:
    for arguments, message in [
        (("replay", "somewhere"), "say where to"),
        (("compact", "."), "is no archive"),
        (("release", ".", "--consumer", "x"), "is no checkpoint"),
        (("run", "."), "is no project"),
        (("archive", "orders", "--to", "archive", "--metrics", "here"), "is no address to listen on"),
    ]:
        finished = run(rowbus, "spark", *arguments)
        assert finished.returncode == 2, finished.stderr
        assert message in " ".join(finished.stderr.split())


def test_a_table_is_copied_anew_beside_a_running_job_without_a_spark_of_its_own(
    rowbus: CommandLine, ask: Ask, database: str
) -> None:
    ask("create table stock (item text primary key)")
    ask("insert into stock values ('a')")
    ask("select pgq.create_queue('changes')")
    ask("select pgq.capture_table('stock', 'changes', 'json', '{backup}')")
    lake, replica = ("lake", "changes", "--to", "lake"), ("replicate", "changes", "--checkpoint", "replica")
    with Database(database).session() as job:
        for consumer in ("lake", "replica"):
            assert job.run(ConsumerTable("changes", consumer).try_lead())
        said = [
            json.loads(done(rowbus, "spark", *it, "--resync", "stock", "--json")) for it in (lake, replica)
        ]
    assert said == [{"asked": ["public.stock"]}, {"copied": {"public.stock": 1}}]
    assert ask("table replica.stock") == [("a",)]


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.turns("commands of Spark", 1)
def test_ctrl_c_while_java_starts_leaves_nothing_running(rowbus: CommandLine, ask: Ask) -> None:
    ask("select pgq.create_queue('orders')")
    command = subprocess.Popen(
        [*ROWBUS, "spark", "archive", "orders", "--to", "archive", *SPARK],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        cwd=rowbus.folder,
        env=rowbus.environment(),
        start_new_session=True,  # as a terminal's, whose Ctrl-C all of them get
    )
    session = ["ps", "-ww", "-o", "args=", "-s", str(command.pid)]
    wait_until(
        lambda: (
            b" org.apache.spark.deploy.SparkSubmit"
            in subprocess.run(session, stdout=subprocess.PIPE, check=False).stdout
        )
    )
    os.killpg(command.pid, signal.SIGINT)
    said, _ = command.communicate(timeout=MOST_SECONDS)  # when all that have its output have ended
    assert command.returncode == -signal.SIGINT
    assert "Traceback" not in said


def test_init_overwrites_nothing(rowbus: CommandLine) -> None:
    assert "Wrote" in done(rowbus, "spark", "init", "shop", "--log", "orders")
    bronze = rowbus.folder / "shop" / "transformations" / "bronze.py"
    bronze.write_text("mine")
    finished = run(rowbus, "spark", "init", "shop", "--log", "orders")
    assert finished.returncode == 2
    assert "there already" in finished.stderr
    assert bronze.read_text() == "mine"


def test_the_janitor_works_where_nothing_was_left(rowbus: CommandLine) -> None:
    assert json.loads(done(rowbus, "spark", "janitor", "--json"))["stages"] == 0


@pytest.mark.slow
@pytest.mark.turns("commands of Spark", 1)
@pytest.mark.spark
@pytest.mark.filterwarnings("ignore")  # of the lake's library, about itself
def test_a_lake_keeps_versions_from_the_run_on_that_asks_for_them(
    rowbus: CommandLine, ask: Ask, tick: Tick
) -> None:
    def follow(*arguments: str) -> Any:  # noqa: ANN401 - what JSON says
        tick("changes")
        return json.loads(
            done(rowbus, "spark", "lake", "changes", "--to", "lake", "--json", *arguments, *SPARK)
        )

    ask("create table stock (item text primary key, pieces int)")
    ask("insert into stock select 'item ' || i, i from generate_series(1, 100) as i")
    ask("select pgq.create_queue('changes')")
    ask("select pgq.capture_table('stock', 'changes', 'json', '{backup,ev_extra3=session_user}')")
    assert follow()["copied"] == {"public.stock": 100}
    ask("update stock set pieces = 0 where item = 'item 1'")
    assert follow("--history")["copied"] == {"public.stock": 100}
    for pieces in (1, 2):
        ask(f"update stock set pieces = {pieces} where item = 'item 2'")
    ask("delete from stock where item = 'item 3'")
    assert follow()["versions"].keys() == {"public.stock", "public.stock_history"}
    compared = done(rowbus, "spark", "compare", "changes", "--to", "lake").splitlines()
    assert compared == ["public.stock: equal, 99 rows.", "public.stock_history: equal, 99 rows."]
    found = versions_in(rowbus.folder / "lake" / "public.stock_history")
    assert len(found) == 102
    ((user,),) = ask("select session_user::text")
    assert [
        (it["pieces"], it["end_operation"], it["ended_by"]) for it in found if it["item"] == "item 2"
    ] == [
        (2, "UPDATE", user),
        (1, "UPDATE", user),
        (2, None, None),
    ]
    assert [it["end_operation"] for it in found if it["item"] == "item 3"] == ["DELETE"]


def versions_in(path: Path) -> list[dict[str, Any]]:
    from deltalake import DeltaTable  # noqa: PLC0415 - slow to import

    found: Any = DeltaTable(path).to_pyarrow_table()
    rows: list[dict[str, Any]] = found.to_pylist()
    return sorted(rows, key=lambda it: it["valid_from"])


@pytest.mark.slow
@pytest.mark.turns("commands of Spark", 1)
@pytest.mark.spark
def test_replicate_follows_until_it_is_told_to_end(rowbus: CommandLine, ask: Ask, tick: Tick) -> None:
    ask("create table stock (item text primary key, pieces int)")
    ask("insert into stock select 'item ' || i, i from generate_series(1, 100) as i")
    ask("select pgq.create_queue('changes')")
    ask("select pgq.capture_table('stock', 'changes')")
    tick("changes")
    command = ("spark", "replicate", "changes", "--checkpoint", "replica", *SPARK)
    running = rowbus.start(*command, "--follow", "--metrics", "127.0.0.1:0")
    port = int(running.wait_for(r"Metrics and health are at http://127.0.0.1:(\d+)/metrics")[0][1])
    wait_until(lambda: ask("select to_regclass('replica.stock') is not null")[0][0])
    ask("delete from stock where pieces % 2 = 0")
    ask("update stock set pieces = -pieces where pieces < 10")
    tick("changes")
    wait_until(lambda: ask("select count(*) from replica.stock where pieces = 100") == [(0,)])
    has(
        port,
        'rowbus_spark_queries{query="replicate replica"} 1',
        'rowbus_spark_lag_events{query="replicate replica"} 0',
    )
    running.tell(signal.SIGTERM)
    assert running.wait() == 0
    assert ask("table stock order by item") == ask("table replica.stock order by item")
    ask("insert into stock values ('last', 0)")
    tick("changes")
    assert "public.stock is replicated to replica.stock." in done(rowbus, *command)
    assert ask("table stock order by item") == ask("table replica.stock order by item")
    ask("alter table stock add column note text")
    ask("update stock set note = 'x'")
    tick("changes")
    done(rowbus, *command)
    assert ask("table stock order by item") == ask("table replica.stock order by item")  # with its new column
    ask("alter table replica.stock add check (pieces < 7000)")
    ask("insert into stock values ('more', 7000)")
    tick("changes")
    finished = run(rowbus, *command)
    assert (finished.returncode, "public.stock: new row" in finished.stderr) == (1, True), finished.stderr


@pytest.mark.slow
@pytest.mark.turns("commands of Spark", 1)
@pytest.mark.spark
def test_replay_writes_once_what_it_counted(rowbus: CommandLine, ask: Ask, tick: Tick) -> None:
    ask("select pgq.create_queue('orders'), pgq.create_queue('again')")
    ask("select pgq.insert_event('orders', 'made', i::text) from generate_series(1, 5) as i")
    tick("orders")
    done(rowbus, "spark", "archive", "orders", "--to", "archive", *SPARK)
    begun = datetime.now(UTC) - timedelta(hours=1)
    replay = ("spark", "replay", "archive", "--into-log", "again", "--where", "ev_data > 2", *SPARK)
    assert "3 events would go to log:again" in done(rowbus, *replay, "--from", "1h", "--dry-run")
    finished = run(rowbus, *replay, "--from", "1h")
    assert (finished.returncode, "another time at each call" in finished.stderr) == (2, True)
    command = (*replay, "--from", begun.isoformat())
    assert "Wrote 3 events to log:again" in done(rowbus, *command)
    assert "was written before" in done(rowbus, *command)
    tick("again")
    finished = run(rowbus, "spark", "replay", "archive", "--into-log", "again", "--where", "no such", *SPARK)
    assert finished.returncode == 2
    assert "Spark cannot read this" in finished.stderr
    shutil.rmtree(rowbus.folder / "archive" / "_checkpoint")
    finished = run(rowbus, "spark", "archive", "orders", "--to", "archive", *SPARK)
    assert finished.returncode == 2
    assert "--start-over" in finished.stderr


@pytest.mark.slow
@pytest.mark.turns("commands of Spark", 1)
@pytest.mark.spark
def test_a_project_runs_and_runs_again(rowbus: CommandLine, ask: Ask, tick: Tick) -> None:
    ask("select pgq.create_queue('orders')")
    ask("""select pgq.insert_event('orders', 'made', '{"n": 1}') from generate_series(1, 5) as i""")
    ask("select pgq.insert_event('orders', 'made', 'not json')")
    tick("orders")
    done(rowbus, "spark", "init", "shop", "--log", "orders")
    said = done(rowbus, "spark", "run", "shop")
    warehouse = rowbus.folder / "shop" / "spark-warehouse"
    assert said.splitlines() == [
        "Log orders need not retain anything before tick 2.",
        f"The tables are in {warehouse}",
    ]
    assert {table: rows(warehouse / table) for table in ("bronze", "silver", "gold_by_day")} == {
        "bronze": 6,
        "silver": 6,
        "gold_by_day": 1,
    }
    assert ask("select dl_reason, ev_data from pgq.dead_letter") == [("not JSON", "not json")]
    ask("""select pgq.insert_event('orders', 'made', '{"n": 2}')""")
    tick("orders")
    done(rowbus, "spark", "run", "shop", "--anew", "silver")
    assert {table: rows(warehouse / table) for table in ("bronze", "silver")} == {"bronze": 7, "silver": 7}
    counts = pq.read_table(warehouse / "gold_by_day").to_pylist()
    assert [(row["events"], row["errors"]) for row in counts] == [(7, 1)]
