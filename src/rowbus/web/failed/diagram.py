"""A conversation as a sequence diagram: where its lines and arrows are drawn.

Invariant: pure; figures and texts only, which a template writes as SVG. At most `MOST_LIVES` endpoints have lines.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from rowbus.errors.printable import printable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rowbus.web.failed.story import Step

MOST_LIVES: Final = 10
WIDTH: Final = 220  # of a line's lane
ROW: Final = 44  # of an arrow
TOP: Final = 56
LONGEST: Final = 24  # characters of a label
REST: Final = "others"


class Life(NamedTuple):
    """The line of an endpoint."""

    x: int
    name: str
    label: str


class Arrow(NamedTuple):
    """A message: from one line to another, or to the same."""

    x1: int
    x2: int
    y: int
    label: str
    step: Step

    @property
    def is_loop(self) -> bool:
        """Whether an endpoint sent it to itself."""
        return self.x1 == self.x2

    @property
    def tip(self) -> int:
        """Where the line ends, before the head of the arrow."""
        return self.x2 - 7 if self.x2 > self.x1 else self.x2 + 7

    @property
    def head(self) -> str:
        """The points of the head."""
        back = -9 if self.x2 > self.x1 else 9
        return f"{self.x2},{self.y} {self.x2 + back},{self.y - 5} {self.x2 + back},{self.y + 5}"

    @property
    def middle(self) -> int:
        """Where the label stands."""
        return (self.x1 + self.x2) // 2


class Diagram(NamedTuple):
    """The whole drawing."""

    width: int
    height: int
    lives: list[Life]
    arrows: list[Arrow]


def drawn(steps: Sequence[Step]) -> Diagram:
    """Lay out a conversation: endpoints from left to right as they first appear, messages from top to bottom."""
    names = list(dict.fromkeys(name for step in steps for name in (step.sender, step.receiver)))
    if len(names) > MOST_LIVES:
        names = [*names[: MOST_LIVES - 1], REST]
    places = {name: WIDTH // 2 + at * WIDTH for at, name in enumerate(names)}
    rest = places.get(REST, 0)
    lives = [Life(x, name, shortened(name)) for name, x in places.items()]
    arrows = [
        Arrow(
            places.get(step.sender, rest),
            places.get(step.receiver, rest),
            TOP + ROW * (at + 1),
            shortened(last_part(step.type) or "message"),
            step,
        )
        for at, step in enumerate(steps)
    ]
    return Diagram(WIDTH * max(len(names), 2), TOP + ROW * (len(steps) + 1), lives, arrows)


def last_part(type_name: str) -> str:
    """Return the last part of the name of a type, without what it is generic in."""
    return type_name.partition("[")[0].partition("`")[0].replace("+", ".").rpartition(".")[2]


def shortened(text: str) -> str:
    """Return a label that fits, and holds nothing that turns the direction of writing."""
    shown = printable(text[:LONGEST])
    return shown if len(text) <= LONGEST else f"{shown[: LONGEST - 1]}…"
