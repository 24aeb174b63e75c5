"""The rate of failures of the error handling: a model, and the two hands that fail and wait as the poller's do."""

from __future__ import annotations

from heapq import heappop, heappush

from hypothesis import given
from hypothesis import strategies as some

from rowbus.testing import FakeClock
from rowbus.transport.delayed_store.decisions import WINDOW, FailureRate
from rowbus.transport.delayed_store.poller import OVERLAP
from tests.fixtures.every import every


def fail_until_critical(rate: float, seconds: float) -> float | None:
    """Have every recovery fail at once in each hand, for so long; return when that became critical."""
    clock = FakeClock()
    failures = FailureRate(rate, clock, hands=OVERLAP)
    due = [(0.0, hand) for hand in range(OVERLAP)]
    while (at := due[0][0]) <= seconds:
        clock.advance(at - clock())
        _, hand = heappop(due)
        critical, wait = failures.failed()
        if critical:
            return clock()
        heappush(due, (at + wait, hand))
    return None


@every("rate", [0.1, 0.5, 1, 2, 3, 7, 50])
def test_when_everything_fails_it_is_critical_within_the_window_at_any_permitted_rate(rate: float) -> None:
    critical_at = fail_until_critical(rate, 10 * WINDOW)

    assert critical_at is not None
    assert critical_at <= WINDOW


@given(
    some.sampled_from([0.1, 1, 2]),
    some.lists(some.floats(0, 40) | some.floats(0, 0.5), max_size=150),
)
def test_it_counts_as_a_model_that_remembers_every_failure(rate: float, pauses: list[float]) -> None:
    clock = FakeClock()
    failures = FailureRate(rate, clock, hands=OVERLAP)
    remembered: list[float] = []
    excessive = False

    for pause in pauses:
        clock.advance(pause)
        now = clock()
        if not remembered or now - remembered[-1] > WINDOW:
            excessive = False
        remembered.append(now)
        is_too_many = len([at for at in remembered if now - at <= WINDOW]) > rate * WINDOW
        news, excessive = is_too_many and not excessive, excessive or is_too_many

        assert failures.failed().critical == news
        assert len(failures._failures) <= rate * WINDOW + 1


def test_failures_at_the_permitted_rate_never_become_critical() -> None:
    clock = FakeClock()
    failures = FailureRate(0.5, clock, hands=OVERLAP)

    for _ in range(1000):
        assert not failures.failed().critical
        clock.advance(2.01)


def test_once_critical_it_waits_a_second_and_is_no_news_until_thirty_quiet_seconds() -> None:
    clock = FakeClock()
    failures = FailureRate(2, clock, hands=OVERLAP)
    assert sum(failures.failed().critical for _ in range(100)) == 1

    for _ in range(100):
        assert failures.failed() == (False, 1.0)
        clock.advance(1.0)
    clock.advance(31)

    assert sum(failures.failed().critical for _ in range(100)) == 1
