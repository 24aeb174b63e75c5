"""Counters, gauges and histograms of this process, each with a value for each set of labels; as text, for Prometheus.

A note costs a dictionary's look-up and an addition. Several threads may note, as batches of `def` handlers do: the
interpreter switches between threads at calls and loops, and an addition has neither.

Source: the text-based exposition format 0.0.4 (Prometheus's documentation, "Exposition formats").

Invariants: a family never has more than `MOST` series; what would be another one is counted under `other`; a name from
a message stays within its quotes.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

MOST: Final = 200  # series of a family
OTHER: Final = "other"

SECONDS: Final = (0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0)
"""The buckets that OpenTelemetry's conventions for messaging advise."""

LONG_SECONDS: Final = (*SECONDS, 30.0, 60.0, 300.0, 900.0, 3600.0, 14400.0, 86400.0)
"""Buckets for what includes waiting: a message may be days old."""

Labels = tuple[str, ...]


class Sample(NamedTuple):
    """One value: what follows the family's name, the labels, and the number."""

    suffix: str
    labels: tuple[tuple[str, str], ...]
    value: float


class Family(Protocol):
    """Series of one name."""

    name: str
    help: str
    kind: str

    def samples(self) -> Iterator[Sample]:
        """Give all values, as they are now."""
        raise NotImplementedError


class _Series:
    """The common part of counters and histograms: their name, their labels, and that they are bounded."""

    def __init__(self, name: str, help: str, labels: Labels = ()) -> None:  # noqa: A002 - the format's word
        """Begin without values."""
        self.name = name
        self.help = help
        self.labels = labels

    def _within(self, known: int, values: Labels) -> Labels:
        """Return the labels under which new values are counted: the last one becomes `other` when there are many."""
        return (*values[:-1], OTHER) if known >= MOST and values else values

    def _pairs(self, values: Labels) -> tuple[tuple[str, str], ...]:
        return tuple(zip(self.labels, values, strict=True))


class Gauge(_Series):
    """A value that goes up and down."""

    kind = "gauge"

    def __init__(self, name: str, help: str, labels: Labels = ()) -> None:  # noqa: A002 - as above
        """Begin without values."""
        super().__init__(name, help, labels)
        self.values: dict[Labels, float] = {}

    def add(self, values: Labels = (), amount: float = 1) -> None:
        """Add to a series."""
        self.values[self.begun(values)] += amount

    def set(self, value: float, values: Labels = ()) -> None:
        """Replace the value of a series."""
        self.values[self.begun(values)] = value

    def begun(self, values: Labels = ()) -> Labels:
        """Begin a series at 0 if there is none, and return its key in `values`."""
        if values not in self.values:
            values = self._within(len(self.values), values)
            self.values.setdefault(values, 0)
        return values

    def samples(self) -> Iterator[Sample]:
        """Give all values, as they are now."""
        for values, value in list(self.values.items()):
            yield Sample("", self._pairs(values), value)


class Counter(Gauge):
    """A value that only grows, until the process ends."""

    kind = "counter"

    def samples(self) -> Iterator[Sample]:
        """Give all values, as they are now."""
        for sample in super().samples():
            yield sample._replace(suffix="_total")


class Histogram(_Series):
    """The number of times that a measured value was in each range."""

    kind = "histogram"

    def __init__(
        self,
        name: str,
        help: str,  # noqa: A002 - as above
        labels: Labels = (),
        *,
        bounds: tuple[float, ...] = SECONDS,
    ) -> None:
        """Take the upper bounds of the buckets, ascending; there is one more, for all above."""
        super().__init__(name, help, labels)
        self.bounds = bounds
        self.told: Callable[[float, Labels], None] | None = None
        self._counts: dict[Labels, list[int]] = {}
        self._sums: dict[Labels, float] = {}
        self._observers: dict[Labels, Callable[[float], None]] = {}

    def observe(self, value: float, values: Labels = ()) -> None:
        """Count one value."""
        self.observer(values)(value)

    def observer(self, values: Labels = ()) -> Callable[[float], None]:
        """Return what counts the values of one series."""
        observe = self._observers.get(values)
        if observe is None:
            values = self._within(len(self._counts), values)
            observe = self._observers.setdefault(values, self._begun(values))
        return observe

    def _begun(self, values: Labels) -> Callable[[float], None]:
        bounds, sums = self.bounds, self._sums
        counts = self._counts.setdefault(values, [0] * (len(bounds) + 1))
        sums.setdefault(values, 0.0)

        def observe(value: float) -> None:
            counts[bisect_left(bounds, value)] += 1
            sums[values] += value
            if self.told is not None:
                self.told(value, values)

        return observe

    def samples(self) -> Iterator[Sample]:
        """Give all values, as they are now; buckets count what is in the lower ones, too."""
        for values, counts in list(self._counts.items()):
            labels, below = self._pairs(values), 0
            for bound, count in zip((*map(str, self.bounds), "+Inf"), counts, strict=True):
                below += count
                yield Sample("_bucket", (*labels, ("le", bound)), below)
            yield Sample("_sum", labels, self._sums[values])
            yield Sample("_count", labels, below)


CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
LONGEST_VALUE: Final = 200  # characters of a label's value

_SAMPLE: Final = re.compile(r"(?P<name>[a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{(?P<labels>.*)\})? (?P<value>\S+)")


def exposition(families: Iterable[Family]) -> str:
    """Return the text; families without values are left out."""
    return "".join(line for family in families for line in _lines(family))


def _lines(family: Family) -> Iterator[str]:
    samples = list(family.samples())
    if not samples:
        return
    name = family.name + ("_total" if family.kind == "counter" else "")
    yield f"# HELP {name} {_help(family.help)}\n# TYPE {name} {family.kind}\n"
    for sample in samples:
        yield _line(family.name, sample)


def _line(name: str, sample: Sample) -> str:
    labels = ",".join(
        f'{label}="{_escaped(value)}"'
        for label, value in sample.labels
        if value  # to Prometheus the same as none
    )
    return f"{name}{sample.suffix}{f'{{{labels}}}' if labels else ''} {_number(sample.value)}\n"


def _number(value: float) -> str:
    return str(int(value)) if value == int(value) else repr(value)


def _escaped(value: str) -> str:
    cut = value if len(value) <= LONGEST_VALUE else f"{value[: LONGEST_VALUE - 1]}…"
    safe = cut.encode("utf-8", "replace").decode()
    return safe.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")


def _help(text: str) -> str:
    return text.replace("\\", r"\\").replace("\n", r"\n")


def merged(texts: Iterable[tuple[str, str]], label: str) -> str:
    """Return several texts as one, each sample with a label more, whose value stands before its text.

    A family stands together, as the format wants it, and is described once.
    """
    described: dict[str, str] = {}
    samples: dict[str, list[str]] = {}
    for value, text in texts:
        family = ""
        for line in text.splitlines():
            if line.startswith("# HELP "):
                family = line.split(" ", 3)[2]
                samples.setdefault(family, [])
                described.setdefault(family, f"{line}\n")
            elif line.startswith("# TYPE "):
                described[family] += "" if "# TYPE" in described[family] else f"{line}\n"
            elif found := _SAMPLE.fullmatch(line):
                samples.setdefault(family, []).append(_with_label(found, label, value))
    return "".join(described.get(family, "") + "".join(lines) for family, lines in samples.items())


def _with_label(found: re.Match[str], label: str, value: str) -> str:
    labels = ",".join(filter(None, (found["labels"], f'{label}="{_escaped(value)}"')))
    return f"{found['name']}{{{labels}}} {found['value']}\n"
