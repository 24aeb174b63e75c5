"""The charts of the report, as SVG that stands in a page, and its templates, in which a message is text.

The specifications are the files in `charts/`; the data and the values of parameters are set here. Colours are CSS
variables of the page, so that one chart suits light and dark. Each mark says what it is when pointed at.

Invariants: the same data gives the same SVG, no request is made, and what messages say is text; every value is made
printable and escaped, unless it is `Markup` that our own code made.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Mapping
from datetime import datetime, timedelta
from importlib.resources import files
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import vl_convert
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from rowbus.errors.strangers import printable_lines
from rowbus.spark.pipelines.report.text import count, moment, size, span

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

FILTERS: Final = {"count": count, "moment": moment, "size": size, "span": span}


def render(template: str, values: Mapping[str, object]) -> str:
    """Return a template of `templates/` with these values."""
    return environment().get_template(template).render(values)


def environment() -> Environment:
    """Return what templates are rendered with."""
    made = Environment(
        loader=PackageLoader("rowbus.spark.pipelines.report"),
        autoescape=True,
        finalize=_printable_text,
        keep_trailing_newline=True,
        lstrip_blocks=True,
        trim_blocks=True,
        undefined=StrictUndefined,
    )
    made.filters.update(FILTERS)
    return made


def shown(text: str) -> str:
    """Return text with unprintable characters escaped as in Python: nothing may reorder or hide what is on the page."""
    return printable_lines(text.replace("\t", "    ").replace("\r\n", "\n"))


def _printable_text(value: object) -> object:
    if value is None:
        return ""
    return shown(value) if isinstance(value, str) and not isinstance(value, Markup) else value


COLOURS: Final = 7  # kinds with a colour of their own; the rest share one more
VEGA_LITE: Final = "6.4"  # the grammar's version that the files are written in

_ROOT: Final = re.compile(r'\A<svg [^>]*(viewBox="[^"]*")>')
_MARK: Final = re.compile(r'<(path|line) aria-label="([^"<>]*)"( role="graphics-symbol"[^<>]*)/>')
_SPREAD: Final = ("p50", "p90", "p95", "p99", "most")


class Count(NamedTuple):
    """The number of things of a kind in the bucket of `seconds` that begins at `start`."""

    start: datetime
    seconds: int
    kind: str
    number: int


class Kinds:
    """The colours of kinds, the same in all charts: the most frequent have one each."""

    def __init__(self, counts: Iterable[Count]) -> None:
        """Rank the kinds by their numbers."""
        totals: Counter[str] = Counter()
        for each in counts:
            totals[each.kind] += each.number
        ranked = sorted(totals, key=lambda kind: (-totals[kind], kind))
        rest = ranked[COLOURS:]
        self.names = [*ranked[:COLOURS], *([f"{len(rest)} others"] if rest else [])]
        self._places = {kind: place for place, kind in enumerate(ranked[:COLOURS])}

    def place(self, kind: str) -> int:
        """Return the number of a kind's colour."""
        return self._places.get(kind, COLOURS)


class Axis(NamedTuple):
    """The time that a chart shows, and the seconds of one bar."""

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

    def holds(self, start: datetime) -> bool:
        """Tell whether a bar is on the axis."""
        return self.begin <= start < self.end


def stacked_bars(title: str, counts: Iterable[Count], kinds: Kinds, axis: Axis) -> Markup:
    """Return bars over time, the kinds on top of each other, the most frequent at the bottom."""
    bucket = timedelta(seconds=axis.bucket)
    values = [
        {
            "begin": _milliseconds(each.start),
            "end": _milliseconds(each.start + bucket),
            "place": kinds.place(each.kind),
            "name": kinds.names[kinds.place(each.kind)],
            "number": each.number,
        }
        for each in counts
        if axis.holds(each.start)
    ]
    first, last = _milliseconds(axis.begin), _milliseconds(axis.end)
    bars = (axis.end - axis.begin) / bucket
    return draw("stacked_bars", title, values, first=first, last=last, bars=bars)


def ranges(title: str, rows: Sequence[Mapping[str, Any]], names: Sequence[str]) -> Markup:
    """Return latencies on a logarithmic axis: a bar from the median to 99 %, a mark at 95 %, a dot at the longest.

    `names` are the columns that together name a row. What is zero or negative is drawn at the low end.
    """
    low, high = decades(row[end] for row in rows for end in ("p50", "most"))
    values = [
        {name: max(row[name] or 0.0, 10.0**low) for name in _SPREAD}
        | {
            "name": " · ".join(str(row[name]) for name in names),
            "told": ", ".join(f"{name} {span(row[name])}" for name in _SPREAD),
        }
        for row in rows
    ]
    marks = [10.0**power for power in range(low, high + 1)]
    return draw("ranges", title, values, decades=marks, labels=list(map(span, marks)))


def decades(values: Iterable[float | None]) -> tuple[int, int]:
    """Return the powers of ten that hold all positive values; at least one decade."""
    logs = [math.log10(value) for value in values if value and value > 0]
    low, high = math.floor(min(logs, default=-3)), math.ceil(max(logs, default=0))
    return low, max(high, low + 1)


def draw(chart: str, title: str, values: Sequence[Mapping[str, Any]], **parameters: object) -> Markup:
    """Return a chart of `charts/` as an SVG element with these rows and values of its parameters."""
    specification = json.loads(
        files("rowbus.spark.pipelines.report").joinpath("charts", f"{chart}.json").read_text("utf-8")
    )
    declared = {each["name"]: each for each in specification["params"]}
    given = {name: {"name": name, "value": value} for name, value in parameters.items()}
    specification["params"] = list((declared | given).values())
    specification["data"] = {"values": [_printable(row) for row in values]}
    svg = vl_convert.vegalite_to_svg(specification, vl_version=VEGA_LITE, allowed_base_urls=[])
    return _for_page(svg, title)


def _for_page(svg: str, title: str) -> Markup:
    """Give the chart its title and each mark its own, which browsers show; drop the fixed size."""
    root = Markup('<svg class="plot" role="img" aria-label="{0}" {1}><title>{0}</title>')
    titled = _MARK.sub(r"<\1\3><title>\2</title></\1>", svg)
    # Vega escapes the values; what stands before and between them is its own.
    return Markup(_ROOT.sub(lambda found: root.format(shown(title), Markup(found[1])), titled, count=1))  # noqa: S704


def _printable(row: Mapping[str, Any]) -> dict[str, Any]:
    return {key: shown(value) if isinstance(value, str) else value for key, value in row.items()}


def _milliseconds(at: datetime) -> float:
    return at.timestamp() * 1000
