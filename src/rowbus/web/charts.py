"""Charts: sparklines of the last hour, and the history of hours and weeks, as SVG.

Invariants: nothing but numbers, our own words and printable names gets into the markup of a chart; what was not
measured is a gap, and a series without a value is not drawn; two lines of a chart differ in more than their colour.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from datetime import timedelta
from itertools import groupby
from typing import TYPE_CHECKING, Final, NamedTuple

from markupsafe import Markup

from rowbus.errors.strangers import printable
from rowbus.transport.history.table import HANDLERS, Point, Series, Span
from rowbus.transport.history.teller import quantile
from rowbus.transport.queues.diagnosis import duration
from rowbus.web.sampling import sampler

if TYPE_CHECKING:
    from rowbus.log.diagnosis import ConsumerState
    from rowbus.messages.address import QueueAddress
    from rowbus.web.sampling.sampler import Past
    from rowbus.web.visit import Visit

Values = Sequence[float | None]
Write = Callable[[float], str]


class Frame(NamedTuple):
    """The room of a drawing."""

    width: int
    height: int


SPARK: Final = Frame(120, 24)
CHART: Final = Frame(720, 96)
_PAD: Final = 2
ENOUGH: Final = 100  # from here on numbers are written without a fraction


def sparkline(values: Values, what: str, write: Callable[[float | None], object] = str) -> Markup:
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
    ).format(w=SPARK.width, h=SPARK.height, story=printable(story), runs=_drawn(values, max(known), SPARK))


Place = tuple[float, float]


def _drawn(values: Values, highest: float, frame: Frame) -> Markup:
    return Markup("").join(_run(run, frame) for run in _runs(values, highest, frame))


def _runs(values: Values, highest: float, frame: Frame) -> list[list[Place]]:
    """Return the places of each run of values without a gap."""
    step = frame.width / max(len(values) - 1, 1)
    room = frame.height - 2 * _PAD
    places = [
        None if value is None else (position * step, frame.height - _PAD - room * value / (highest or 1))
        for position, value in enumerate(values)
    ]
    grouped = groupby(places, key=lambda place: place is None)
    return [[place for place in run if place is not None] for is_gap, run in grouped if not is_gap]


def _run(places: list[Place], frame: Frame) -> Markup:
    if len(places) == 1:
        x, y = places[0]
        return Markup('<circle cx="{:.1f}" cy="{:.1f}" r="1.6"/>').format(min(x, frame.width - _PAD), y)
    line = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
    left, right = places[0][0], places[-1][0]
    return Markup('<polygon points="{:.1f},{h} {} {:.1f},{h}"/><polyline points="{}"/>').format(
        left, line, right, line, h=frame.height
    )


def sparks(visit: Visit) -> Callable[..., Markup]:
    """Return what draws the last hour of a figure."""
    now, history = time.monotonic(), visit.site.sampler.history

    def spark(what: str, *key: object) -> Markup:
        return sparkline(history.series(key, now), what, lambda value: f"{value or 0:,.10g}")

    return spark


# ------------------------------------------------------------------------------------------- the history


class Range(NamedTuple):
    """The spans of the charts: as the address says them, and as people do."""

    word: str
    title: str
    span: Span

    @property
    def all(self) -> tuple[Range, ...]:
        """All that can be chosen."""
        return RANGES


RANGES: Final = (Range("", "6 hours", Span.HOURS), Range("days", "30 days", Span.DAYS))


def span_of(visit: Visit) -> Range:
    """Return how far back a visitor wants to see."""
    asked = visit.query.get("span", "")
    return next((one for one in RANGES if one.word == asked), RANGES[0])


class Line(NamedTuple):
    """One line of a chart."""

    name: str
    values: Values

    def told(self, write: Write) -> str:
        """Say what it shows."""
        known = [value for value in self.values if value is not None]
        return f"{self.name} {write(known[-1])}, at most {write(max(known))}"


class Chart(NamedTuple):
    """A drawing of one or two lines, of one unit; each has a value."""

    title: str
    lines: list[Line]
    write: Write

    def svg(self, wanted: Range) -> Markup:
        """Draw it."""
        highest = max(value for line in self.lines for value in line.values if value is not None)
        told = "; ".join(line.told(self.write) for line in self.lines)
        drawn = [
            Markup('<g class="{}">{}</g>').format(kind, _drawn(line.values, highest, CHART))
            for kind, line in zip(("first", "second"), self.lines, strict=False)
        ]
        return Markup(
            '<svg viewBox="0 0 {w} {h}" preserveAspectRatio="none" role="img" aria-label="{story}">{drawn}</svg>'
        ).format(
            w=CHART.width,
            h=CHART.height,
            story=printable(f"{self.title} in the last {wanted.title}: {told}"),
            drawn=Markup("").join(drawn),
        )


class Charts(NamedTuple):
    """The charts drawn, and why they are not all."""

    drawn: list[Chart]
    obstacle: str


def overview_charts(visit: Visit) -> Charts | None:
    """Return the charts of a whole database, as they were at the last note; None where no history is kept."""
    kept, span = visit.site.sampler.recorder, span_of(visit).span
    if kept is None:
        return None
    past = kept.overview.get(span, {})
    found = [
        _depths(past, sampler.ALL_QUEUES, "Waiting"),
        _rates(past, sampler.ALL_QUEUES, span),
        _depths(past, sampler.ALL_FAILED, "Failed messages"),
        *_handlers(past, Series(HANDLERS, "")),
        _lags(past, sampler.ALL_LOGS, "Log lag"),
    ]
    return Charts([chart for chart in found if chart is not None], kept.obstacle)


async def queue_charts(visit: Visit, address: QueueAddress) -> Charts | None:
    """Return the charts of a queue and its handlers; None where no history is kept."""
    name, span = str(address), span_of(visit).span
    queue = Series(sampler.QUEUE, name)

    def find(past: Past) -> list[Chart | None]:
        handlers = _handlers(past, Series(HANDLERS, name))
        return [_depths(past, queue, "Waiting"), _rates(past, queue, span), *handlers]

    return await _read(visit, [name], find)


async def consumer_charts(visit: Visit, consumers: Sequence[ConsumerState]) -> Charts | None:
    """Return the charts of a log's consumers; None where no history is kept."""
    names = {sampler.consumer_name(one.log, one.consumer): one.consumer for one in consumers}

    def find(past: Past) -> list[Chart | None]:
        return [
            chart
            for name, title in names.items()
            for chart in (
                _lags(past, Series(sampler.CONSUMER, name), f"Lag of {title}"),
                _depths(past, Series(sampler.CONSUMER, name), f"Events before {title}"),
            )
        ]

    return await _read(visit, list(names), find)


