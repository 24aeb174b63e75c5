"""The upgrades of a saga's state: which of them lead a row of an older version to the newest.

Invariant: no row is read as a version that it is not: a version without an upgrade only adds fields, and one that an
upgrade passes over has an upgrade of its own.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from rowbus.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

Upgrade = Callable[[dict[str, Any]], dict[str, Any]]
"""Turns the state of one version, as decoded JSON with Decimal numbers, into that of a later one."""


class Step(NamedTuple):
    """An upgrade, and from which version to which it leads."""

    start: int
    end: int
    upgrade: Upgrade

    @property
    def name(self) -> str:
        """The upgrade as it is declared."""
        return f"upgrade({self.start}, {self.end})"


def way(steps: Sequence[Step], version: int) -> Iterator[Step]:
    """Go through the steps that lead from a version to the newest, in their order.

    A version without a step differs from the next by fields with defaults, so the first step that begins later applies.
    """
    while later := [step for step in steps if step.start >= version]:
        step = min(later)
        yield step
        version = step.end


def check_steps(kind: type, version: int, steps: Sequence[Step]) -> None:
    """Raise ConfigurationError for steps to nowhere, and for rows that have no sound way to this version."""
    starts = {step.start for step in steps}
    if len(starts) < len(steps):
        raise ConfigurationError(
            f"{', '.join(step.name for step in steps)} of {kind.__name__}: two begin at the same version."
        )
    for step in steps:
        if not step.start < step.end <= version:
            raise ConfigurationError(
                f"{step.name} of {kind.__name__}: it must lead to a later version, at most {version}."
            )
        _check_passed_over(kind, step, starts)


def _check_passed_over(kind: type, step: Step, starts: set[int]) -> None:
    """Raise ConfigurationError if rows of a version between the two of a step would be read as they are."""
    last = step.end - 1
    if last not in starts:
        raise ConfigurationError(
            f"{step.name} of {kind.__name__} passes over version {last}, whose rows have no way to {step.end}: declare "
            f"upgrade({last}, {step.end}) as well."
        )
