"""Delays: spread by a fifth, and doubled up to a limit."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rowbus.running.backoff import JITTER, doubling, jittered
from tests.fixtures.every import every

patiently = settings(deadline=None, max_examples=60)


@every("drawn, delay", [(0.0, 8.0), (0.5, 10.0), (1.0, 12.0)])
def test_a_jittered_delay_is_spread_over_a_fifth_either_way(drawn: float, delay: float) -> None:
    assert JITTER == 0.2
    assert jittered(10.0, lambda: drawn) == pytest.approx(delay)


@patiently
@given(st.floats(0.1, 1e6), st.floats(0, 1))
def test_a_jittered_delay_never_leaves_its_range(seconds: float, drawn: float) -> None:
    assert 0.8 * seconds <= jittered(seconds, lambda: drawn) * (1 + 1e-9)
    assert jittered(seconds, lambda: drawn) <= 1.2 * seconds * (1 + 1e-9)


def test_delays_double_up_to_the_longest() -> None:
    delays = [doubling(failures, first=1.0, most=10.0) for failures in range(1, 7)]

    assert delays == [1.0, 2.0, 4.0, 8.0, 10.0, 10.0]


def test_a_million_failures_do_not_overflow() -> None:
    assert doubling(1_000_000, first=0.1, most=60.0) == 60.0
