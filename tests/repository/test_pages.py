"""Instructions of the tutorial and the how-to pages work, and print what they say.

The README, docs/data.md, and the tutorial as it is typed, are followed in test_one_sitting.py.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.fixtures.every import every
from tests.fixtures.places import ROOT
from tests.repository.pages import Reader, agrees, blocks, commands, plain_arguments

PAGES = [ROOT / "README.md", ROOT / "docs" / "tutorial.md", *sorted((ROOT / "docs" / "how-to").glob("*.md"))]
RUN = {"python", "console", "sql"}


def _name(page: Path) -> str:
    return str(page.relative_to(ROOT))


def _with_marks(page: Path) -> object:
    """Leave the tutorial to each run; have pages that start Spark run where all tests of Spark do, and in turns."""
    if page.name == "tutorial.md":
        return page
    run = "".join(block.text for block in blocks(page.read_text(encoding="utf-8")) if block.kind in RUN)
    if not re.search(
        r"import rowbus\.spark|from rowbus\.spark|format\(\"rowbus\"\)|^\$ rowbus spark", run, re.MULTILINE
    ):
        return pytest.param(page, marks=pytest.mark.slow, id=_name(page))
    marks = [pytest.mark.spark, pytest.mark.slow, pytest.mark.turns("pages with Spark", 2)]
    return pytest.param(page, marks=marks, id=_name(page))


@pytest.mark.product
@pytest.mark.one_version
@pytest.mark.timeout(
    600
)  # the tutorial is some thirty commands, and each starts an interpreter; others start Spark
@pytest.mark.parametrize("page", [_with_marks(page) for page in PAGES[1:]], ids=_name)
def test_what_a_page_says_happens(page: Path, database: str, tmp_path: Path) -> None:
    if "sqlalchemy.ext.asyncio" in page.read_text(encoding="utf-8"):
        pytest.importorskip("greenlet", reason="the page says to install sqlalchemy[asyncio]")

    Reader(tmp_path, database, forks=True).follow(page)


@every("page", PAGES, ids=_name)
def test_a_page_only_uses_blocks_that_are_run_or_known_to_be_for_reading(page: Path) -> None:
    kinds = {block.kind for block in blocks(page.read_text(encoding="utf-8"))}

    for_reading = {
        "output",
        "log",
        "sh",
        "text",
        "ini",
        "csharp",
        "json",
        "yaml",
        "dockerfile",
        "nginx",
        "toml",
    }
    assert kinds <= RUN | for_reading


def test_dots_stand_for_text_in_a_line_and_for_lines() -> None:
    assert agrees("a …\n…\nz\n", "a b\nc\nd\nz\n")
    assert agrees("a\n…\nz\n", "a\nz\n")
    assert not agrees("a …\nz\n", "a b\nc\nz\n")
    assert not agrees("a.c\n", "abc\n")
    assert not agrees("", "a\n")


def test_a_console_block_is_read_as_commands_with_their_output() -> None:
    typed = commands("$ one \\\n> two\nprinted\n$ three\n")

    assert [tuple(command) for command in typed] == [("one \\\ntwo", "printed\n"), ("three", "")]


def test_only_commands_that_ask_nothing_of_a_shell_do_without_one() -> None:
    assert plain_arguments('rowbus queue send Sales \'{"a": $1}\' --type "A B"') == [
        "queue",
        "send",
        "Sales",
        '{"a": $1}',
        "--type",
        "A B",
    ]
    assert plain_arguments("python x.py --fast") == ["x.py", "--fast"]
    for line in ("python -c pass", "rowbus queue list | head", 'rowbus queue peek "$Q"', "rowbus spark run"):
        assert plain_arguments(line) is None
