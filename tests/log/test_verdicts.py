"""Verdicts on an event that failed."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from rowbus.errors import ConfigurationError, Unrecoverable
from rowbus.log.consumers.policy import LONGEST_REASON, DeadLetter, Retries, RetryAfter, describe, judge
from rowbus.settings import ConsumerSettings
from tests.fixtures.every import every

RETRIES = Retries(most=3, first_delay=10, longest_delay=100)


class OutOfStockError(Unrecoverable):
    pass


def middle() -> float:
    return 0.5


@every("retried, seconds", [(0, 10), (1, 20), (2, 40)])
def test_delays_double_from_retry_to_retry(retried: int, seconds: int) -> None:
    assert judge(ValueError(), retried, RETRIES, middle) == RetryAfter(seconds)


@every("random, seconds", [(0.0, 8), (1.0, 12)])
def test_delays_are_spread_by_a_fifth(random: float, seconds: int) -> None:
    assert judge(ValueError(), 0, RETRIES, lambda: random) == RetryAfter(seconds)


def test_a_delay_does_not_exceed_the_longest() -> None:
    assert judge(ValueError(), 50, RETRIES._replace(most=1000), middle) == RetryAfter(100)


def test_a_delay_is_rounded_up_to_whole_seconds() -> None:
    assert judge(ValueError(), 0, RETRIES._replace(first_delay=0.01), middle) == RetryAfter(1)


def test_without_a_delay_the_event_is_due_at_once() -> None:
    assert judge(ValueError(), 0, RETRIES._replace(first_delay=0), middle) == RetryAfter(0)


def test_an_event_that_was_retried_often_enough_becomes_a_dead_letter() -> None:
    assert judge(ValueError("no price"), 3, RETRIES, middle) == DeadLetter("ValueError: no price")
    assert judge(ValueError(), 0, RETRIES._replace(most=0), middle) == DeadLetter("ValueError")


def test_an_unrecoverable_event_is_not_retried() -> None:
    assert isinstance(judge(OutOfStockError("tent"), 0, RETRIES, middle), DeadLetter)


def test_a_reason_names_the_error_and_fits_into_the_database() -> None:
    assert describe(OutOfStockError("tent")) == f"{__name__}.OutOfStockError: tent"
    assert describe(ValueError("a\x00b")) == r"ValueError: a\x00b"
    assert len(describe(ValueError("x" * 10_000))) == LONGEST_REASON


@every(
    "wrong",
    [
        {"chunk_size": 0},
        {"workers": 0},
        {"max_retries": -1},
        {"workers": 2, "whole_batches": True},
        {"poll_delay": timedelta(milliseconds=1)},
    ],
)
def test_settings_that_cannot_work_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError):
        ConsumerSettings(**wrong)
