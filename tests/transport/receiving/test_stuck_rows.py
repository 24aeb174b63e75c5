"""Rows that cannot be dealt with are counted, passed over for a while, and forgotten in the end."""

from __future__ import annotations

from rowbus.testing import FakeClock
from rowbus.transport.receiving.decisions.stuck_rows import ATTEMPTS, FIRST_PAUSE, LONGEST_PAUSE, StuckRows


def test_a_row_is_set_aside_after_so_many_failures() -> None:
    rows = StuckRows(FakeClock())
    assert [rows.failed(7) for _ in range(ATTEMPTS)] == [False] * (ATTEMPTS - 1) + [True]
    assert not rows.failed(8)


def test_a_row_is_passed_over_longer_each_time_and_never_for_ever() -> None:
    clock = FakeClock()
    rows = StuckRows(clock)
    assert rows.pass_over(7) == FIRST_PAUSE
    assert rows.passed_over() == [7]
    clock.advance(FIRST_PAUSE)
    assert rows.passed_over() == []
    assert rows.pass_over(7) == 2 * FIRST_PAUSE
    assert max(rows.pass_over(7) for _ in range(20)) == LONGEST_PAUSE


def test_what_is_dealt_with_is_forgotten_and_the_rest_is_bounded() -> None:
    rows = StuckRows(FakeClock(), capacity=2)
    for position in (1, 2, 3):
        rows.pass_over(position)
    assert rows.passed_over() == [2, 3]
    rows.forget(2)
    assert rows.passed_over() == [3]
    assert len(rows) == 1
