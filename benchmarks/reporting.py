"""Comparisons: their arguments and results, and how both are printed.

Invariant: whatever was asked for is in the verdict: met, missed, or not run and why.
"""

from __future__ import annotations

import statistics
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

from benchmarks.measuring import Measurement, Meter

console = Console()


class NotRunError(Exception):
    """Something this comparison is with is not installed here; the text says what, and how to get it."""


@dataclass(frozen=True, slots=True)
class Bench:
    """Arguments of a comparison."""

    dsn: str
    meter: Meter
    rounds: int
    scale: float
    pictures: Path | None = None
    """The folder for pictures of curves, if they are wanted."""

    def messages(self, count: int) -> int:
        """Return a number of messages, scaled."""
        return max(200, int(count * self.scale))


@dataclass(frozen=True, slots=True)
class Result:
    """A ratio and what it should be at least; or a figure with a unit, and what it should be at most."""

    title: str
    ratio: float
    target: float
    unit: str = ""
    at_most: bool = False
    not_run: str = ""

    @property
    def met(self) -> bool:
        """Whether the target is met; one that could not be measured is not missed."""
        if self.not_run:
            return True
        return self.ratio <= self.target if self.at_most else self.ratio >= self.target

    def row(self) -> tuple[str, str, str, str]:
        """Return how it is printed."""
        if self.not_run:
            return self.title, "", "", f"not run: {self.not_run}"
        target = f"{'≤' if self.at_most else '≥'} {self.target:g}{self.unit}"
        return self.title, f"{self.ratio:.2f}{self.unit}", target, "met" if self.met else "MISSED"


def show(title: str, results: dict[str, list[Measurement]], unit: str = "msg") -> None:
    """Print the medians of one comparison."""
    table = Table(title=title, title_justify="left")
    per = f"/{unit}"
    for column in ("side", f"{unit}/s", f"client CPU µs{per}", f"server CPU µs{per}", f"WAL bytes{per}"):
        table.add_column(column, justify="left" if column == "side" else "right")
    for name, runs in results.items():
        table.add_row(
            name,
            f"{statistics.median(run.rate for run in runs):,.0f}",
            f"{statistics.median(run.client_cpu / run.messages for run in runs) * 1e6:,.1f}",
            f"{statistics.median(run.server_cpu / run.messages for run in runs) * 1e6:,.1f}",
            f"{statistics.median(run.wal_bytes / run.messages for run in runs):,.0f}",
        )
    console.print(table)


def verdict(results: list[Result]) -> int:
    """Print all ratios beside their targets; 1 if one is missed."""
    table = Table(title="Ratios (median of the rounds)", title_justify="left")
    for column in ("comparison", "ratio", "target", ""):
        table.add_column(column, justify="right" if column in {"ratio", "target"} else "left")
    for result in results:
        table.add_row(*result.row())
    console.print(table)
    return 0 if all(result.met for result in results) else 1
