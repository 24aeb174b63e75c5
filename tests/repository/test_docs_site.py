"""The site's pages, links and navigation are those of docs/; its check sees dead links and other hosts."""

from __future__ import annotations

import re
from functools import cache, partial
from pathlib import Path

import pytest

from tests.fixtures.every import every
from tools import docs_site


@cache
def pages() -> dict[str, str]:
    return docs_site.pages()


def paths_in(navigation: object) -> list[str]:
    """List the pages of a navigation, in order."""
    if isinstance(navigation, str):
        return [navigation]
    inner = navigation.values() if isinstance(navigation, dict) else navigation
    return [path for one in inner for path in paths_in(one)]  # type: ignore[attr-defined]  # a list, if nothing else


def test_every_page_of_the_docs_is_in_the_navigation_once() -> None:
    listed = paths_in(docs_site.navigation(pages()))
    written = {docs_site.place(path) for path in docs_site.written_pages()}

    assert written | {f"reference/{name}.md" for name in ("api", "cli", "sql")} <= set(listed)
    assert len(listed) == len(set(listed))


def test_a_page_that_the_index_does_not_name_comes_last() -> None:
    new = {**pages(), "how-to/fly.md": "# Fly\n"}

    assert paths_in(docs_site.navigation(new))[-1] == "how-to/fly.md"


def test_the_navigation_has_the_groups_of_the_index() -> None:
    found = {
        "index.md": "## How-to\n\nRun:\n\n* [A](a.md)\n\nTune:\n\n* [B](b.md)\n",
        "a.md": "# A a",
        "b.md": "# B b",
    }
    found["project/readme.md"] = "# Readme"

    assert docs_site.navigation(found)[1] == {
        "How-to": [{"Run": [{"A a": "a.md"}]}, {"Tune": [{"B b": "b.md"}]}]
    }


def test_a_folder_that_is_linked_stands_for_its_pages() -> None:
    listed = paths_in(docs_site.navigation(pages()))

    first = listed.index("decisions/0001-embedded-server.md")
    assert listed[first + 1] == "decisions/0002-raw-round-trips.md"


def test_models_get_every_page_by_its_title_and_its_text_from_the_same_sources() -> None:
    written = [docs_site.place(path) for path in docs_site.written_pages()]
    files = docs_site.for_models(pages())

    assert files["llms.txt"].startswith("# Rowbus\n\n> Messages, events and rows in the database")
    assert [
        line.split("](")[1].split(")")[0] for line in files["llms.txt"].splitlines() if line[:2] == "* "
    ] == [f"{path.removesuffix('md')}html" for path in written]
    assert all(pages()[path].strip() in files["llms-full.txt"] for path in written)


def test_a_link_between_pages_of_the_docs_stays() -> None:
    assert "(how-to/try-the-demo.md)" in pages()["index.md"]


def test_a_link_that_leaves_the_docs_leads_to_its_file_on_the_site() -> None:
    assert "(project/readme.md)" in pages()["index.md"]
    assert "(project/source/examples/failures.py.md)" in pages()["index.md"]
    assert "(../tutorial.md)" in pages()["project/readme.md"]
    assert "def " in pages()["project/source/examples/failures.py.md"]


def test_links_in_programs_are_left_alone() -> None:
    change = partial(re.sub, "a", "b")

    assert docs_site.outside_fences(change, "```sh terminal=a\na\n```\n") == "```sh\na\n```\n"
    assert docs_site.outside_fences(change, "a\n```sh\na\n```\na") == "b\n```sh\na\n```\nb"


@every(
    "html, fault",
    [
        ('<a href="nowhere.html">x</a>', "nowhere.html leads to no file"),
        ('<a href="#nowhere">x</a>', "#nowhere leads to no place"),
        ('<a href="other.html#nowhere">x</a>', "other.html#nowhere leads to no place"),
        ('<script src="https://cdn.example/x.js"></script>', "loads https://cdn.example/x.js"),
        ('<link rel="stylesheet" href="//fonts.example/x.css">', "loads //fonts.example/x.css"),
        ("<p>```python x</p>", "``` is read as text"),
        ('<img src="https://badges.example/x.svg">', "loads https://badges.example/x.svg"),
    ],
)
def test_the_check_of_the_site_sees(
    html: str, fault: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "index.html").write_text(html, encoding="utf-8")
    (tmp_path / "other.html").write_text("", encoding="utf-8")
    monkeypatch.setattr(docs_site, "SITE", tmp_path)

    assert [fault in found for found in docs_site.faults()] == [True]


def test_the_check_of_the_site_is_content_with_what_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = '<h1 id="here">x</h1><a href="#here">x</a><a href="https://example.org">x</a><a href="index.html#here">x</a>'
    (tmp_path / "index.html").write_text(text, encoding="utf-8")
    monkeypatch.setattr(docs_site, "SITE", tmp_path)

    assert list(docs_site.faults()) == []
