"""The page for the wire says what code keeps to, and from where; `tools/citations.py` follows the citations of it."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

from rowbus.messages.headers import Header
from rowbus.transport.queues import shape, sqlserver_shape
from tests.fixtures.places import ROOT

WIRE_FORMAT = ROOT / "docs" / "wire-format.md"

LOCK = re.compile(r"hashtextextended\(\s*(?:format\(\s*)?'([^']+)'")


@cache
def headings(page: Path) -> list[str]:
    text = re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
    return re.findall(r"^#+ (.+)$", text, flags=re.MULTILINE)


@cache
def anchors(page: Path) -> frozenset[str]:
    """Return the anchors of a page's headings, as GitHub and MkDocs make them."""
    return frozenset(re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings(page))


@cache
def wire_format() -> str:
    return WIRE_FORMAT.read_text(encoding="utf-8")


def test_no_two_sections_of_the_wire_format_have_one_anchor() -> None:
    assert len(anchors(WIRE_FORMAT)) == len(headings(WIRE_FORMAT))


def test_every_section_of_the_wire_format_names_its_source() -> None:
    sections = re.split(r"^## ", wire_format(), flags=re.MULTILINE)[1:]
    without = [section.splitlines()[0] for section in sections if not re.search(r"Source[^:]*:.*", section)]

    assert without == ["Tables of Rowbus alone", "Causes"]


def test_every_source_named_is_defined_and_every_one_defined_is_named() -> None:
    named = set(re.findall(r"\]\[([\w-]+)\]", wire_format()))
    defined = re.findall(r"^\[([\w-]+)\]: https://", wire_format(), flags=re.MULTILINE)

    assert named == set(defined)
    assert len(defined) == len(set(defined))


def test_every_standard_header_is_in_the_wire_format() -> None:
    names = {value for name, value in vars(Header).items() if name.isupper()}

    assert {name for name in names if name not in wire_format()} == set()


def test_every_column_of_a_queue_is_in_the_wire_format() -> None:
    columns = [*shape.COLUMNS, *sqlserver_shape.COLUMNS]

    assert [column.name for column in columns if f"| `{column.name}` |" not in wire_format()] == []


def test_every_advisory_lock_is_in_the_wire_format() -> None:
    names = {
        name.strip()
        for file in (ROOT / "src").rglob("*.sql")
        for name in LOCK.findall(file.read_text(encoding="utf-8"))
    }

    assert names
    assert {name for name in names if name not in wire_format()} == set()
