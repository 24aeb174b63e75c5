"""The table of the runs, and its place in a page."""

from __future__ import annotations

from pathlib import Path

from tests.chaos.checker import check
from tests.chaos.history import Effect, History, Outcome, Send
from tests.chaos.table import COLUMNS, line, markdown, write

VERDICT = check(
    History(
        (Send(1, "event", Outcome.COMMITTED, 1.0),), (Effect(1, "event", 1, 1, 2.5),), strikes=3, limit=15.0
    )
)


def test_a_line_says_what_a_verdict_says() -> None:
    cells = dict(zip(COLUMNS, line("kill-worker", VERDICT), strict=True))

    assert cells["fault"] == "kill-worker"
    assert (cells["times"], cells["sent"], cells["lost"]) == ("3", "1", "0")
    assert (cells["longest gap"], cells["allowed"]) == ("1.5 s", "15 s")


def test_a_page_gets_the_table_between_its_marks(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("before\n<!-- chaos -->\nold\n<!-- /chaos -->\nafter\n", "utf-8")
    table = markdown({"kill-worker": VERDICT})

    write(page, table)

    assert page.read_text("utf-8") == f"before\n<!-- chaos -->\n{table}\n\n<!-- /chaos -->\nafter\n"
