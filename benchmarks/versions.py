"""`make bench BASE=<commit>`: the figures of an earlier commit and of this tree, side by side.

Each side is a process with the package of its commit, the same libraries and a server of its own. Both run the
benchmarks of this tree; an earlier package that these cannot load is measured by the benchmarks of its own commit.

Invariant: the sides alternate, in changing order, and a line's ratio is the median of the rounds' ratios.
"""

from __future__ import annotations

import io
import json
import os
import statistics
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from rich.table import Table

from benchmarks.reporting import console

ROOT = Path(__file__).parents[1]
RECORDER = Path(__file__).with_name("recorder.py")

Figures = Mapping[str, float]


class Version(NamedTuple):
    """A commit: how it is called, where its package is, and where the benchmarks are that measure it."""

    name: str
    package: Path
    benchmarks: Path

    @property
    def environment(self) -> dict[str, str]:
        """Imports that load these in a process."""
        return {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, (self.package, self.benchmarks)))}


class Row(NamedTuple):
    """A line: the medians of both sides, where they have it, and their ratio."""

    name: str
    base: float | None
    now: float | None
    ratio: float | None


def compare(base: str, names: Sequence[str], rounds: int, scale: float) -> int:
    """Run the comparisons of that name for both in turn, and print their figures; 2 if there is no such commit."""
    with tempfile.TemporaryDirectory(prefix="rowbus-base-") as folder:
        if not _extract(base, Path(folder)):
            console.print(f"There is no commit {base} here with a package and benchmarks.")
            return 2
        earlier = earlier_version(base, Path(folder))
        now = Version("now", ROOT / "src", ROOT)
        found: dict[str, list[Figures]] = {earlier.name: [], now.name: []}
        for number in range(rounds):
            for side in (earlier, now) if number % 2 == 0 else (now, earlier):
                console.print(f"round {number + 1} of {rounds}: {side.name}")
                found[side.name].append(_run(side, names, scale))
    _show(base, rows(found[earlier.name], found[now.name]))
    return 0


def earlier_version(name: str, folder: Path) -> Version:
    """Choose the benchmarks for a commit's files: those of this tree, where they can load its package."""
    present = Version(name, folder / "src", ROOT)
    command = [sys.executable, "-c", "import benchmarks.__main__"]
    if not subprocess.run(
        command, cwd=ROOT, env=present.environment, check=False, capture_output=True
    ).returncode:
        return present
    console.print(f"The benchmarks of this tree cannot load {name}: that commit's own benchmarks measure it.")
    return present._replace(benchmarks=folder)


def rows(base: Sequence[Figures], now: Sequence[Figures]) -> list[Row]:
    """Put the figures of the rounds side by side, this tree's first, in their order."""
    names = dict.fromkeys(name for figures in (*now, *base) for name in figures)
    return [_row(name, base, now) for name in names]


def _row(name: str, base: Sequence[Figures], now: Sequence[Figures]) -> Row:
    pairs = [
        (one[name], other[name])
        for one, other in zip(base, now, strict=True)
        if name in one and name in other
    ]
    ratios = [later / earlier for earlier, later in pairs if earlier]
    return Row(name, _median(name, base), _median(name, now), statistics.median(ratios) if ratios else None)


def _median(name: str, rounds: Sequence[Figures]) -> float | None:
    found = [figures[name] for figures in rounds if name in figures]
    return statistics.median(found) if found else None


def _extract(commit: str, folder: Path) -> bool:
    command = ["git", "archive", "--format=zip", commit, "src", "benchmarks"]
    archive = subprocess.run(command, cwd=ROOT, check=False, capture_output=True)
    if archive.returncode:
        return False
    with zipfile.ZipFile(io.BytesIO(archive.stdout)) as files:
        files.extractall(folder)
    return True


def _run(side: Version, names: Sequence[str], scale: float) -> Figures:
    """Run the comparisons once, after a cold round."""
    with tempfile.NamedTemporaryFile("r", suffix=".json") as file:
        arguments = [file.name, *names, "--rounds", "1", "--scale", str(scale)]
        # -P: a script's folder would come before the libraries, and some of its modules have names of theirs.
        command = [sys.executable, "-P", str(RECORDER), *arguments]
        with subprocess.Popen(
            command, cwd=side.benchmarks, env=side.environment, stdout=subprocess.DEVNULL
        ) as process:
            try:
                code = process.wait()
            finally:
                process.terminate()  # and not kill: it has a server to stop
        if code:
            sys.exit(f"{side.name} could not be measured; above is why.")
        figures: dict[str, float] = json.load(file)
        return figures


def _show(base: str, lines: Sequence[Row]) -> None:
    table = Table(title=f"{base} and now (medians of the rounds)", title_justify="left")
    for column in ("figure", base, "now", "now against then"):
        table.add_column(column, justify="left" if column == "figure" else "right")
    for line in lines:
        table.add_row(line.name, _text(line.base), _text(line.now), _text(line.ratio))
    console.print(table)


def _text(figure: float | None) -> str:
    return "" if figure is None else f"{figure:,.2f}"
