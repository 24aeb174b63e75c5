"""The table of the runs: a line a fault, as the terminal shows it and as docs/reliability.md has it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from tests.chaos.checker import Verdict

COLUMNS: Final = (
    *("fault", "times", "sent", "unknown", "lost", "failed", "doubled", "invented", "early"),
    *("longest gap", "allowed", "worst lateness"),
)
BEGIN, END = "<!-- chaos -->", "<!-- /chaos -->"


def line(fault: str, verdict: Verdict) -> tuple[str, ...]:
    """Give the cells of one fault."""
    wrongs = (verdict.lost, verdict.failed, verdict.doubled, verdict.invented, verdict.early)
    return (
        fault,
        str(verdict.strikes),
        f"{verdict.sent:,}",
        str(verdict.unknown),
        *(str(len(wrong)) for wrong in wrongs),
        f"{verdict.gap:.1f} s",
        f"{verdict.limit:.0f} s",
        f"{verdict.lateness:.1f} s",
    )


def markdown(verdicts: Mapping[str, Verdict]) -> str:
    """Give the table."""
    rows = [line(fault, verdict) for fault, verdict in verdicts.items()]
    widths = [max(len(row[i]) for row in (COLUMNS, *rows)) for i in range(len(COLUMNS))]
    rule = "| " + " | ".join("-" * width for width in widths) + " |"
    head, *body = (
        "| " + " | ".join(c.ljust(w) for c, w in zip(row, widths, strict=True)) + " |"
        for row in (COLUMNS, *rows)
    )
    return "\n".join((head, rule, *body))


def write(page: Path, text: str) -> None:
    """Put text between the marks of a page, where the last run's stands."""
    before, rest = page.read_text("utf-8").split(BEGIN)
    after = rest.split(END)[1]
    page.write_text(f"{before}{BEGIN}\n{text}\n\n{END}{after}", "utf-8")
