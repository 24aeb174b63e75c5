"""The plots of the report, as SVG that needs nothing else: stacked bars over time, and ranges on a logarithmic axis.

Colours are CSS variables of the page, so that they suit light and dark. Each bar says what it is when pointed at.

Invariant: every text goes through `report_html.tag`, so that no message's content becomes markup.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final, NamedTuple

from rowbus.spark.pipelines.report.html import Html, tag
from rowbus.spark.pipelines.report.units import count, count_marks, decades, span, time_marks

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

COLOURS: Final = 7  # kinds with a colour of their own; the rest are one more
OTHERS: Final = "others"

_WIDTH, _HEIGHT = 960, 210
_LEFT, _RIGHT, _TOP, _BOTTOM = 56, 8, 10, 26
_RANGE_WIDTH, _RANGE_HEIGHT = 320, 18


class Count(NamedTuple):
    """How many of a kind there were in the span of so many seconds that begins then."""

    start: datetime
    seconds: int
    kind: str
    number: int


class Kinds:
    """The colours of kinds, the same in all plots: the most frequent have one each."""

    def __init__(self, counts: Sequence[Count]) -> None:
        """Rank the kinds by how many there were."""
        totals: Counter[str] = Counter()
        for each in counts:
            totals[each.kind] += each.number
        ranked = sorted(totals, key=lambda kind: (-totals[kind], kind))
        self._names = ranked[:COLOURS]
        self._places = {kind: place for place, kind in enumerate(self._names)}
        if rest := len(ranked[COLOURS:]):
            self._names.append(f"{rest} {OTHERS}")

    def place(self, kind: str) -> int:
        """Return the number of a kind's colour."""
        return self._places.get(kind, COLOURS)

    def name(self, place: int) -> str:
        """Return what has a colour."""
        return self._names[place]

    def legend(self) -> Html:
        """Return the list of kinds with their colours."""
        items = [tag("li", tag("i", class_=f"c{place}"), name) for place, name in enumerate(self._names)]
        return tag("ul", items, class_="legend")


class Axis(NamedTuple):
    """The time that a plot shows, and the seconds of one bar."""

    begin: datetime
    end: datetime
    bucket: int

    @classmethod
    def around(cls, begin: datetime, end: datetime, bucket: int) -> Axis:
        """Return the axis of whole buckets that hold both moments."""
        first = math.floor(begin.timestamp() / bucket) * bucket
        last = (math.floor(end.timestamp() / bucket) + 1) * bucket
        return cls(
            datetime.fromtimestamp(first, begin.tzinfo), datetime.fromtimestamp(last, begin.tzinfo), bucket
        )

    def x(self, at: datetime) -> float:
        """Return where a moment is."""
        share = (at - self.begin) / (self.end - self.begin)
        return _LEFT + share * (_WIDTH - _LEFT - _RIGHT)

    def holds(self, start: datetime) -> bool:
        """Tell whether a bar is on it."""
        return self.begin <= start < self.end


def stacked_bars(title: str, counts: Sequence[Count], kinds: Kinds, axis: Axis) -> Html:
    """Return bars over time, the kinds on top of each other, the most frequent at the bottom."""
    stacks: dict[datetime, Counter[int]] = defaultdict(Counter)
    for each in counts:
        if axis.holds(each.start):
            stacks[each.start][kinds.place(each.kind)] += each.number
    marks = count_marks(max((stack.total() for stack in stacks.values()), default=0))
    scale = (_HEIGHT - _TOP - _BOTTOM) / marks[-1]
    bars = [bar for at, stack in stacks.items() for bar in _stack(at, stack, kinds, axis, scale)]
    parts = (tag("title", title), _lines(marks, scale), bars, _times(axis))
    return tag(
        "svg",
        *parts,
        viewbox=f"0 0 {_WIDTH} {_HEIGHT}",
        role="img",
        aria_label=title,
        class_="plot",
    )


def _stack(start: datetime, stack: Mapping[int, int], kinds: Kinds, axis: Axis, scale: float) -> list[Html]:
    left = axis.x(start)
    width = axis.x(start + timedelta(seconds=axis.bucket)) - left
    gap = min(1.0, width / 6)
    bars: list[Html] = []
    top = float(_HEIGHT - _BOTTOM)
    for place, number in sorted(stack.items()):
        height = number * scale
        top -= height
        told = f"{kinds.name(place)}: {count(number)} at {start:%Y-%m-%d %H:%M:%S}"
        bars.append(_bar(told, f"c{place}", left=left + gap / 2, top=top, width=width - gap, height=height))
    return bars


