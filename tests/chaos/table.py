"""The table of the runs: a line a fault, as the terminal shows it and as docs/reliability.md has it.

Invariant: a page's table may come from several runs. A run replaces the lines of the faults that it ran, and each line
says on which day it was run.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from tests.chaos.checker import Verdict

COLUMNS: Final = (
    *("fault", "times", "sent", "unknown", "wrong"),
    *("longest gap", "allowed", "worst lateness", "on"),
)
BEGIN, END = "<!-- chaos -->", "<!-- /chaos -->"


def line(fault: str, verdict: Verdict, day: str) -> tuple[str, ...]:
    """Give the cells of one fault, run on a day."""
    wrongs = (verdict.lost, verdict.failed, verdict.doubled, verdict.invented, verdict.early)
    return (
        fault,
        str(verdict.strikes),
        f"{verdict.sent:,}",
        str(verdict.unknown),
        str(sum(map(len, wrongs))),
        f"{verdict.gap:.1f} s",
        f"{verdict.limit:.0f} s",
        f"{verdict.lateness:.1f} s",
        day,
    )


def markdown(rows: Iterable[tuple[str, ...]]) -> str:
    """Give the table."""
    rows = list(rows)
    widths = [max(len(row[i]) for row in (COLUMNS, *rows)) for i in range(len(COLUMNS))]
    rule = "| " + " | ".join("-" * width for width in widths) + " |"
    head, *body = (
        "| " + " | ".join(c.ljust(w) for c, w in zip(row, widths, strict=True)) + " |"
        for row in (COLUMNS, *rows)
    )
    return "\n".join((head, rule, *body))


def merge(page: Path, faults: Iterable[str], rows: Mapping[str, tuple[str, ...]]) -> None:
    """Put lines between the marks of a page, those of other faults staying as they are; `faults` is the table's order.

    A line of a fault that is not known any more goes.
    """
    before, rest = page.read_text("utf-8").split(BEGIN)
    between, after = rest.split(END)
    lines = {**_rows(between), **rows}
    table = markdown(lines[fault] for fault in faults if fault in lines)
    whole = f"{before}{BEGIN}\n{table}\n\n{END}{after}"
    new = page.with_name(f"{page.name}.new")
    new.write_text(whole, "utf-8")
    new.replace(page)


def _rows(text: str) -> dict[str, tuple[str, ...]]:
    """Read the lines of a table, each under its fault; lines of other columns are left out."""
    split = (
        tuple(cell.strip() for cell in line.strip("| ").split("|"))
        for line in text.splitlines()
        if line.startswith("|")
    )
    return {cells[0]: cells for cells in split if len(cells) == len(COLUMNS)}
