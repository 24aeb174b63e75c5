"""Tests by the lines of src that they run, as one run of `make test` under coverage saw it, with their seconds.

`python -m pytest -p tools.mutants.touch` records it (see `__main__.py`, `--record`): coverage starts in every
process by its `.pth` file, also in those that tests start, and this plug-in tells it which test runs. A test is a
function: all its cases count together.

Invariant: recording changes nothing that a test sees.
"""

from __future__ import annotations

import json
import os
import sqlite3
from collections import defaultdict
from collections.abc import Generator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

FOLDER = "ROWBUS_TEST_TOUCHED"
CONFIGURATION = """\
[run]
branch = true
source = {source}
data_file = {folder}/coverage
parallel = true
context = ${{PYTEST_CURRENT_TEST-}}
concurrency = thread
patch = _exit, fork, subprocess
sigterm = true
disable_warnings = module-not-measured, no-data-collected, module-not-imported, couldnt-parse, already-imported
"""


def function_of(context: str) -> str:
    """Return the test's function: of a node, or of pytest's variable for programs that a test starts."""
    return context.partition("[")[0].partition("@")[0].partition(" (")[0]


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Tell coverage, which runs in this process if it is recorded, whose the next lines are."""
    import coverage  # noqa: PLC0415 - where it is not installed, pytest only collects this file

    if (running := coverage.Coverage.current()) is not None:
        running.switch_context(function_of(item.nodeid))
    return (yield)


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Write down how long a part of a test took; with xdist only the process that ran it does."""
    if worker := os.environ.get("PYTEST_XDIST_WORKER"):
        with Path(os.environ[FOLDER], f"seconds.{worker}").open("a", encoding="utf-8") as file:
            file.write(json.dumps([function_of(report.nodeid), report.duration]) + "\n")


@dataclass
class LineIndex:
    """For each file below src and each of its lines, the tests that ran it; and each test's seconds."""

    tests: dict[str, dict[int, set[str]]] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)

    def lines(self, path: str) -> dict[int, set[str]]:
        """Return who ran each line of a file below src."""
        return self.tests.get(path, {})


def read(folder: Path, source: Path) -> LineIndex:
    """Read what a run recorded; coverage has combined its files."""
    touched = LineIndex(defaultdict(lambda: defaultdict(set)), defaultdict(float))
    with sqlite3.connect(folder / "coverage") as data:
        rows = data.execute(
            "select file.path, context.context, arc.fromno, arc.tono from arc"
            " join file on file.id = arc.file_id join context on context.id = arc.context_id"
            " where context.context <> ''"
        )
        for path, context, first, second in rows:
            lines = touched.tests[str(Path(path).relative_to(source))]
            for line in (first, second):
                lines[abs(line)].add(function_of(context))
    for file in folder.glob("seconds.*"):
        for row in file.read_text(encoding="utf-8").splitlines():
            test, seconds = json.loads(row)
            touched.seconds[test] += seconds
    return touched
