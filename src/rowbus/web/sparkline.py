"""Sparklines: the last hour of a figure as a small SVG, written by the server, with its story for who cannot see it.

Invariant: pure; nothing but numbers and our own words gets into the markup.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import groupby
from typing import Final

from markupsafe import Markup

WIDTH: Final = 120
HEIGHT: Final = 24
_PAD: Final = 2


def sparkline(
    values: Sequence[float | None], what: str, write: Callable[[float | None], object] = str
) -> Markup:
    """Draw values at equal distances, from zero up; None is a gap. `write` writes one for the story."""
    known = [value for value in values if value is not None]
    if not known:
        return Markup('<span class="faint">&ndash;</span>')
    story = (
        f"{what} in the last hour: from {write(min(known))} to {write(max(known))}, now {write(known[-1])}"
    )
    return Markup(
        '<svg class="spark" viewBox="0 0 {w} {h}" width="{w}" height="{h}" role="img" aria-label="{story}">'
        "<title>{story}</title>{runs}</svg>"
    ).format(w=WIDTH, h=HEIGHT, story=story, runs=Markup("").join(map(_run, _runs(values, max(known)))))


Point = tuple[float, float]


def _runs(values: Sequence[float | None], highest: float) -> list[list[Point]]:
    """Return the points of each run of values without a gap."""
    step = WIDTH / max(len(values) - 1, 1)
    room = HEIGHT - 2 * _PAD
    points = [
        None if value is None else (position * step, HEIGHT - _PAD - room * value / (highest or 1))
        for position, value in enumerate(values)
    ]
    grouped = groupby(points, key=lambda point: point is None)
    return [[point for point in run if point is not None] for is_gap, run in grouped if not is_gap]


def _run(points: list[Point]) -> Markup:
    if len(points) == 1:
        x, y = points[0]
        return Markup('<circle cx="{:.1f}" cy="{:.1f}" r="1.6"/>').format(min(x, WIDTH - _PAD), y)
    line = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    left, right = points[0][0], points[-1][0]
    return Markup('<polygon points="{:.1f},{h} {} {:.1f},{h}"/><polyline points="{}"/>').format(
        left, line, right, line, h=HEIGHT
    )
