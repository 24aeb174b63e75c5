"""Findings of `rowbus doctor` on a SQL Server."""

from __future__ import annotations

from datetime import timedelta

from rowbus.messages.sqlserver_address import SqlServerAddress
from rowbus.transport.queues.diagnosis import Finding, Level, SnapshotHolder, Storage
from rowbus.transport.queues.sqlserver_diagnosis import SqlServerFacts
from tests.fixtures.every import every

FACTS = SqlServerFacts(
    version="Microsoft SQL Server 2022 (RTM) - 16.0.1000.6 (X64)\n\tOct  8 2022",
    catalog="shop",
    login="app",
    compatibility_level=160,
    is_read_only=False,
    reads_versions=True,
    delayed_durability=0,
)
HOLDER = SnapshotHolder("session", "report.exe", 55, "app", "sleeping", timedelta(minutes=5), 0)


def levels(facts: SqlServerFacts) -> dict[str, Finding]:
    return {finding.subject: finding for finding in facts.findings()}


def test_a_server_in_order_is_fine() -> None:
    assert {finding.level for finding in FACTS.findings()} == {Level.OK}
    assert levels(FACTS)["server"].text == "Microsoft SQL Server 2022 (RTM) - 16.0.1000.6 (X64)"


@every(
    "changes, subject, level",
    [
        ({"compatibility_level": 120}, "server", Level.FAIL),
        ({"version": "Babelfish for PostgreSQL with SQL Server Compatibility"}, "server", Level.WARN),
        ({"is_read_only": True}, "connection", Level.FAIL),
        ({"delayed_durability": 2}, "durability", Level.WARN),
    ],
)
def test_what_is_wrong_comes_with_advice(changes: dict[str, object], subject: str, level: Level) -> None:
    finding = levels(FACTS._replace(**changes))[subject]  # type: ignore[arg-type] # each as its field has it

    assert finding.level is level
    assert finding.advice


def test_how_readers_are_kept_apart_is_said() -> None:
    assert "locks" in levels(FACTS._replace(reads_versions=False))["connection"].text


@every(
    "idle, level",
    [(timedelta(seconds=5), Level.OK), (timedelta(minutes=5), Level.WARN), (timedelta(hours=2), Level.FAIL)],
)
def test_a_transaction_left_open_is_named_after_a_while(idle: timedelta, level: Level) -> None:
    (finding,) = FACTS.findings_on_holders([HOLDER._replace(lasted=idle)])

    assert finding.level is level
    assert (level is Level.OK) is ("kill 55" not in finding.advice)


def test_pages_without_messages_are_worth_a_look() -> None:
    address = SqlServerAddress("dbo", "Sales", "shop")
    full = Storage(address, 1_000_000, 0, 2**30, autovacuum=True, last_vacuum=None)

    assert list(FACTS.findings_on_storage([full])) == []
    (finding,) = FACTS.findings_on_storage([full._replace(live_rows=3)])
    assert (finding.level, finding.subject) == (Level.WARN, str(address))
    assert "rebuild" in finding.advice
