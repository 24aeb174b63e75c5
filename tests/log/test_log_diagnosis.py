"""Meanings of the state of logs and consumers."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from rowbus.log.diagnosis import ConsumerState, LogState, consumers_with_lanes, diagnose_logs
from rowbus.transport.queues.diagnosis import Finding, Level
from tests.fixtures.every import every

NOW = datetime(2026, 5, 1, 12, 0, tzinfo=UTC)
MINUTE = timedelta(minutes=1)

HEALTHY = LogState(
    log="orders",
    last_tick=7,
    last_tick_time=NOW - MINUTE,
    tick_age=MINUTE,
    new_events=0,
    expected_age=MINUTE,
    ticker_is_late=False,
    consumers=1,
    greatest_lag=MINUTE,
    retries=0,
    dead_letters=0,
    bytes=8192,
    ticker_is_paused=False,
    has_external_ticker=False,
    rotation_period=timedelta(hours=2),
    rotated_at=NOW - MINUTE,
    rotation_blocked_since=None,
    rotation_reason=None,
    rotation_detail=None,
    at=NOW,
)
AT_WORK = ConsumerState(
    log="orders",
    consumer="revenue",
    last_tick=7,
    lag=MINUTE,
    pending=100,
    last_seen=MINUTE,
    batch=None,
    batch_tick=None,
    batch_age=None,
    retries=0,
    dead_letters=0,
)


def judged(log: LogState = HEALTHY, consumer: ConsumerState = AT_WORK) -> Finding:
    """Give the one finding there is."""
    (finding,) = diagnose_logs([log], [consumer, consumer._replace(log="another", dead_letters=9)])
    return finding


def test_a_log_at_work_is_fine() -> None:
    assert judged() == Finding(Level.OK, 'log "orders"', "a log")


@every(
    "log, words",
    [
        (HEALTHY._replace(ticker_is_late=True, tick_age=5 * MINUTE), ["5 min", "rowbus ticker"]),
        (HEALTHY._replace(ticker_is_late=True, ticker_is_paused=True), ["paused", "ticker_paused=false"]),
        (
            HEALTHY._replace(
                rotation_blocked_since=NOW - 30 * MINUTE,
                rotation_reason="consumer",
                rotation_detail="revenue",
            ),
            ["30 min", "consumer: revenue", "rowbus log consumers"],
        ),
    ],
)
def test_what_is_wrong_with_a_log_is_a_warning_that_says_what_to_do(log: LogState, words: list[str]) -> None:
    finding = judged(log)

    assert finding.level is Level.WARN
    assert all(word in finding.text + finding.advice for word in words)


def test_a_rotation_that_was_blocked_just_now_is_nothing_to_speak_of() -> None:
    log = HEALTHY._replace(rotation_blocked_since=NOW - MINUTE, rotation_reason="consumer")
    assert judged(log).level is Level.OK


@every(
    "consumer, words",
    [
        (AT_WORK._replace(lag=20 * MINUTE, last_seen=20 * MINUTE), ["100 events", "20 min", "unregister"]),
        (AT_WORK._replace(batch=5, batch_age=90 * MINUTE), ["batch 5", "1 h 30 min"]),
        (
            AT_WORK._replace(dead_letters=3),
            ["given up on 3 events", "`rowbus log dead-letters list orders revenue`"],
        ),
        (AT_WORK._replace(dead_letters=1), ["given up on 1 event;"]),
    ],
)
def test_what_is_wrong_with_a_consumer_is_a_warning_that_says_what_to_do(
    consumer: ConsumerState, words: list[str]
) -> None:
    finding = judged(consumer=consumer)

    assert (finding.level, finding.subject) == (Level.WARN, 'consumer "revenue" of log "orders"')
    assert all(word in f"{finding.text}; {finding.advice}" for word in words)


def test_lanes_are_judged_as_one_consumer_which_is_as_far_behind_as_the_last() -> None:
    late = AT_WORK._replace(consumer="revenue#1", lag=20 * MINUTE, last_seen=20 * MINUTE, dead_letters=2)
    lanes = [AT_WORK._replace(consumer="revenue#0", dead_letters=1), late]

    stuck, dead = diagnose_logs([HEALTHY], lanes)

    assert stuck.subject == dead.subject == 'consumer "revenue and 2 lanes" of log "orders"'
    assert "100 events wait for it, and it was last seen 20 min" in stuck.text
    assert "given up on 3 events" in dead.text
    assert "dead-letters list orders revenue#0`" in (dead.advice or "")


def test_what_only_looks_like_lanes_stays_by_itself() -> None:
    consumers = [AT_WORK._replace(consumer=name) for name in ("a#0", "b#1", "b#2", "c", "c#0", "d#00", "d#1")]

    assert [one.state.consumer for one in consumers_with_lanes(consumers) if not one.lanes] == [
        one.consumer for one in consumers
    ]


@every(
    "consumer",
    [
        AT_WORK._replace(last_seen=60 * MINUTE, lag=60 * MINUTE, pending=0),
        AT_WORK._replace(last_seen=MINUTE, lag=60 * MINUTE),
        AT_WORK._replace(batch=5, batch_age=MINUTE),
        AT_WORK._replace(lag=None, last_seen=MINUTE, pending=None, last_tick=None),
    ],
)
def test_a_consumer_that_works_or_has_nothing_to_do_is_fine(consumer: ConsumerState) -> None:
    assert judged(consumer=consumer).level is Level.OK
