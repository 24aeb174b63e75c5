"""When a lake's tables are looked after, and which files are merged: by values alone."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from rowbus.spark.lake.policy import MANY, SMALL, TOGETHER, to_merge
from rowbus.spark.lake.tables.upkeep import DELETIONS, compacts, deletes


def test_every_so_many_batches_files_are_looked_for() -> None:
    assert [batch for batch in range(10) if compacts(batch, 3)] == [2, 5, 8]
    assert [batch for batch in range(6 * DELETIONS) if deletes(batch, 3)] == [
        3 * DELETIONS - 1,
        6 * DELETIONS - 1,
    ]
    assert all(compacts(batch, 1) for batch in range(3))
    assert not any(compacts(batch, 0) or deletes(batch, 0) for batch in range(100))


def test_few_small_files_and_large_ones_are_left_alone() -> None:
    assert to_merge([1] * (MANY - 1)) == []
    assert to_merge([SMALL] * 100) == []
    assert to_merge([SMALL, *[1] * MANY]) == list(range(1, MANY + 1))


def test_the_smallest_are_merged_first() -> None:
    sizes = [SMALL - 1] * MANY + [1] * MANY

    assert to_merge(sizes)[:MANY] == list(range(MANY, 2 * MANY))


@given(st.lists(st.integers(0, 2 * SMALL), max_size=60))
def test_what_is_merged_at_a_time_is_bounded(sizes: list[int]) -> None:
    chosen = to_merge(sizes)

    assert sum(sizes[place] for place in chosen) <= TOGETHER
    assert all(sizes[place] < SMALL for place in chosen)
    assert len(chosen) == len(set(chosen))
    assert bool(chosen) == (sum(size < SMALL for size in sizes) >= MANY)
