"""Run a commit's benchmarks and write their figures to a file: a program that `benchmarks/versions.py` starts.

Invariant: PYTHONPATH says whose `benchmarks` and `rowbus` are loaded; nothing here needs more of them than every commit
has.
"""

from __future__ import annotations

import importlib
import json
import statistics
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

FIGURES: dict[str, Callable[[Any], float]] = {
    "a second": lambda run: run.rate,
    "client CPU, µs": lambda run: run.client_cpu / run.messages * 1e6,
    "server CPU, µs": lambda run: run.server_cpu / run.messages * 1e6,
}
"""A measurement as it is noted."""


def main() -> None:
    """Run what the command line asks for, after the name of the file."""
    file, *asked = sys.argv[1:]
    sys.argv[1:] = asked
    found: dict[str, float] = {}
    _listen(found)
    importlib.import_module("benchmarks.__main__").main()
    Path(file).write_text(json.dumps(found), encoding="utf-8")


def _listen(found: dict[str, float]) -> None:
    """Have what is shown and judged be noted; before any comparison is loaded."""
    reporting: Any = importlib.import_module("benchmarks.reporting")
    show, verdict = reporting.show, reporting.verdict

    def shown(title: str, runs: Mapping[str, Sequence[Any]], *more: object) -> None:
        found.update(_measured(title, runs))
        show(title, runs, *more)

    def judged(results: Sequence[Any]) -> int:
        found.update({result.title: result.ratio for result in results if not getattr(result, "not_run", "")})
        return int(verdict(results))

    reporting.show, reporting.verdict = shown, judged
    _listen_to_curves(found)


def _listen_to_curves(found: dict[str, float]) -> None:
    """Note the points of curves, where the measured commit has curves."""
    try:
        showing: Any = importlib.import_module("benchmarks.growth.showing")
    except ModuleNotFoundError:
        return
    show = showing.show

    def shown(bench: object, curves: Sequence[Any]) -> object:
        for curve in curves:
            name = f"{curve.title}: {curve.line.name}, {curve.x}"
            found.update({f"{name} {point.x:,}": point.figure for point in curve.points})
        return show(bench, curves)

    showing.show = shown


def _measured(title: str, runs: Mapping[str, Sequence[Any]]) -> dict[str, float]:
    return {
        f"{title}: {name}, {figure}": statistics.median(map(of, measured))
        for name, measured in runs.items()
        for figure, of in FIGURES.items()
    }


if __name__ == "__main__":
    main()
