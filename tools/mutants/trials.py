"""A trial: a copy of src with one change, and the tests that touch it, which should notice.

The tests whose lines these are come first: those of the same subject, then the quick ones, as many as fit into
`SECONDS` of what they took when they were recorded. So a survivor is a change that none of these noticed; `make test`
as a whole might.

Invariant: the tree that is tried is never changed: a trial has a copy of src, which it imports instead.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from tools.mutants.changes import Change
from tools.mutants.touch import LineIndex

SECONDS = 30.0
MOST = 80
CALLS = 4  # how far what calls a function of SQL is looked for
DEFINES = re.compile(
    r"create (?:or replace )?(?:function|view|table|type) (?:if not exists )?(?:pgq\w*\.)?(\w+)"
)
LIMIT = 240.0  # seconds, after which a change has made the tests hang: it was noticed
LOADED = re.compile(r"""["'](?:[^"'\s]*/)?(\w+)(?:\.sql)?["']""")
TEXTS = {".py", ".sql", ".json", ".txt"}
WORD = re.compile(r"\w+")
NOTICED = re.compile(r"^(?:FAILED|ERROR) (\S+?::[\w:]+)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Outcome:
    """The test that noticed a change (`hang`: none ended), or none of those tried."""

    change: Change
    noticed_by: str | None
    tried: int


class Trials:
    """Tries changes on the tests of a tree."""

    def __init__(self, root: Path, touched: LineIndex) -> None:
        self._root = root
        self._touched = touched
        places = (path for name in ("tests", "src") for path in (root / name).rglob("*"))
        files = [path for path in places if path.suffix in TEXTS]
        self._texts = {self._name(path): path.read_text(encoding="utf-8") for path in files}
        self._defined: dict[str, set[str]] = {}
        self._named: dict[str, set[str]] = defaultdict(set)
        self._loaded: dict[str, list[tuple[str, int]]] = defaultdict(list)
        for path, text in self._texts.items():
            self._note(path, text)

    def _note(self, path: str, text: str) -> None:
        """Note what a file defines in SQL, what words it has, and which statements its lines may load."""
        if path.endswith(".sql") and not path.startswith("tests/"):
            self._defined[path] = {Path(path).stem, *DEFINES.findall(text)}
        for word in WORD.findall(text):
            self._named[word].add(path)
        if path.endswith(".py") and not path.startswith("tests/"):
            for number, line in enumerate(text.splitlines(), 1):
                for name in LOADED.findall(line):
                    self._loaded[name].append((path, number))

    def _name(self, path: Path) -> str:
        """Return a file's path as changes have it, relative to src, or that of a test, relative to the root."""
        source = self._root / "src"
        return str(path.relative_to(source if path.is_relative_to(source) else self._root))

    def tests_of(self, change: Change) -> list[str]:
        """Return the tests that touch what is changed, those most likely to notice first."""
        found = self._of_sql(change) if change.path.endswith(".sql") else self._of_line(change)
        subject = Path(change.path).parts[1:-1]

        def rank(test: str) -> tuple[int, int, float]:
            folders = Path(test.partition("::")[0]).parts[1:-1]
            common = sum(theirs == ours for theirs, ours in zip(folders, subject, strict=False))
            return found[test], -common, self._touched.seconds.get(test, 0.0)

        chosen: list[str] = []
        seconds = 0.0
        for test in sorted(filter(self._exists, found), key=rank):
            seconds += self._touched.seconds.get(test, 0.0)
            if chosen and (seconds > SECONDS or len(chosen) >= MOST):
                break
            chosen.append(test)
        return chosen

    def _of_line(self, change: Change) -> dict[str, int]:
        lines = self._touched.lines(change.path)
        return dict.fromkeys(lines.get(change.line) or set().union(*lines.values()), 0)

    def _of_sql(self, change: Change) -> dict[str, int]:
        """Return tests that run or name what a file defines, or what calls that, with the number of calls between."""
        found: dict[str, int] = {}
        subject = Path(change.path).parts[1]
        names, known = self._defined[change.path], set[str]()
        for distance in range(CALLS):
            for name in names - known:
                for test in self._of_name(name, subject):
                    found.setdefault(test, distance)
            known |= names
            callers = set().union(*(self._named[name] for name in names)) & self._defined.keys()
            names = set().union(*(self._defined[path] for path in callers)) - known
            if not names:
                break
        return found

    def _of_name(self, name: str, subject: str) -> Iterator[str]:
        """Give the tests that run a line which loads a statement of this name, and its subject's that name it."""
        for path, line in self._loaded[name]:
            yield from self._touched.lines(path).get(line, set())
        naming = {path for path in self._named[name] if path.startswith(f"tests/{subject}/")}
        naming |= set().union(
            *(self._named[Path(path).parent.name] for path in naming if not path.endswith(".py"))
        )
        yield from (test for test in self._touched.seconds if test.partition("::")[0] in naming)

    def _exists(self, test: str) -> bool:
        file, _, name = test.partition("::")
        return f"def {name.rpartition('::')[2]}(" in self._texts.get(file, "")

    def run(self, change: Change, first: Iterable[str] = ()) -> Outcome:
        """Make the change in a copy and run the tests; `first` has those that noticed it once."""
        with tempfile.TemporaryDirectory(prefix="rowbus-mutant-") as folder:
            copy = Path(folder) / "src"
            shutil.copytree(
                self._root / "src", copy
            )  # with its bytecode, which knows its source by time and size
            text = (copy / change.path).read_text(encoding="utf-8")
            (copy / change.path).write_text(change.applied(text), encoding="utf-8")
            remembered = [test for test in first if self._exists(test)]
            touching = self.tests_of(change)
            for tests in filter(None, (remembered, touching)):
                noticed_by = self._notices(copy, tests)
                if noticed_by is not None:
                    return Outcome(change, noticed_by, len(tests))
        return Outcome(change, None, len(touching))

    def _notices(self, source: Path, tests: list[str]) -> str | None:
        options = [
            "-x",
            "-q",
            "--tb=line",
            "-n0",
            "-p",
            "no:randomly",
            "-p",
            "no:cacheprovider",
            "--timeout=60",
        ]
        command = [sys.executable, "-m", "pytest", *options, "-m", "not slow", *tests]
        environment = os.environ | {"PYTHONPATH": str(source), "PYTHONDONTWRITEBYTECODE": ""}
        process = subprocess.Popen(
            command,
            cwd=self._root,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        try:
            output, _ = process.communicate(timeout=LIMIT)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, 9)
            process.communicate()
            return "hang"
        if process.returncode in {0, 5}:
            return None
        found = NOTICED.search(output)
        return found[1] if found else f"exit {process.returncode}"
