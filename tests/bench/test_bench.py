"""`rowbus bench`: measures on a real server, says what limits it, and leaves nothing behind."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable
from typing import Any

import pytest

from tests.fixtures.command_line import Ask, CommandLine, as_role
from tests.fixtures.pooler import Pooled

SCHEMAS = "select count(*) from pg_namespace where nspname like 'rowbus\\_bench\\_%'"
SESSIONS = "select count(*) from pg_stat_activity where application_name = 'rowbus bench'"
LOGS = "select count(*) from pgq.get_queue_info()"
BESIDE_THE_DRIVER = {
    "send, one a transaction",
    "send, many in one",
    "delayed store, one a transaction",
    "receive, one a transaction",
    "receive, one a transaction, concurrency 2",
    "receive, batches of 100",
    "receive, and one insert in the handler",
    "delayed move, batches of 100",
    "append to a log, one a transaction",
}
ALONE = {"publish to 10 subscribers", "append to a log, many in one", "read a log by a consumer"}
SHORT = ("bench", "--seconds", "1", "--concurrency", "2")


@pytest.fixture
def database(log_database: str) -> str:
    """Have the schema of the event log in the test's database."""
    return log_database


def measured(rowbus: CommandLine, **environment: str) -> dict[str, Any]:
    done = rowbus(*SHORT, "--json", **environment)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def findings(report: dict[str, Any]) -> dict[str, dict[str, str]]:
    return {finding["subject"]: finding for finding in report["findings"]}


def sides(report: dict[str, Any]) -> set[tuple[str, str]]:
    return {(figure["name"], figure["by"]) for figure in report["figures"]}


def test_everything_is_measured_beside_the_driver_and_nothing_is_left(rowbus: CommandLine, ask: Ask) -> None:
    ask('create schema shop; create table shop."Sales" (id int)')
    tables = ask("select count(*) from pg_class")

    report = measured(rowbus)

    both = {(name, by) for name in BESIDE_THE_DRIVER for by in ("Rowbus", "psycopg")}
    assert sides(report) == both | {(name, "Rowbus") for name in ALONE}
    assert report["left_out"] == []
    for figure in report["figures"]:
        assert figure["messages"] > 0
        assert figure["messages_per_second"] > 0
        assert figure["client_cpu_microseconds_per_message"] > 0
        assert figure["wal_bytes_per_message"] > 0 or figure["name"] == "read a log by a consumer"
    assert [latency["name"] for latency in report["latencies"]] == [
        "round trip of `select 1`",
        "commit of one small row",
        "a message at rest, from send to handler",
    ]
    assert all(0 < latency["p50"] <= latency["p99"] for latency in report["latencies"])
    assert (ask(SCHEMAS), ask(LOGS)) == ([(0,)], [(0,)])
    assert ask("select count(*) from pg_class") == tables


@pytest.mark.slow
@pytest.mark.one_version
def test_what_was_found_is_shown_to_people(rowbus: CommandLine, ask: Ask) -> None:
    ask("drop schema pgq cascade")

    done = rowbus(*SHORT)

    assert done.returncode == 0, done.stderr
    assert "which is created now and dropped at the end" in done.stderr
    assert "messages/s" in done.stdout
    assert "left out: event log: the schema of the event log is not installed here" in done.stdout
    assert (
        "fail  fsync" in done.stdout
    )  # the server of the tests forgets, and that is no failure of measuring
    assert ask("select count(*) from pg_namespace where nspname = 'pgq'") == [(0,)]


@pytest.mark.slow
@pytest.mark.one_version
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=lambda number: number.name)
@pytest.mark.parametrize("moment, count", [(SCHEMAS, 1), (SESSIONS, 4)], ids=["begins", "receives"])
def test_nothing_is_left_by_one_that_is_interrupted(
    rowbus: CommandLine,
    ask: Ask,
    await_rows: Callable[[str, int], None],
    moment: str,
    count: int,
    number: signal.Signals,
) -> None:
    running = rowbus.start("bench", "--seconds", "600")
    await_rows(moment, count)

    running.tell(number)

    assert running.wait() != 0
    running.wait_for("was interrupted; nothing of rowbus_bench_.* is left")
    assert (ask(SCHEMAS), ask(LOGS)) == ([(0,)], [(0,)])


@pytest.mark.slow
@pytest.mark.one_version
def test_a_log_is_dropped_with_its_schema_by_one_that_is_interrupted(
    rowbus: CommandLine, ask: Ask, await_rows: Callable[[str, int], None]
) -> None:
    running = rowbus.start(*SHORT)
    await_rows(LOGS, 1)

    running.tell(signal.SIGINT)

    running.wait()
    assert (ask(SCHEMAS), ask(LOGS)) == ([(0,)], [(0,)])


@pytest.mark.slow
@pytest.mark.one_version
def test_a_role_that_may_not_create_schemas_is_told_what_to_run_and_then_measures(
    rowbus: CommandLine, ask: Ask, role: str
) -> None:
    done = rowbus(*SHORT, ROWBUS_DATABASE=as_role(rowbus.database, role))

    assert done.returncode == 1
    said = done.stderr.splitlines()[-1]
    assert said.startswith("rowbus: Nothing was measured: that takes a schema made for it")
    ask(said.partition("As the owner of the database: ")[2])
    (left_out,) = measured(rowbus, ROWBUS_DATABASE=as_role(rowbus.database, role))["left_out"]
    assert left_out["name"] == "event log"  # for which that is not enough
    assert "permission denied" in left_out["why"]
    assert not done.stdout
    assert ask(SCHEMAS) == [(0,)]


@pytest.mark.slow
@pytest.mark.one_version
def test_a_pooler_is_found_and_measured_through(rowbus: CommandLine, pooled: Pooled, ask: Ask) -> None:
    report = measured(rowbus, ROWBUS_DATABASE=pooled.dsn)

    found = findings(report)["notifications"]
    assert found["level"] == "warn"
    assert "a pooler in between" in found["text"]
    assert ("receive, one a transaction, concurrency 2", "Rowbus") in sides(report)
    assert ask(SCHEMAS) == [(0,)]


@pytest.mark.slow
@pytest.mark.one_version
@pytest.mark.durable
def test_a_server_that_keeps_what_it_commits_says_so(rowbus: CommandLine) -> None:
    found = findings(measured(rowbus))

    assert found["durability"]["level"] == "ok"
    assert "messages/s a connection" in found["flush"]["text"]


@pytest.mark.one_version
def test_sql_server_is_refused_in_one_sentence(rowbus: CommandLine) -> None:
    done = rowbus("bench", "--database", "mssql://sa@127.0.0.1:9/shop")

    assert done.returncode == 2
    assert done.stderr.startswith("rowbus: rowbus bench measures PostgreSQL only")
    assert done.stderr.count("\n") == 1
