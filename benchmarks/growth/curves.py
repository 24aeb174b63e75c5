"""Curves: figures at growing sizes, shares of their first or best point, and what a target says of them.

Invariant: everything here is a function of the measured figures; what measures is elsewhere.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from typing import Literal, NamedTuple

from benchmarks.reporting import Result

Figures = Mapping[str, float]
"""Figures of one measurement, by the key of its line."""


class Share(NamedTuple):
    """The least that the worst or last point may be of the first or best one; a cost that doubles is a share of 0.5."""

    least: float
    of: Literal["first", "best"] = "first"
    point: Literal["worst", "last"] = "worst"


class Most(NamedTuple):
    """The most that a figure may be, at sizes up to `up_to`."""

    most: float
    up_to: float = math.inf


class Line(NamedTuple):
    """A figure's meaning and its target, where any is given."""

    name: str
    unit: str
    target: Share | Most | None = None
    more_is_better: bool = False


class Point(NamedTuple):
    """A size, and the figure there."""

    x: int
    figure: float


class Curve(NamedTuple):
    """One figure at growing sizes, smallest first; `x` says what grows, and the picture's file is named for `key`."""

    title: str
    key: str
    x: str
    line: Line
    points: tuple[Point, ...]


def curves(title: str, x: str, lines: Mapping[str, Line], found: Mapping[int, Figures]) -> list[Curve]:
    """Make a curve of each line of what was found at each size."""
    return [
        Curve(title, key, x, line, tuple(Point(size, found[size][key]) for size in sorted(found)))
        for key, line in lines.items()
    ]


def shares(curve: Curve) -> list[float]:
    """Return how good each point is against the one that the target names: 1 is as good, less is worse."""
    base = base_of(curve)
    return [_quotient(point, base, more_is_better=curve.line.more_is_better) for point in curve.points]


def judge(curve: Curve) -> Result | None:
    """Hold the worst point to the target; None where there is none."""
    target, title = curve.line.target, f"{curve.title}: {curve.line.name}"
    if isinstance(target, Most):
        worst = max(point.figure for point in curve.points if point.x <= target.up_to)
        return Result(title, worst, target.most, curve.line.unit and f" {curve.line.unit}", at_most=True)
    if isinstance(target, Share):
        counted = shares(curve)[
            curve.points.index(base_of(curve)) :
        ]  # fewer than the best need not be as good
        share = min(counted) if target.point == "worst" else counted[-1]
        return Result(f"{title}, {target.point} point against the {target.of}", share, target.least)
    return None


def medians(samples: Sequence[Figures]) -> Figures:
    """Return the median of each figure."""
    return {key: statistics.median(sample[key] for sample in samples) for key in samples[0]}


def sample(sizes: Sequence[int], measure: Callable[[int], Figures], rounds: int) -> dict[int, Figures]:
    """Measure at all sizes, so many rounds, up and down in turn; a cold measurement goes before and does not count."""
    measure(sizes[0])
    found: dict[int, list[Figures]] = {size: [] for size in sizes}
    for number in range(rounds):
        for size in sizes if number % 2 == 0 else reversed(sizes):
            found[size].append(measure(size))
    return {size: medians(samples) for size, samples in found.items()}


def sample_growing(
    sizes: Sequence[int], grow: Callable[[int], None], measure: Callable[[], Figures], rounds: int
) -> dict[int, Figures]:
    """Let something grow from size to size, and measure so many rounds at each, after a cold one."""
    found: dict[int, Figures] = {}
    for size in sizes:
        grow(size)
        measure()
        found[size] = medians([measure() for _ in range(rounds)])
    return found


def decades(least: int, most: int, *, step: int = 10) -> list[int]:
    """Return sizes from `least` to `most`, each `step` times the one before; always two or more."""
    sizes = [most]
    while sizes[0] // step >= least:
        sizes.insert(0, max(1, sizes[0] // step))
        if sizes[0] == 1:
            break
    return sizes if len(sizes) > 1 else [max(1, most // step), most]


def ladder(numbers: Sequence[int], most: float) -> list[int]:
    """Return those of the numbers that are at most so many; the first two in any case."""
    first, second, *more = numbers
    return [first, second, *(number for number in more if number <= most)]


def base_of(curve: Curve) -> Point:
    """Return the point that the others are shares of."""
    if isinstance(curve.line.target, Share) and curve.line.target.of == "best":
        best = max if curve.line.more_is_better else min
        return best(curve.points, key=lambda point: point.figure)
    return curve.points[0]


def _quotient(point: Point, base: Point, *, more_is_better: bool) -> float:
    over, under = (point, base) if more_is_better else (base, point)
    return over.figure / under.figure if under.figure else 1.0
