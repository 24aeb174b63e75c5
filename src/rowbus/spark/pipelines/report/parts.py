"""The parts that the report's page is put together from: sections, and tables whose columns say how cells look.

Invariant: no text becomes markup but by `report_html.tag`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from rowbus.spark.pipelines.report.html import Html, join, tag
from rowbus.spark.pipelines.report.units import count

Row = Mapping[str, Any]
MOST_ROWS: Final = 50  # rows of a table on the page; the files have them all
Show = Callable[[Any], object]


class Column(NamedTuple):
    """A column of a table: its title, the field it shows (empty: the whole row), how, and the class of its cells."""

    title: object
    field: str
    show: Show = str
    kind: str | None = None

    def cell(self, row: Row) -> object:
        """Return the content of a row's cell."""
        value: object = row[self.field] if self.field else row
        return None if value is None else self.show(value)


def table(rows: Sequence[Row], *columns: Column) -> Html | None:
    """Return a table of the first rows; None if there are none."""
    if not rows:
        return None
    head = tag("tr", [tag("th", column.title, class_=column.kind) for column in columns])
    body = [
        tag("tr", [tag("td", column.cell(row), class_=column.kind) for column in columns])
        for row in rows[:MOST_ROWS]
    ]
    whole = tag("table", tag("thead", head), tag("tbody", body))
    more = len(rows) - MOST_ROWS
    note = (
        tag("p", f"And {count(more)} more, in the files beside this page.", class_="soft")
        if more > 0
        else None
    )
    return join(tag("div", whole, class_="scroll"), note)


def section(title: str, told: str | None, *parts: object) -> Html:
    """Return a section: its title, a sentence about it, and what is in it."""
    return tag("section", tag("h2", title), tag("p", told, class_="soft") if told else None, *parts)
