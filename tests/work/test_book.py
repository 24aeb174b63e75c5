"""The book: counts each row, passes rows over for a while, keeps who has them, and stays bounded."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from rowbus.testing import FakeClock
from rowbus.work.book import CAPACITY, FIRST_PAUSE, LONGEST_PAUSE, MOST_HELD, REFUSALS, Book
from rowbus.work.fate import PATIENCE, is_to_blame

patiently = settings(deadline=None, max_examples=60)
ERROR = ValueError("no")


def test_failures_are_counted_for_each_row_and_the_last_one_is_kept() -> None:
    book, last = Book(FakeClock()), TypeError("still no")
    book.entry("a").fail(ERROR, {"first": 1})
    book.entry("a").fail(last, {"second": 2})
    book.entry("b").fail(ERROR)

    entry = book.entry("a")
    assert (entry.failures, entry.error, entry.items) == (2, last, {"second": 2})
    assert [book.failures(row) for row in "abc"] == [2, 1, 0]
    book.forget("a")
    assert book.failures("a") == 0


def test_what_the_headers_say_counts_where_it_is_more() -> None:
    entry = Book(FakeClock()).entry("a")
    entry.fail(ERROR)
    entry.restore(3, ERROR)
    entry.restore(2, TypeError())
    assert (entry.failures, entry.error) == (3, ERROR)
    assert entry.total(before=1, more=1) == 4
    assert entry.total(before=7, more=1) == 8
    entry.is_judged = True
    assert entry.total(before=1, more=1) == 3


def test_a_row_in_hand_is_in_nobody_elses() -> None:
    book = Book(FakeClock())
    assert book.take(["a", "b"]) == []
    assert book.take(["c", "b"]) == ["b"]
    assert book.take(["c"]) == []
    book.entry("a").fail(ERROR)
    book.let_go(["a", "b", "unknown"])
    assert len(book) == 2  # what is known of "a", and "c"
    assert book.take(["a", "b"]) == []


def test_an_entry_that_is_cleared_stays_in_hand_and_passed_over() -> None:
    book = Book(FakeClock())
    book.take(["a"])
    book.hold_back("a", 7, 5.0)
    book.entry("a").fail(ERROR)
    book.entry("a").clear()
    assert book.failures("a") == 0
    assert book.take(["a"]) == ["a"]
    assert book.passed_over() == [7]


def test_a_row_is_set_aside_after_so_many_refusals() -> None:
    entry = Book(FakeClock()).entry("a")
    assert [entry.refuse() for _ in range(REFUSALS)] == [False] * (REFUSALS - 1) + [True]


def test_a_row_is_passed_over_longer_each_time_and_never_for_ever() -> None:
    clock = FakeClock()
    book = Book(clock)
    assert book.pass_over("a", 7) == FIRST_PAUSE
    assert book.passed_over() == [7]
    clock.advance(FIRST_PAUSE)
    assert book.passed_over() == []
    assert book.pass_over("a", 7) == 2 * FIRST_PAUSE
    assert max(book.pass_over("a", 7) for _ in range(20)) == LONGEST_PAUSE
    book.release("a")
    assert book.passed_over() == []


def test_a_shorter_hold_does_not_end_a_longer_one() -> None:
    clock = FakeClock()
    book = Book(clock)
    book.hold_back("a", 7, 10.0)
    book.hold_back("a", 7, 1.0)
    clock.advance(5.0)
    assert book.passed_over() == [7]


def test_what_is_passed_over_is_bounded_and_forgotten_when_it_is_dealt_with() -> None:
    book = Book(FakeClock())
    for number in range(MOST_HELD + 2):
        book.pass_over(str(number), number)
    assert book.passed_over() == list(range(2, MOST_HELD + 2))
    book.forget("2")
    assert book.passed_over()[0] == 3


def test_an_outage_is_a_rows_own_when_it_lasts_while_others_are_completed() -> None:
    entry = Book(FakeClock()).entry("a")
    assert not is_to_blame(*entry.meet_outage(100.0, 5))
    assert not is_to_blame(*entry.meet_outage(100.0 + PATIENCE + 1, 5))
    assert not is_to_blame(*entry.meet_outage(100.0 + PATIENCE, 6))
    assert is_to_blame(*entry.meet_outage(100.0 + PATIENCE + 1, 6))


def test_ten_thousand_rows_are_remembered() -> None:
    assert CAPACITY == 10_000


@patiently
@given(
    st.integers(1, 5),
    st.lists(st.tuples(st.sampled_from(["fail", "take", "let go", "forget"]), st.integers(0, 8))),
)
def test_it_forgets_what_it_met_longest_ago_and_nothing_in_hand(
    capacity: int, steps: list[tuple[str, int]]
) -> None:
    book = Book(FakeClock(), capacity)
    known: list[int] = []  # the newest at the end
    in_hand: set[int] = set()
    counts: dict[int, int] = {}

    def meet(row: int) -> None:
        known[:] = known if row in known else [*known, row]

    for step, row in steps:
        met = step in {"fail", "take"} and row not in known
        if step == "fail":
            counts[row] = counts.get(row, 0) + 1 if row in known else 1
            meet(row)
            book.entry(row).fail(ERROR)
        elif step == "take":
            assert bool(book.take([row])) == (row in in_hand)
            if row not in in_hand:
                counts[row] = counts[row] if row in known else 0
                meet(row)
                in_hand.add(row)
        elif step == "let go":
            book.let_go([row])
            in_hand.discard(row)
            if not counts.get(row):
                known[:] = [other for other in known if other != row]
        else:
            book.forget(row)
            in_hand.discard(row)
            known[:] = [other for other in known if other != row]
        if met and len(known) > capacity:
            oldest = next((other for other in known[:-1] if other not in in_hand), None)
            known[:] = [other for other in known if other != oldest]
        assert len(book) == len(known)
        assert all(book.failures(other) == counts[other] for other in known)
