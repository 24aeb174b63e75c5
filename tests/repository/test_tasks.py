"""Five people find what they came for: each page is linked from the landing page, and followed as it is printed.

`test_pages.py` types what the pages say, in a home of its own.
"""

from __future__ import annotations

import re

from tests.fixtures.every import every
from tests.fixtures.places import ROOT
from tests.repository.pages import blocks
from tests.repository.test_pages import PAGES

LANDING = ROOT / "docs" / "index.md"
TASKS = {
    "a first message": ("from nothing to two endpoints", "rowbus.command"),
    "a failed message that is found and sent back": ("Retry failed messages", "rowbus errors retry"),
    "a model of Django's in a handler": ("Use Django", "models.Model"),
    "a table in Delta": ("Postgres tables in Delta or Iceberg in ten minutes", "rowbus spark lake"),
    "a system of .NET's joined": ("join an NServiceBus system", "NServiceBus.EnclosedMessageTypes"),
}


@every("task", list(TASKS))
def test_what_people_come_for_is_one_link_away_and_typed_by_the_tests(task: str) -> None:
    title, done_by = TASKS[task]
    links = {
        " ".join(text.split()).casefold(): target
        for text, target in re.findall(r"\[([^\]]+)\]\(([^)#]+)", LANDING.read_text(encoding="utf-8"))
    }
    page = LANDING.parent / links[title.casefold()]

    assert page in PAGES
    typed = "".join(block.text for block in blocks(page.read_text(encoding="utf-8")))
    assert done_by in typed