async def _read(visit: Visit, names: list[str], find: Callable[[Past], list[Chart | None]]) -> Charts | None:
    kept = visit.site.sampler.recorder
    if kept is None:
        return None
    past, unread = await visit.read(kept.read, names, span_of(visit).span)
    return Charts([chart for chart in find(past) if chart is not None], kept.obstacle or unread)


def _depths(past: Past, series: Series, title: str) -> Chart | None:
    return _chart(title, _number, {"now": _values(past, series, lambda point: point.depth)})


def _lags(past: Past, series: Series, title: str) -> Chart | None:
    return _chart(title, _seconds, {"now": _values(past, series, lambda point: point.lag)})


def _rates(past: Past, series: Series, span: Span) -> Chart | None:
    seconds = 60 * span.value

    def rate(count: int | None) -> float | None:
        return None if count is None else count / seconds

    return _chart(
        "Messages a second",
        _number,
        {
            "in": _values(past, series, lambda point: rate(point.entered)),
            "out": _values(past, series, lambda point: rate(point.taken)),
        },
    )


def _handlers(past: Past, series: Series) -> list[Chart | None]:
    """Return how long handlers took, and how often they failed."""

    def share(most: float) -> Values:
        return _values(past, series, lambda point: quantile(point.durations or (), most))

    return [
        _chart("Handling took", _seconds, {"p50": share(0.5), "p95": share(0.95)}),
        _chart("Attempts that failed", _number, {"now": _values(past, series, lambda point: point.failed)}),
    ]


def _values(past: Past, series: Series, value: Callable[[Point], float | None]) -> Values:
    return [None if point is None else value(point) for point in past.get(series, ())]


def _chart(title: str, write: Write, lines: dict[str, Values]) -> Chart | None:
    """Make a chart of the lines that have a value; None if none has."""
    found = [
        Line(name, values) for name, values in lines.items() if any(value is not None for value in values)
    ]
    return Chart(title, found, write) if found else None


def _seconds(value: float) -> str:
    return duration(timedelta(seconds=value)) if value >= 1 else f"{value * 1000:.3g} ms"


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= ENOUGH else f"{value:,.3g}"
