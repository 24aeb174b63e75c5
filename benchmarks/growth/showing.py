"""Curves as tables, as pictures where a folder for them is given, and as results.

Invariant: a curve without a target is shown, and gives no result.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from rich.table import Table

from benchmarks.growth.curves import Curve, Share, judge, shares
from benchmarks.growth.pictures import draw
from benchmarks.reporting import Bench, Result, console


def show(bench: Bench, found: Sequence[Curve]) -> list[Result]:
    """Print the points of each curve, draw it if pictures are wanted, and judge it."""
    for curve in found:
        console.print(_table(curve))
        if bench.pictures is not None:
            console.print(f"drawn: {draw(curve, bench.pictures)}")
    return [result for result in map(judge, found) if result is not None]


def _table(curve: Curve) -> Table:
    target = curve.line.target
    of = target.of if isinstance(target, Share) else "first"
    table = Table(title=f"{curve.title}: {curve.line.name}", title_justify="left")
    for column in (curve.x, curve.line.unit or curve.line.name, f"against the {of}"):
        table.add_column(column, justify="right")
    for point, share in zip(curve.points, shares(curve), strict=True):
        table.add_row(f"{point.x:,}", _text(point.figure), f"{share:.2f}")
    return table


def _text(figure: float) -> str:
    """Write three digits or more, and no powers of ten."""
    decimals = max(0, 2 - math.floor(math.log10(figure))) if figure > 0 else 0
    return f"{figure:,.{decimals}f}"
