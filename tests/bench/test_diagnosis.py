"""Verdicts on a server, from settings and figures."""

from __future__ import annotations

from typing import Any

from rowbus.bench.diagnosis import Facts, diagnose, usable_concurrency
from rowbus.bench.figures import COMMIT, ROWBUS, SELECT_ONE, SINGLE_RECEIVE, Figure, Latency, Settings
from rowbus.transport.queues.diagnosis import Finding, Level, ServerFacts
from tests.fixtures.every import every

SERVER = ServerFacts(
    version_number=180006,
    version="18.6",
    database="shop",
    role="shop",
    is_standby=False,
    is_read_only=False,
    encoding="UTF8",
    time_zone="UTC",
    survives_crashes=True,
    waits_for_commits=True,
    autovacuum=True,
    connection_limit=97,
    connections=7,
    sees_all_sessions=True,
)
SETTINGS = Settings(
    fsync=True,
    full_page_writes=True,
    synchronous_commit="on",
    has_synchronous_standbys=False,
    wal_level="replica",
    shared_buffers=2**30,
    commit_delay=0,
    shows_wal=True,
)


def latencies(*, trip: float = 0.0001, commit: float = 0.0006) -> list[Latency]:
    return [Latency(SELECT_ONE, trip, 2 * trip, 100), Latency(COMMIT, commit, 2 * commit, 100)]


def figures(rate: float = 1000.0) -> list[Figure]:
    return [Figure(SINGLE_RECEIVE, ROWBUS, int(rate), 1.0, 0.2, 500_000)]


FACTS = Facts(
    server=SERVER,
    settings=SETTINGS,
    latencies=latencies(),
    figures=figures(),
    concurrency=8,
    used_concurrency=8,
    is_direct=True,
    others_wal=0.0,
    message_bytes=1024,
)


def found(facts: Facts) -> dict[str, Finding]:
    return {finding.subject: finding for finding in diagnose(facts)}


def test_a_server_in_order_is_fine_in_every_respect() -> None:
    assert {finding.level for finding in diagnose(FACTS)} == {Level.OK}
    assert set(found(FACTS)) == {
        "durability",
        "flush",
        "round trip",
        "notifications",
        "shared_buffers",
        "wal_level",
        "max_connections",
    }


@every(
    "change, subject",
    [
        ({"fsync": False}, "fsync"),
        ({"full_page_writes": False}, "full_page_writes"),
        ({"synchronous_commit": "off"}, "synchronous_commit"),
    ],
)
def test_durability_that_is_off_comes_first_and_loudly(change: dict[str, Any], subject: str) -> None:
    slow = FACTS._replace(latencies=latencies(commit=0.02), settings=SETTINGS._replace(**change))

    first, *others = diagnose(slow)

    assert (first.level, first.subject) == (Level.FAIL, subject)
    assert first.text.startswith("IS OFF: a crash")
    assert "measure again" in first.advice
    assert "durability" not in {finding.subject for finding in others}


def test_all_that_is_off_is_named() -> None:
    off = SETTINGS._replace(fsync=False, full_page_writes=False, synchronous_commit="off")

    failed = [
        finding.subject for finding in diagnose(FACTS._replace(settings=off)) if finding.level is Level.FAIL
    ]

    assert failed == ["fsync", "full_page_writes", "synchronous_commit"]


def test_a_flush_that_dominates_says_which_rate_it_limits_and_what_helps() -> None:
    slow = FACTS._replace(latencies=latencies(trip=0.0001, commit=0.0051), figures=figures(190))

    flush = found(slow)["flush"]

    assert flush.level is Level.WARN
    assert "waits 5 ms for the disk" in flush.text
    assert "about 200 messages/s a connection" in flush.text
    for help_ in ("batch_size", "concurrency", "commit_delay"):
        assert help_ in flush.advice


def test_a_flush_that_is_fast_or_dominates_nothing_asks_for_nothing() -> None:
    fast = found(FACTS._replace(latencies=latencies(commit=0.0003)))["flush"]
    beside_slow_handlers = found(FACTS._replace(latencies=latencies(commit=0.0051), figures=figures(20)))[
        "flush"
    ]

    assert (fast.level, fast.advice) == (Level.OK, "")
    assert beside_slow_handlers.advice == ""


def test_commit_delay_that_is_set_is_not_advised() -> None:
    slow = FACTS._replace(latencies=latencies(commit=0.01), settings=SETTINGS._replace(commit_delay=100))

    assert "commit_delay" not in found(slow)["flush"].advice


