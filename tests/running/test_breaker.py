"""The circuit breaker: armed by a failure, disarmed by a success, triggered once when failures have lasted."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from rowbus.running.backoff import WAIT_WHEN_ARMED, WAIT_WHEN_TRIGGERED, CircuitBreaker
from rowbus.testing import FakeClock

patiently = settings(deadline=None, max_examples=60)


def breaker_that_failed_for(seconds: float) -> tuple[CircuitBreaker, FakeClock]:
    clock = FakeClock()
    breaker = CircuitBreaker(30.0, clock)
    breaker.failed()
    clock.advance(seconds)
    return breaker, clock


def test_the_first_failure_is_news_and_waits_a_second() -> None:
    outage = CircuitBreaker(30.0, FakeClock()).failed()

    assert outage == (1.0, True, False)
    assert outage.wait == WAIT_WHEN_ARMED


def test_further_failures_are_no_news() -> None:
    breaker, _ = breaker_that_failed_for(5)

    assert breaker.failed() == (WAIT_WHEN_ARMED, False, False)


def test_failures_that_have_lasted_long_enough_are_critical() -> None:
    breaker, _ = breaker_that_failed_for(30)

    outage = breaker.failed()

    assert outage.critical
    assert breaker.triggered


def test_just_before_that_they_are_not() -> None:
    breaker, _ = breaker_that_failed_for(29.999)

    assert not breaker.failed().critical


def test_the_critical_error_is_raised_once_an_outage() -> None:
    breaker, clock = breaker_that_failed_for(30)
    breaker.failed()
    clock.advance(3600)

    assert not breaker.failed().critical


def test_a_triggered_breaker_waits_ten_seconds() -> None:
    breaker, _ = breaker_that_failed_for(30)

    assert breaker.failed().wait == WAIT_WHEN_TRIGGERED == 10.0


def test_a_success_disarms_and_tells_how_many_failures_there_were() -> None:
    breaker, clock = breaker_that_failed_for(20)
    breaker.failed()

    assert breaker.succeeded() == 2

    clock.advance(20)
    assert breaker.failed() == (WAIT_WHEN_ARMED, True, False)
    assert breaker.failures == 1


def test_a_success_after_the_trigger_makes_the_next_outage_critical_again() -> None:
    breaker, clock = breaker_that_failed_for(30)
    breaker.failed()
    breaker.succeeded()
    assert not breaker.triggered
    breaker.failed()
    clock.advance(30)

    assert breaker.failed().critical


def test_successes_without_an_outage_are_no_news() -> None:
    breaker = CircuitBreaker(30.0, FakeClock())

    assert [breaker.succeeded(), breaker.succeeded()] == [0, 0]


def test_one_failure_alone_never_triggers_however_long_ago_it_was() -> None:
    breaker, _ = breaker_that_failed_for(3600)

    assert not breaker.triggered
    assert breaker.succeeded() == 1


@patiently
@given(st.lists(st.tuples(st.booleans(), st.floats(0, 40)), max_size=40))
def test_each_outage_is_announced_once_and_critical_at_most_once_and_never_early(
    events: list[tuple[bool, float]],
) -> None:
    clock = FakeClock()
    breaker = CircuitBreaker(30.0, clock)
    failures = 0
    began = 0.0
    critical = False
    for success, pause in events:
        if success:
            assert breaker.succeeded() == failures
            failures, critical = 0, False
        else:
            began = began if failures else clock()
            outage = breaker.failed()
            failures += 1
            assert outage.first == (failures == 1)
            assert outage.critical == (not critical and clock() - began >= 30.0)
            critical = critical or outage.critical
            assert breaker.triggered == critical
        clock.advance(pause)