def _bar(told: str, kind: str, *, left: float, top: float, width: float, height: float) -> Html:
    return tag(
        "rect",
        tag("title", told),
        x=f"{left:.1f}",
        y=f"{top:.1f}",
        width=f"{max(width, 0.5):.1f}",
        height=f"{height:.1f}",
        class_=kind,
    )


def _lines(marks: Sequence[int], scale: float) -> list[Html]:
    found: list[Html] = []
    for mark in marks:
        y = f"{_HEIGHT - _BOTTOM - mark * scale:.1f}"
        found.append(
            tag("line", x1=_LEFT, x2=_WIDTH - _RIGHT, y1=y, y2=y, class_="axis" if mark == 0 else "grid")
        )
        found.append(tag("text", count(mark), x=_LEFT - 8, y=y, dy="0.32em", text_anchor="end"))
    return found


def _times(axis: Axis) -> list[Html]:
    return [
        tag("text", text, x=f"{axis.x(at):.1f}", y=_HEIGHT - 8, text_anchor="middle")
        for at, text in time_marks(axis.begin, axis.end)
        if _LEFT + 10 < axis.x(at) < _WIDTH - _RIGHT - 10
    ]


class Ranges:
    """Latencies as ranges on one logarithmic axis: a bar from the median to 99 %, a mark at 95 %, a dot at the most."""

    def __init__(self, rows: Sequence[Mapping[str, float | None]]) -> None:
        """Choose the axis that holds all rows."""
        self._low, self._high = decades(value for row in rows for value in (row["p50"], row["most"]))

    def axis(self) -> Html:
        """Return the axis: a label for each decade, or each second one where there are many."""
        step = 1 if self._high - self._low <= 5 else 2  # noqa: PLR2004 - labels that fit
        labels = [
            tag(
                "text",
                span(10.0**power),
                x=f"{self._x(10.0**power):.1f}",
                y=12,
                text_anchor=self._anchor(power),
            )
            for power in range(self._low, self._high + 1, step)
        ]
        return self._svg(labels, "logarithmic axis")

    def bar(self, row: Mapping[str, float | None]) -> Html:
        """Return one row's range."""
        p50, p95, p99, most = (self._x(row[name] or 0.0) for name in ("p50", "p95", "p99", "most"))
        told = ", ".join(f"{name} {span(row[name])}" for name in ("p50", "p90", "p95", "p99", "most"))
        middle = _RANGE_HEIGHT / 2
        return self._svg(
            [
                tag("title", told),
                *self._grid(),
                tag("line", x1=f"{p50:.1f}", x2=f"{most:.1f}", y1=middle, y2=middle, class_="whisker"),
                tag(
                    "rect",
                    x=f"{p50:.1f}",
                    y=4,
                    width=f"{max(p99 - p50, 2):.1f}",
                    height=10,
                    rx=2,
                    class_="range",
                ),
                tag("rect", x=f"{p95 - 1:.1f}", y=4, width=2, height=10, class_="mark"),
                tag("rect", x=f"{p50 - 1:.1f}", y=1, width=3, height=16, class_="median"),
                tag("circle", cx=f"{most:.1f}", cy=middle, r=2.5, class_="most"),
            ],
            told,
        )

    def _grid(self) -> list[Html]:
        places = (f"{self._x(10.0**power):.1f}" for power in range(self._low, self._high + 1))
        return [tag("line", x1=x, x2=x, y1=0, y2=_RANGE_HEIGHT, class_="grid") for x in places]

    def _anchor(self, power: int) -> str:
        return {self._low: "start", self._high: "end"}.get(power, "middle")

    def _x(self, seconds: float) -> float:
        power = math.log10(seconds) if seconds > 0 else self._low
        share = (max(power, self._low) - self._low) / (self._high - self._low)
        return 4 + share * (_RANGE_WIDTH - 8)

    def _svg(self, parts: list[Html], label: str) -> Html:
        return tag(
            "svg",
            parts,
            viewbox=f"0 0 {_RANGE_WIDTH} {_RANGE_HEIGHT}",
            width=_RANGE_WIDTH,
            height=_RANGE_HEIGHT,
            role="img",
            aria_label=label,
            class_="ranges",
        )
