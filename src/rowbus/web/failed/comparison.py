"""Two attempts at a message beside each other: what is the same of them, and what is not.

Invariant: pure; a number that names no attempt means the one that is compared by default, the last or the one before.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from rowbus.transport.queues.diagnosis import duration

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rowbus.transport.recoverability.failed_message import PastAttempt


class Line(NamedTuple):
    """One thing that attempts have."""

    what: str
    first: str
    second: str

    @property
    def differs(self) -> bool:
        """Whether it is another than it was."""
        return self.first != self.second


class Comparison(NamedTuple):
    """Two attempts by their numbers, from 1; what they have, and how long it was from one to the other."""

    first: int
    second: int
    lines: list[Line]
    apart: str


def compared(attempts: Sequence[PastAttempt], asked: Mapping[str, str]) -> Comparison | None:
    """Compare the two attempts whose numbers are asked for as `first` and `second`; None where there is only one."""
    if len(attempts) <= 1:
        return None
    first = _number(asked.get("first", ""), len(attempts), len(attempts) - 1)
    second = _number(asked.get("second", ""), len(attempts), len(attempts))
    one, other = attempts[first - 1], attempts[second - 1]
    lines = [
        Line("By", one.place, other.place),
        Line("Exception", one.exception, other.exception),
        Line("Reason", one.reason, other.reason),
        Line("Raised in", one.where, other.where),
        Line("Then", one.then, other.then),
    ]
    apart = duration(abs(other.at - one.at)) if one.at and other.at else ""
    return Comparison(first, second, lines, apart)


def _number(text: str, most: int, otherwise: int) -> int:
    is_one = text.isascii() and text.isdecimal() and len(text) <= len(str(most))
    return int(text) if is_one and 1 <= int(text) <= most else otherwise
