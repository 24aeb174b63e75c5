"""`rowbus bench`: measures on a real server, says what limits it, and leaves nothing behind."""

from __future__ import annotations

import json
import signal
from typing import Any

import pytest

from tests.fixtures.command_line import Ask, CommandLine, as_role

pytestmark = pytest.mark.one_version

SCHEMAS = "select count(*) from pg_namespace where nspname like 'rowbus\\_bench\\_%'"
MEASURED = {
    "send, one a transaction",
    "send, many in one",
    "delayed store, one a transaction",
    "receive, one a transaction",
    "receive, one a transaction, concurrency 2",
    "receive, batches of 100",
    "receive, and one insert in the handler",
    "delayed move, batches of 100",
}
LOGGED = {"append to a log, one a transaction"}
ROWBUS_ALONE = {"publish to 10 subscribers"}
LOGGED_ALONE = {"append to a log, many in one", "read a log by a consumer"}
SHORT = ("bench", "--seconds", "1", "--concurrency", "2")


def measured(rowbus: CommandLine, **environment: str) -> dict[str, Any]:
    done = rowbus(*SHORT, "--json", **environment)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def findings(report: dict[str, Any]) -> dict[str, dict[str, str]]:
    return {finding["subject"]: finding for finding in report["findings"]}


def sides(report: dict[str, Any]) -> set[tuple[str, str]]:
    return {(figure["name"], figure["by"]) for figure in report["figures"]}


def test_everything_is_measured_beside_the_driver_and_nothing_is_left(
    rowbus: CommandLine, log_database: str, ask: Ask
) -> None:
    report = measured(rowbus, ROWBUS_DATABASE=log_database)

    both = {(name, by) for name in MEASURED | LOGGED for by in ("Rowbus", "psycopg")}
    assert sides(report) == both | {(name, "Rowbus") for name in ROWBUS_ALONE | LOGGED_ALONE}
    assert report["left_out"] == []
    for figure in report["figures"]:
        assert figure["messages"] > 0
        assert figure["messages_per_second"] > 0
        assert figure["client_cpu_microseconds_per_message"] > 0
        assert figure["wal_bytes_per_message"] > 0
    assert [latency["name"] for latency in report["latencies"]] == [
        "round trip of `select 1`",
        "commit of one small row",
        "a message at rest, from send to handler",
    ]
    assert all(0 < latency["p50"] <= latency["p99"] for latency in report["latencies"])
    assert ask(SCHEMAS) == [(0,)]
