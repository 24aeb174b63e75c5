"""behaviours.md and docs/conformance.md say what is tested; here the tests say whether that is so."""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

import pytest

from tests.conformance import transport
from tests.fixtures.every import every
from tests.fixtures.places import TESTS

HERE = Path(__file__).parent
PAGE = (HERE / "behaviours.md").read_text(encoding="utf-8")
COMPATIBLE = (HERE.parent.parent / "docs" / "conformance.md").read_text(encoding="utf-8")

THE_THIRTY = [
    "When_message_is_available",
    "When_receiving_message",
    "When_using_unicode_characters_in_headers",
    "When_multiple_messages_are_available",
    "When_multiple_messages_are_available_and_concurrency_is_increased_after_pump_started",
    "When_multiple_messages_are_available_and_concurrency_is_lowered_after_pump_started",
    "When_multiple_messages_are_available_and_concurrency_is_increased_and_decreased_after_pump_started",
    "When_creating_send_only_transport",
    "When_on_message_throws",
    "When_requesting_immediate_retry",
    "When_on_message_throws_after_immediate_retry",
    "When_on_message_throws_after_delayed_retry",
    "When_on_error_throws",
    "When_modifying_headers_before_on_error",
    "When_modifying_headers_before_retry",
    "When_modifying_headers_in_on_error",
    "When_setting_context_items",
    "When_sending_from_on_error",
    "When_failure_happens_after_send",
    "When_failure_happens_after_isolated_send",
    "When_transaction_level_TransactionScope",
    "When_scope_complete_throws",
    "When_scope_throws_after_successful_message_processing",
    "When_stopping_on_message",
    "When_stopping_on_error",
    "When_cancelling_stop_on_message",
    "When_cancelling_stop_on_error",
    "When_stop_canceled_on_message",
    "When_stop_canceled_on_error",
    "When_starting_again",
]

MODES = {
    "all": {transport.NONE, transport.RECEIVE_ONLY, transport.SENDS_ATOMIC},
    "T": {transport.RECEIVE_ONLY, transport.SENDS_ATOMIC},
    "default": {transport.SENDS_ATOMIC},
    "–": set(),  # noqa: RUF001 - the dash of a table
}
NEVER = "–"  # noqa: RUF001 - the same
MODES["T+"] = MODES["T"] | {transport.RECEIVE_ONLY_ROLLBACK, transport.SENDS_ATOMIC_ROLLBACK}
MODES["all+"] = MODES["T+"] | MODES["all"]


class Line(NamedTuple):
    """A line of one of the page's tables."""

    behaviour: str
    modes: str
    test: str
    sqlserver: str

    @property
    def module(self) -> Path:
        return (HERE / self.test.partition("::")[0]).resolve()

    @property
    def function(self) -> str:
        return self.test.partition("::")[2]


_LINE = re.compile(r"^\| (\S.*?) \| (\S+) \| `?([^`|]+?)`? \| ?([^|]*?) ?\|$", re.MULTILINE)
LINES = [line for line in map(Line._make, _LINE.findall(PAGE)) if line.modes not in {"modes", "---"}]
TESTED = [line for line in LINES if "::" in line.test]


_PROMISE = re.compile(r"^\| (\S.*?) \| ((?:`[^`|]+::[^`|]+`(?:, )?)+) \|$", re.MULTILINE)
PROMISES = {row: re.findall(r"`([^`]+)`", tests) for row, tests in _PROMISE.findall(PAGE)}


def test_each_row_of_the_table_has_its_tests() -> None:
    table = COMPATIBLE.partition("| | state |\n| --- | --- |\n")[2].partition("\n\n")[0]
    assert [line.split(" | ")[0].removeprefix("| ") for line in table.splitlines()] == list(PROMISES)


@every("test", sorted({test for tests in PROMISES.values() for test in tests}))
def test_the_test_of_a_row_exists(test: str) -> None:
    path, _, function = test.partition("::")
    written = (HERE / path).resolve().read_text(encoding="utf-8")
    assert re.search(rf"def {function}\(", written)


def test_the_page_has_its_tables() -> None:
    assert len(TESTED) > 60
    assert all("::" in line.test or line.test.startswith("later issue: ") for line in LINES)


def test_each_of_the_thirty_behaviours_is_on_the_page_with_a_test_of_its_name() -> None:
    tests = {re.sub(r" \(\d\)$", "", line.behaviour): line.function for line in TESTED[:30]}
    assert list(tests) == THE_THIRTY
    assert [_plain(test.removeprefix("test_")) for test in tests.values()] == [
        _plain(name) for name in THE_THIRTY
    ]


def _plain(name: str) -> str:
    return name.lower().replace("_", "")


@every("line", TESTED, ids=lambda line: str(line.function))
def test_what_the_page_names_exists_and_runs_in_the_modes_it_says(line: Line) -> None:
    _, function = _found(line)

    marks = getattr(function, "pytestmark", [])
    cases = [
        mark.args[1]
        for mark in marks
        if mark.name == "parametrize" and "case" in str(mark.args[0]).split(", ")
    ]
    plain = {case if isinstance(case, transport.Case) else case[0] for listed in cases for case in listed}
    if not plain and {"transport", "endpoints", "sales", "place", "foreign"} & set(function.__annotations__):
        plain = {transport.SENDS_ATOMIC}  # the fixture's default
    assert plain == MODES[line.modes]


def test_every_conformance_test_named_when_is_on_the_page() -> None:
    written = {
        name
        for path in HERE.glob("test_*.py")
        for name in re.findall(r"def (test_when_\w+)", path.read_text("utf-8"))
    }
    assert written == {line.function for line in TESTED if line.function.startswith("test_when_")}


@every("line", TESTED, ids=lambda line: str(line.function))
def test_the_page_says_which_tests_run_on_sql_server(line: Line) -> None:
    module, function = _found(line)
    marks = [*_listed(getattr(module, "pytestmark", [])), *getattr(function, "pytestmark", [])]
    refused = any(mark.name == "only" and "SQL Server" not in mark.args for mark in marks)
    is_postgresqls = refused or "database" in function.__annotations__
    assert line.sqlserver.partition(" ")[0] in ({NEVER} if is_postgresqls else {"ready", "refused"})


def _found(line: Line) -> tuple[ModuleType, Callable[..., object]]:
    path = line.module.with_suffix("").relative_to(TESTS.parent)
    module = importlib.import_module(".".join(path.parts))
    return module, getattr(module, line.function)


def _listed(marks: pytest.MarkDecorator | list[pytest.MarkDecorator]) -> list[pytest.MarkDecorator]:
    return marks if isinstance(marks, list) else [marks]
