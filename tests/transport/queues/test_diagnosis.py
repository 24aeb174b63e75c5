"""Meanings of facts about a server and its queues."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from rowbus.messages.address import QueueAddress
from rowbus.transport.queues.diagnosis import (
    BLOAT_WARNING_BYTES,
    DEAD_ROWS_WARNING,
    SNAPSHOT_WARNING_TRANSACTIONS,
    Level,
    ServerFacts,
    SnapshotHolder,
    Storage,
    diagnose_queue,
    diagnose_server,
    diagnose_snapshots,
    diagnose_storage,
    duration,
)
from rowbus.transport.queues.shape import COLUMNS, Key, QueueShape, Sequence
from rowbus.transport.queues.traffic import Kind, Traffic, diagnose_traffic
from tests.fixtures.every import every

SALES = QueueAddress("public", "Sales")
HEALTHY = ServerFacts(
    version_number=180006,
    version="18.6",
    database="shop",
    role="sales",
    is_standby=False,
    is_read_only=False,
    encoding="UTF8",
    time_zone="UTC",
    survives_crashes=True,
    waits_for_commits=True,
    autovacuum=True,
    connection_limit=97,
    connections=10,
    sees_all_sessions=True,
)
QUEUE = QueueShape(
    SALES,
    COLUMNS,
    (Key(("id",), is_primary=True), Key(("seq",))),
    Sequence("Sales_seq_seq", 1, 2147483647),
)
SESSION = SnapshotHolder("session", "report", 4711, "bi", "idle in transaction", timedelta(seconds=1), 5)


@every(
    "name, shortest",
    [
        ("idle_in_transaction_session_timeout", 60),
        ("idle_session_timeout", 60),
        ("lock_timeout", 5),
        ("statement_timeout", 60),
        ("transaction_timeout", 60),
    ],
)
@every("less, level", [(1, Level.WARN), (0, Level.OK)])
def test_a_timeout_that_ends_handlers_is_found(name: str, shortest: int, less: int, level: Level) -> None:
    seconds = shortest - less
    facts = HEALTHY._replace(timeouts={name: seconds * 1000})

    (finding,) = [finding for finding in diagnose_server(facts) if finding.subject == name]

    assert finding.level is level
    assert bool(finding.advice) is (level is Level.WARN)


def test_a_healthy_server_is_fine_throughout() -> None:
    healthy = HEALTHY._replace(role_time_zones={"net": "Etc/UTC"})
    assert {finding.level for finding in diagnose_server(healthy)} == {Level.OK}


@every(
    "change, subject, level",
    [
        ({"version_number": 140012}, "server", Level.FAIL),
        ({"version_number": 150000}, "server", Level.OK),
        ({"version_number": 190000}, "server", Level.WARN),
        ({"is_standby": True}, "connection", Level.FAIL),
        ({"is_read_only": True}, "connection", Level.FAIL),
        ({"encoding": "SQL_ASCII"}, "connection", Level.WARN),
        ({"survives_crashes": False}, "durability", Level.WARN),
        ({"waits_for_commits": False}, "durability", Level.WARN),
        ({"time_zone": "Etc/UTC"}, "time zone", Level.OK),
        ({"time_zone": "Europe/Warsaw"}, "time zone", Level.WARN),
        ({"role_time_zones": {"net": "Europe/Warsaw", "web": "UTC"}}, "time zone of net", Level.WARN),
        ({"connections": 72}, "connections", Level.OK),
        ({"connections": 73}, "connections", Level.WARN),
        ({"connections": 93}, "connections", Level.FAIL),
        ({"autovacuum": False}, "autovacuum", Level.FAIL),
    ],
)
def test_what_is_wrong_with_a_server_is_judged_and_comes_with_advice(
    change: dict[str, Any], subject: str, level: Level
) -> None:
    findings = {found.subject: found for found in diagnose_server(HEALTHY._replace(**change))}

    assert findings[subject].level is level
    assert bool(findings[subject].advice) is (level is not Level.OK)


@every(
    "holder, level",
    [
        (SESSION, Level.OK),
        (SESSION._replace(lasted=timedelta(seconds=59)), Level.OK),
        (SESSION._replace(lasted=timedelta(minutes=1)), Level.WARN),
        (SESSION._replace(lasted=timedelta(hours=1)), Level.FAIL),
        (SESSION._replace(kind="replication slot", lasted=None), Level.OK),
        (
            SESSION._replace(
                kind="replication slot", lasted=None, transactions=SNAPSHOT_WARNING_TRANSACTIONS
            ),
            Level.WARN,
        ),
    ],
)
def test_a_snapshot_is_judged_by_its_age(holder: SnapshotHolder, level: Level) -> None:
    assert [found.level for found in diagnose_snapshots([holder], sees_all=True)] == [level]


@every("kind", ["session", "prepared transaction", "standby", "replication slot"])
def test_an_old_snapshot_names_its_holder_and_the_remedy(kind: str) -> None:
    holder = SESSION._replace(kind=kind, lasted=timedelta(hours=3, minutes=5))

    [finding] = diagnose_snapshots([holder], sees_all=True)

    assert "'report' (pid 4711) of role bi" in finding.text
    assert "for 3 h 5 min" in finding.text
    assert finding.advice.startswith("queues get slower until it ends; ")


def test_a_role_that_cannot_see_all_sessions_gets_no_all_clear() -> None:
    assert [found.level for found in diagnose_snapshots([], sees_all=False)] == [Level.WARN]
    assert [found.level for found in diagnose_snapshots([], sees_all=True)] == [Level.OK]


@every(
    "used, level",
    [(0.0, Level.OK), (0.749, Level.OK), (0.751, Level.WARN), (0.949, Level.WARN), (0.951, Level.FAIL)],
)
def test_a_sequence_is_judged_by_what_is_used_of_it(used: float, level: Level) -> None:
    sequence = Sequence("Sales_seq_seq", int(2147483647 * used), 2147483647)

    finding = diagnose_queue(QUEUE._replace(sequence=sequence))

    assert finding.level is level
    assert finding.advice.startswith("restart the sequence") is (level is not Level.OK)


def test_a_queue_of_another_shape_fails() -> None:
    finding = diagnose_queue(QUEUE._replace(keys=()))

    assert finding.level is Level.FAIL
    assert "primary key" in finding.text
    assert "unique index" in finding.text


STORAGE = Storage(SALES, live_rows=10, dead_rows=0, bytes=8192, autovacuum=True, last_vacuum=None)


@every(
    "storage, words",
    [
        (STORAGE, None),
        (STORAGE._replace(autovacuum=False), "switched off"),
        (STORAGE._replace(dead_rows=DEAD_ROWS_WARNING + 1), "dead rows wait for vacuum"),
        (
            STORAGE._replace(
                dead_rows=DEAD_ROWS_WARNING + 1, last_vacuum=datetime(2026, 11, 20, 12, 30, tzinfo=UTC)
            ),
            "last 2026-11-20 12:30 UTC",
        ),
        (STORAGE._replace(dead_rows=DEAD_ROWS_WARNING + 1, live_rows=10**6), None),
        (STORAGE._replace(bytes=2 * BLOAT_WARNING_BYTES), "200 MiB for about 10 messages"),
        (STORAGE._replace(bytes=2 * BLOAT_WARNING_BYTES, live_rows=10**6), None),
    ],
)
def test_what_vacuum_left_behind_is_a_warning(storage: Storage, words: str | None) -> None:
    findings = list(diagnose_storage([storage]))

    assert [finding.level for finding in findings] == ([] if words is None else [Level.WARN])
    assert words is None or words in findings[0].text


@every(
    "seconds, text",
    [
        (-5, "0 s"),
        (0.4, "0 s"),
        (59, "59 s"),
        (60, "1 min"),
        (61, "1 min 1 s"),
        (3600, "1 h"),
        (11100, "3 h 5 min"),
        (90000, "1 d 1 h"),
        (86400 * 400, "400 d"),
    ],
)
def test_a_duration_is_written_in_its_two_largest_units(seconds: float, text: str) -> None:
    assert duration(timedelta(seconds=seconds)) == text


@every(
    "changes, is_said",
    [
        ({}, True),
        ({"waited": timedelta(seconds=4)}, False),
        ({"waited": timedelta(seconds=4), "depth": 1_000}, True),
        ({"waited": None}, True),
        ({"receivers": 1}, False),
        ({"receivers": None}, False),  # they cannot be seen
        ({"in_hand": 1}, False),
        ({"kind": Kind.AUDIT}, False),
    ],
)
def test_that_nobody_receives_is_said_within_seconds_and_only_if_it_is_so(
    changes: dict[str, Any], *, is_said: bool
) -> None:
    alone = Traffic(Kind.QUEUE, depth=1, in_hand=0, waited=timedelta(seconds=6), receivers=0)
    found = [*diagnose_traffic("Sales", alone._replace(**changes))]
    assert ["nobody receives" in one.text for one in found] == ([True] if is_said else [])
