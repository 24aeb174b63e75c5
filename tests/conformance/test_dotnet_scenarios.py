"""Each interop scenario of tests/golden/dotnet/scenarios.md has tests of our half, and its golden rows are there."""

from __future__ import annotations

import ast
import re
from functools import cache
from typing import Final

from tests.conformance.scenario_tests import TESTS, WITHOUT
from tests.fixtures.dotnet_rows import ROWS, SCENARIOS
from tests.fixtures.every import every
from tests.fixtures.places import TESTS as FOLDER

LINE: Final = re.compile(r"\| (?P<scenario>[^|]+) \| (?P<files>[^|]+) \| [^|]+ \|")


def lines() -> dict[str, list[str]]:
    """Return the golden files of each scenario."""
    text = (ROWS / "scenarios.md").read_text(encoding="utf-8")
    found = {line["scenario"]: re.findall(r"[a-z][a-z-]+", line["files"]) for line in LINE.finditer(text)}
    found.pop("scenario")
    return found


@cache
def functions_of(path: str) -> set[str]:
    tree = ast.parse((FOLDER / path).read_text(encoding="utf-8"))
    functions = (ast.FunctionDef, ast.AsyncFunctionDef)
    return {node.name for node in ast.walk(tree) if isinstance(node, functions)}


def test_each_scenario_has_tests_or_says_why_not() -> None:
    assert lines().keys() == TESTS.keys() | WITHOUT.keys()
    assert not TESTS.keys() & WITHOUT.keys()


@every("scenario", TESTS)
def test_the_tests_of_a_scenario_are_there(scenario: str) -> None:
    missing = [
        test
        for test in TESTS[scenario]
        if test.partition("::")[2] not in functions_of(test.partition("::")[0])
    ]
    assert TESTS[scenario]
    assert missing == []


def test_each_golden_file_belongs_to_a_scenario() -> None:
    named = {file for files in lines().values() for file in files}
    assert set(SCENARIOS) - named == set()
