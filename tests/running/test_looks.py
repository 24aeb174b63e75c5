"""When to look again: soon after work, and ever less often after that."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rowbus.running.backoff import FIRST_PAUSE, LookPauses


def test_who_never_worked_looks_as_seldom_as_allowed() -> None:
    pauses = LookPauses(1.0)

    assert [pauses.following() for _ in range(3)] == [1.0, 1.0, 1.0]


def test_after_work_the_pauses_double_until_they_are_as_long_as_allowed() -> None:
    pauses = LookPauses(1.0)
    pauses.worked()

    assert [pauses.following() for _ in range(8)] == pytest.approx([0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1, 1])
    pauses.worked()
    assert pauses.following() == 0.02


def test_work_cuts_a_pause_short_that_is_longer_than_the_first() -> None:
    pauses = LookPauses(1.0)

    assert pauses.worked()  # idle
    assert not pauses.worked()  # it has not paused since
    pauses.following()
    assert not pauses.worked()
    pauses.following()
    pauses.following()
    assert pauses.worked()


@given(st.floats(0.001, 60), st.lists(st.booleans(), max_size=40))
def test_no_pause_is_longer_than_allowed_nor_shorter_than_the_first(
    longest: float, works: list[bool]
) -> None:
    pauses = LookPauses(longest)
    for works_first in works:
        if works_first:
            pauses.worked()
        assert min(FIRST_PAUSE, longest) <= pauses.following() <= longest
