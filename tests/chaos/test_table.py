"""The table of the runs, and its place in a page."""

from __future__ import annotations

from pathlib import Path

from tests.chaos.checker import check
from tests.chaos.faults import FAULTS as ALL
from tests.chaos.history import Effect, History, Outcome, Send
from tests.chaos.table import COLUMNS, line, markdown, merge
from tests.fixtures.places import ROOT

DAY = "2026-11-23"
VERDICT = check(
    History(
        (Send(1, "event", Outcome.COMMITTED, 1.0),), (Effect(1, "event", 1, 1, 2.5),), strikes=3, limit=15.0
    )
)
FAULTS = ("kill-worker", "kill-ticker", "failover")


def a_page(folder: Path, table: str) -> Path:
    page = folder / "page.md"
    page.write_text(f"before\n<!-- chaos -->\n{table}\n\n<!-- /chaos -->\nafter\n", "utf-8")
    return page


def test_a_line_says_what_a_verdict_says() -> None:
    cells = dict(zip(COLUMNS, line("kill-worker", VERDICT, DAY), strict=True))

    assert cells["fault"] == "kill-worker"
    assert (cells["times"], cells["sent"], cells["wrong"]) == ("3", "1", "0")
    assert (cells["longest gap"], cells["allowed"], cells["on"]) == ("1.5 s", "15 s", DAY)


def test_a_page_gets_the_table_between_its_marks(tmp_path: Path) -> None:
    page, row = a_page(tmp_path, "old"), line("kill-worker", VERDICT, DAY)

    merge(page, FAULTS, {"kill-worker": row})

    table = markdown([row])
    assert page.read_text("utf-8") == f"before\n<!-- chaos -->\n{table}\n\n<!-- /chaos -->\nafter\n"


def test_lines_of_faults_that_did_not_run_stay_as_they_are(tmp_path: Path) -> None:
    earlier = {name: line(name, VERDICT, "2026-11-01") for name in ("kill-worker", "failover", "forgotten")}
    page = a_page(tmp_path, markdown(earlier.values()))
    rows = {name: line(name, VERDICT, DAY) for name in ("kill-worker", "kill-ticker")}

    merge(page, FAULTS, rows)

    table = markdown([rows["kill-worker"], rows["kill-ticker"], earlier["failover"]])
    assert page.read_text("utf-8") == f"before\n<!-- chaos -->\n{table}\n\n<!-- /chaos -->\nafter\n"


def test_the_page_says_what_happens_under_every_fault() -> None:
    page = (ROOT / "docs/reliability.md").read_text("utf-8")
    section = page.partition("\n## The faults\n")[2].partition("\n## ")[0]
    rows = [row.split("|")[1] for row in section.splitlines() if row.startswith("| ")][2:]

    assert {name.strip() for row in rows for name in row.split(",")} == set(ALL)
