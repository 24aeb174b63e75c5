"""Five people find what they came for: each page is linked from the landing page, and followed as it is printed.

`test_pages.py` types what the pages say, too, each day, on a database of the test's own.
"""

from __future__ import annotations

import re
import tempfile
from pathlib import Path

import pytest

from tests.fixtures.database import run_directory
from tests.fixtures.every import every
from tests.fixtures.places import ROOT
from tests.repository.pages import Reader, blocks
from tests.repository.test_pages import PAGES

LANDING = ROOT / "docs" / "index.md"
TASKS = {
    "a first message": ("from nothing to two endpoints", "rowbus.command"),
    "a failed message that is found and sent back": ("Retry failed messages", "rowbus errors retry"),
    "a model of Django's in a handler": ("Use Django", "models.Model"),
    "a table in Delta": ("Postgres tables in Delta or Iceberg in ten minutes", "rowbus spark lake"),
    "a system of .NET's joined": ("join an NServiceBus system", "NServiceBus.EnclosedMessageTypes"),
}


def page_of(task: str) -> Path:
    """Follow the link of the landing page that has the task's title."""
    links: dict[str, str] = {
        " ".join(text.split()).casefold(): target
        for text, target in re.findall(r"\[([^\]]+)\]\(([^)#]+)", LANDING.read_text(encoding="utf-8"))
    }
    title, _ = TASKS[task]
    return LANDING.parent / links[title.casefold()]


@every("task", list(TASKS))
def test_what_people_come_for_is_one_link_away_and_typed_by_the_tests(task: str) -> None:
    page = page_of(task)

    assert page in PAGES
    typed = "".join(block.text for block in blocks(page.read_text(encoding="utf-8")))
    assert TASKS[task][1] in typed


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.one_version
@pytest.mark.timeout(1800)  # some fifty commands, each of them an interpreter; some start Spark
@every("task", list(TASKS))
def test_each_person_comes_there_in_an_empty_home_with_no_server_but_the_embedded_one(
    task: str, tmp_path: Path
) -> None:
    home = tmp_path / page_of(task).stem
    home.mkdir()
    with run_directory(Path(tempfile.gettempdir())) as directory:
        server = str(directory / "server")
        person = Reader(home, None, ROWBUS_EMBEDDED="1", ROWBUS_EMBEDDED_DIRECTORY=server)  # at a terminal
        person.follow(page_of(task))