def test_commits_without_a_flush_are_not_judged_as_one() -> None:
    asynchronous = FACTS._replace(settings=SETTINGS._replace(synchronous_commit="off"))

    assert "flush" not in found(asynchronous)


def test_synchronous_standbys_are_waited_for() -> None:
    beside = FACTS._replace(settings=SETTINGS._replace(has_synchronous_standbys=True))
    local = FACTS._replace(
        settings=SETTINGS._replace(has_synchronous_standbys=True, synchronous_commit="local")
    )

    assert "the disk and its standbys" in found(beside)["flush"].text
    assert "standbys" not in found(local)["flush"].text


def test_a_round_trip_that_dominates_says_which_rate_it_limits() -> None:
    far = FACTS._replace(latencies=latencies(trip=0.02, commit=0.0201), figures=figures(45))

    trip = found(far)["round trip"]

    assert trip.level is Level.WARN
    assert "takes 20 ms" in trip.text
    assert "about 50 messages/s a connection" in trip.text
    assert "near the server" in trip.advice


def test_a_round_trip_that_is_short_is_fine_even_where_nothing_else_takes_time() -> None:
    near = FACTS._replace(latencies=latencies(trip=0.0005), figures=figures(1900))

    assert found(near)["round trip"].level is Level.OK


def test_a_pooler_in_between_is_named() -> None:
    pooler = found(FACTS._replace(is_direct=False))["notifications"]

    assert pooler.level is Level.WARN
    assert pooler.text == (
        "LISTEN heard nothing, so there is a pooler in between: receivers look for messages only now and then, and "
        "statements are planned each time"
    )
    assert pooler.advice == (
        "connect endpoints to the server itself, or use the settings of docs/how-to/managed-servers.md#behind-a-pooler"
    )


def test_shared_buffers_of_the_default_are_small_and_say_how_many_messages_they_hold() -> None:
    small = found(FACTS._replace(settings=SETTINGS._replace(shared_buffers=128 * 2**20)))["shared_buffers"]

    assert small.level is Level.WARN
    assert "128 MiB hold a backlog of about 131,072 messages" in small.text
    assert "quarter" in small.advice


def test_a_minimal_wal_level_leaves_no_standby() -> None:
    minimal = found(FACTS._replace(settings=SETTINGS._replace(wal_level="minimal")))["wal_level"]

    assert minimal.level is Level.WARN
    assert "standby" in minimal.text
    assert (
        found(FACTS._replace(settings=SETTINGS._replace(wal_level="logical")))["wal_level"].level is Level.OK
    )


def test_connections_are_compared_with_what_a_process_takes() -> None:
    full = FACTS._replace(server=SERVER._replace(connections=90), used_concurrency=1)

    assert "takes up to 18: room for 5" in found(FACTS)["max_connections"].text
    assert found(full)["max_connections"].level is Level.WARN
    assert "measured with concurrency 1" in found(full)["max_connections"].text


@every("asked, free, used", [(8, 90, 8), (8, 20, 4), (8, 3, 1), (8, 0, 1), (1, 90, 1)])
def test_half_of_the_free_connections_stay_for_others(asked: int, free: int, used: int) -> None:
    assert usable_concurrency(asked, free) == used


def test_what_others_write_is_said_to_be_in_the_figures() -> None:
    assert "others" not in found(FACTS)
    assert "others" not in found(FACTS._replace(others_wal=None))
    assert "3.0 MiB of WAL" in found(FACTS._replace(others_wal=3.0 * 2**20))["others"].text


def test_what_the_doctor_finds_wrong_is_said_here_too() -> None:
    findings = diagnose(FACTS._replace(server=SERVER._replace(autovacuum=False, survives_crashes=False)))

    assert [finding.subject for finding in findings if finding.level is Level.FAIL] == ["autovacuum"]
    assert [finding.subject for finding in findings].count("durability") == 1


def test_every_finding_that_is_not_fine_says_what_to_do() -> None:
    worst = FACTS._replace(
        server=SERVER._replace(connections=96),
        settings=SETTINGS._replace(fsync=False, wal_level="minimal", shared_buffers=2**20),
        latencies=latencies(trip=0.02, commit=0.05),
        is_direct=False,
        others_wal=1e9,
    )

    assert all(finding.advice for finding in diagnose(worst) if finding.level is not Level.OK)
    levels = [finding.level for finding in diagnose(worst)]
    assert levels == sorted(levels, key=[Level.FAIL, Level.WARN, Level.OK].index)
