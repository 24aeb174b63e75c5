"""The memory of failed messages: counts each row, and forgets the one seen longest ago when it is full."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from rowbus.transport.receiving.decisions.failures import CAPACITY, FailureMemory

patiently = settings(deadline=None, max_examples=60)
ERROR = ValueError("no")


def test_a_row_that_has_not_failed_is_unknown() -> None:
    assert FailureMemory().get("a") is None


def test_failures_are_counted_for_each_row_and_the_last_one_is_kept() -> None:
    memory = FailureMemory()
    memory.record("a", ERROR, {"first": 1})
    last = TypeError("still no")

    assert memory.record("a", last, {"second": 2}) == (2, last, {"second": 2})
    assert memory.record("b", ERROR, {}).times == 1
    assert memory.get("a") == (2, last, {"second": 2})


def test_a_cleared_row_starts_from_nothing() -> None:
    memory = FailureMemory()
    memory.record("a", ERROR, {})

    memory.clear("a")

    assert memory.get("a") is None
    assert memory.record("a", ERROR, {}).times == 1


def test_clearing_an_unknown_row_is_harmless() -> None:
    FailureMemory().clear("nobody")


def test_an_empty_memory_is_false_so_that_asking_it_costs_nothing() -> None:
    memory = FailureMemory()
    assert not memory
    memory.record("a", ERROR, {})
    assert memory
    memory.clear("a")
    assert not memory


def test_the_row_seen_longest_ago_is_forgotten_first() -> None:
    memory = FailureMemory(2)
    memory.record("a", ERROR, {})
    memory.record("b", ERROR, {})
    memory.get("a")

    memory.record("c", ERROR, {})

    assert memory.get("b") is None
    assert memory.get("a") is not None
    assert memory.get("c") is not None


def test_a_row_that_fails_again_is_not_the_next_to_be_forgotten() -> None:
    memory = FailureMemory(2)
    for row in ("a", "b", "a", "c"):
        memory.record(row, ERROR, {})

    assert memory.get("b") is None
    assert memory.record("a", ERROR, {}).times == 3


def test_ten_thousand_rows_are_remembered() -> None:
    assert CAPACITY == 10_000


@patiently
@given(
    st.integers(1, 5),
    st.lists(st.tuples(st.sampled_from(["record", "get", "clear"]), st.integers(0, 8))),
)
def test_it_never_remembers_more_than_its_capacity_and_always_the_latest(
    capacity: int, steps: list[tuple[str, int]]
) -> None:
    memory = FailureMemory(capacity)
    seen: list[int] = []  # those known, the one seen last at the end
    counts: dict[int, int] = {}
    for step, row in steps:
        if step == "record":
            counts[row] = counts.get(row, 0) + 1 if row in seen else 1
            assert memory.record(str(row), ERROR, {}).times == counts[row]
            seen = [*(other for other in seen if other != row), row][-capacity:]
        elif step == "get":
            assert (memory.get(str(row)) is not None) == (row in seen)
            if row in seen:
                seen = [*(other for other in seen if other != row), row]
        else:
            memory.clear(str(row))
            seen = [other for other in seen if other != row]
        assert len(memory) == len(seen)
