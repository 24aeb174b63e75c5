"""Limits of each flow: how far it may walk, and how far it should.

A ceiling is what was counted last, and is lowered whenever a flow becomes shorter: no change may make one longer. A
target is what is wanted. Where none is given it is the ceiling: that walk is not to grow, and nobody asks for less yet.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple


class Limit(NamedTuple):
    """A count's limits: what it may be, and what it should be."""

    ceiling: int
    wanted: int | None = None

    @property
    def target(self) -> int:
        """The wanted value, or the ceiling where none is wanted."""
        return self.ceiling if self.wanted is None else self.wanted


class Counts(NamedTuple):
    """Counts of a walk."""

    files: int
    functions: int
    changes: int


class Limits(NamedTuple):
    """The limits of a flow, in the order of its counts."""

    files: Limit
    functions: Limit
    changes: Limit


LIMITS = {
    "send": Limits(Limit(35), Limit(200, 150), Limit(331)),
    "fail": Limits(Limit(45), Limit(250), Limit(945)),
    "delayed": Limits(Limit(28), Limit(120), Limit(160)),
    "event": Limits(Limit(34), Limit(182), Limit(286)),
    "sink": Limits(Limit(19, 18), Limit(123), Limit(234, 232)),
    "lake": Limits(Limit(40), Limit(344, 305), Limit(634, 626)),
    "retry": Limits(Limit(32, 26), Limit(173, 108), Limit(310, 176)),
}


def table(walked: Mapping[str, Counts]) -> Iterator[str]:
    """Give the lines of a table: of each flow what was counted, beside its target."""
    yield f"{'flow':<10}{'files':<12}{'functions':<14}changes of file"
    for flow, counts in walked.items():
        files, functions, changes = (
            f"{count} of {limit.target}" for count, limit in zip(counts, LIMITS[flow], strict=True)
        )
        yield f"{flow:<10}{files:<12}{functions:<14}{changes}"


def differences(walked: Mapping[str, Counts]) -> Iterator[tuple[str, bool]]:
    """Say what differs from the ceilings, and whether it is more."""
    for flow, counts in walked.items():
        for what, count, limit in zip(Counts._fields, counts, LIMITS[flow], strict=True):
            if count != limit.ceiling:
                yield f"{flow}: {what} {count}, ceiling {limit.ceiling}", count > limit.ceiling
