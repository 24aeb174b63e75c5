"""The suite's own tools: rows tried together, pairs instead of products, and the changes that measure its strength."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.fixtures.every import every
from tests.fixtures.pairs import ROUNDS, SETTING, cover, effort, parts, turn
from tests.fixtures.places import ROOT
from tools.circles import circles, imports_of
from tools.mutants.changes import changes_in
from tools.mutants.touch import function_of

SIZES = st.lists(st.integers(1, 4), min_size=1, max_size=4)
SAMPLE = """
async def take(queue, most=10):
    if queue.is_open and not queue.is_empty:
        await queue.begin()
        await queue.work()
        queue.note(1)
        queue.commit()
    return most > 0
"""


def combinations(sizes: list[int]) -> list[dict[str, int]]:
    return [
        {f"p{place}": value for place, value in enumerate(values)} for values in product(*map(range, sizes))
    ]


@given(SIZES)
def test_the_cases_that_run_show_what_all_do(sizes: list[int]) -> None:
    cases = combinations(sizes)
    shown = parts(cases)

    chosen = cover(shown, range(len(cases)))

    assert set().union(*(shown[number] for number in chosen)) == set().union(*shown)
    assert len(chosen) <= max(sizes) or len(sizes) > 2


def test_each_two_values_of_three_parameters_occur_together() -> None:
    cases = combinations([3, 3, 3])

    chosen = [cases[number] for number in cover(parts(cases), range(len(cases)))]

    assert {(case["p0"], case["p2"]) for case in chosen} == set(product(range(3), range(3)))
    assert len(chosen) < 27 / 2


def test_a_value_that_can_be_shown_soon_is_not_left_to_a_slow_case() -> None:
    cases = combinations([2, 2])  # the second value of the second parameter is slow

    chosen = cover(parts(cases), [0, 2], [1, 3])

    assert {0, 2} < set(chosen)
    assert len(chosen) == 3


def test_what_takes_turns_has_one_in_as_many_days_as_there_are_and_all_at_once_for_a_release(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def turns(day: int, size: int, a_day: int) -> list[int]:
        monkeypatch.setenv(SETTING, str(day))
        return list(turn(range(size), a_day))

    monkeypatch.delenv(ROUNDS, raising=False)
    for size, a_day, first in product(range(1, 8), range(1, 4), (0, 739_947)):
        days = [turns(first + day, size, a_day) for day in range(-(-size // a_day))]
        assert {value for day in days for value in day} == set(range(size))
        assert {len(day) for day in days} == {min(a_day, size)}
    assert effort(1, 9) == 1
    monkeypatch.setenv(ROUNDS, "2")
    assert turns(3, 7, 2) == list(range(7))
    assert effort(1, 9) == 9


def test_all_rows_are_tried_and_all_failures_told() -> None:
    tried: list[int] = []

    @every("number", [1, 2, 3, 4])
    def check(number: int) -> None:
        tried.append(number)
        assert number % 2, "even"

    with pytest.raises(BaseExceptionGroup, match="2 of 4 rows") as failed:
        check()
    assert tried == [1, 2, 3, 4]
    assert [failure.__notes__ for failure in failed.value.exceptions] == [
        ["row: number = 2"],
        ["row: number = 4"],
    ]


def test_a_test_whose_every_row_is_skipped_is_skipped() -> None:
    @every("number", [1, 2])
    def check(number: int) -> None:
        pytest.skip(f"{number}")

    with pytest.raises(pytest.skip.Exception, match="no row"):
        check()


async def test_rows_of_several_values_and_coroutines_are_tried_too() -> None:
    tried: list[tuple[int, str]] = []

    @every("number, text", [(1, "a"), pytest.param(2, "b", id="two")])
    async def check(number: int, text: str) -> None:
        tried.append((number, text))

    await check()
    assert tried == [(1, "a"), (2, "b")]


def test_each_kind_of_change_is_found_and_leaves_a_program(tmp_path: Path) -> None:
    file = tmp_path / "sample.py"
    file.write_text(SAMPLE)

    found = changes_in(tmp_path, file)

    assert {change.kind for change in found} == {"comparison", "condition", "constant", "await", "commit"}
    for change in found:
        compile(change.applied(SAMPLE), "sample", "exec")
        assert change.applied(SAMPLE) != SAMPLE
    (commit,) = [change.applied(SAMPLE) for change in found if change.kind == "commit"]
    assert commit.index("commit") < commit.index("note")


def test_clauses_comparisons_and_constants_of_sql_are_changed_and_comments_are_not(tmp_path: Path) -> None:
    file = tmp_path / "sample.sql"
    file.write_text("-- where 1 = 2\nselect 1\nfrom t\nwhere a = b\nlimit 5\nfor update skip locked\n")

    found = changes_in(tmp_path, file)

    assert [(change.line, change.kind) for change in found] == [
        (2, "constant"),
        (4, "clause"),
        (4, "comparison"),
        (5, "clause"),
        (5, "constant"),
        (6, "clause"),
    ]


def test_every_file_of_ours_can_be_changed() -> None:
    for name in ("transport/queues/postgresql.py", "transport/queues/sql/postgresql/receive.sql"):
        assert changes_in(ROOT / "src", ROOT / "src/rowbus" / name)


def test_a_context_of_a_test_or_of_its_programs_is_the_tests_function() -> None:
    for context in (
        "a/test_b.py::test_c",
        "a/test_b.py::test_c[d-1] (call)",
        "a/test_b.py::test_c@spark (setup)",
    ):
        assert function_of(context) == "a/test_b.py::test_c"


def test_modules_that_need_each_other_are_a_circle_wherever_the_imports_stand(tmp_path: Path) -> None:
    package = tmp_path / "shop"
    package.mkdir()
    for name, text in {
        "__init__": "from shop import orders",
        "orders": "def total():\n    from .prices import price",
        "prices": "if TYPE_CHECKING:\n    import shop.orders",
        "stock": "from shop.orders import total",
    }.items():
        (package / f"{name}.py").write_text(text)

    assert circles(imports_of(package)) == [["shop.orders", "shop.prices"]]
