"""Build the docs site: `python -m tools.docs_site`, or `make docs` to read it as well.

The pages of docs/, the pages at the top of the repository and the reference pages that `docs_reference` makes are
collected in build/docs; Zensical makes site/ of them, and fails on a link or an anchor that leads nowhere. Then the
site itself is checked: every link and anchor between its pages, and that no page loads anything from another host.

Invariant: a link in a page works both on a code host, between files of the repository, and on the site. Only links to
the reference pages, which are not committed, work on the site alone; the pages at the top have none.
"""

from __future__ import annotations

import json
import posixpath
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

from tools import docs_reference

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
BUILD = ROOT / "build"
SITE = ROOT / "site"
TOP = ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md")

FENCE = re.compile(r"^( *)(```+|~~~+).*?^\1\2 *$", re.DOTALL | re.MULTILINE)
FENCE_WORDS = re.compile(r"^( *(?:```+|~~~+)\w*) .*")
LINK = re.compile(r"(?<!`)(!?\[(?:[^\]`]|`[^`]*`)*\]\()([^)\s]+)(\))")
COLOUR = re.compile(r"\x1b\[[0-9;]*m")

Navigation = list[dict[str, object]]

# ------------------------------------------------------------------------------------------------------------- pages


def pages() -> dict[str, str]:
    """Return the text of every page of the site under its path there, links adapted."""
    sources = {place(path): path for path in written_pages()}
    found = {target: with_links(ROOT / path, target) for target, path in sources.items()}
    found |= {f"reference/{name}.md": text for name, text in docs_reference.pages().items()}
    linked = sorted({path for source in sources.values() for path in linked_files(ROOT / source)})
    return {place(path): source_page(path) for path in linked if path not in sources.values()} | found


def written_pages() -> list[str]:
    """List the pages in the repository, by their paths."""
    below = sorted(path.relative_to(ROOT).as_posix() for path in DOCS.rglob("*.md"))
    return [*(name for name in TOP if (ROOT / name).exists()), *below]


def place(path: str) -> str:
    """Give the path on the site of a file of the repository."""
    if f"{path}/".startswith("docs/"):
        below = path.removeprefix("docs").removeprefix("/")
        return posixpath.join(below, "index.md") if (ROOT / path).is_dir() else below
    return f"project/{path.lower()}" if path in TOP else f"project/source/{path}.md"


def with_links(source: Path, target: str) -> str:
    """Return a page's text with the links that would leave docs/ turned to where their files are on the site."""
    here = posixpath.dirname(target)

    def turned(match: re.Match[str]) -> str:
        path, mark, anchor = match[2].partition("#")
        repository_path = resolved(source, path)
        if not path or repository_path is None:
            return match[0]
        return f"{match[1]}{posixpath.relpath(place(repository_path), here)}{mark}{anchor}{match[3]}"

    return outside_fences(partial(LINK.sub, turned), source.read_text(encoding="utf-8"))


def outside_fences(change: partial[str], text: str) -> str:
    """Change what stands outside fenced blocks; of these drop what is for the tests (`terminal=shop`)."""
    parts, end = list[str](), 0
    for fence in FENCE.finditer(text):
        parts += [change(text[end : fence.start()]), FENCE_WORDS.sub(r"\1", fence[0], count=1)]
        end = fence.end()
    return "".join([*parts, change(text[end:])])


def resolved(source: Path, target: str) -> str | None:
    """Give the repository path that a relative link leads to; None for an address and for an image beside the page."""
    if "://" in target or target.startswith("mailto:"):
        return None
    path = Path(posixpath.normpath((source.parent / target).as_posix()))
    return path.relative_to(ROOT).as_posix() if path.is_relative_to(ROOT) else None


def linked_files(source: Path) -> Iterator[str]:
    """Give the files outside docs/ and the folders that a page links to: each gets a page that shows it."""
    for _, target, _ in LINK.findall(FENCE.sub("", source.read_text(encoding="utf-8"))):
        path = resolved(source, target.partition("#")[0])
        if path and (not path.startswith("docs/") or (ROOT / path).is_dir()) and (ROOT / path).exists():
            yield path


def source_page(path: str) -> str:
    """Show a file of the repository, or list the files of a folder."""
    file = ROOT / path
    if file.is_dir():
        return f"# {file.name.capitalize()}\n\n" + "".join(
            f"* {listed(one)}\n" for one in sorted(file.glob("[!.]*.*"))
        )
    text, kind = (
        file.read_text(encoding="utf-8"),
        {".py": "python", ".sql": "sql", ".sh": "sh"}.get(file.suffix, "text"),
    )
    return f"# {path}\n\n````{kind}\n{text}````\n"


def listed(file: Path) -> str:
    """Name a file of a folder; a page by its title, with a link."""
    title = re.match(r"# (.+)", file.read_text(encoding="utf-8")) if file.suffix == ".md" else None
    return f"[{title[1]}]({file.name})" if title else f"`{file.name}`"


# -------------------------------------------------------------------------------------------------------- navigation


def navigation(found: dict[str, str]) -> Navigation:
    """Read the navigation from docs/index.md: its headings, its groups ("Run:") and its links, in their order.

    A page that the index does not name comes last; folders and files that only links lead to are left out.
    """
    sections: dict[str, dict[str, list[str]]] = {}
    section, group = "", ""
    for line in FENCE.sub("", found["index.md"]).splitlines():
        if line.startswith("## "):
            section, group = line.removeprefix("## "), ""
        elif re.fullmatch(r"[A-Z][\w .-]*:", line):
            group = line.removesuffix(":")
        elif section:
            linked = [posixpath.normpath(target.partition("#")[0]) for _, target, _ in LINK.findall(line)]
            pages_of_line = [page for path in linked for page in in_folder(path, found)]
            sections.setdefault(section, {}).setdefault(group, []).extend(pages_of_line)
    return [{"Rowbus": "index.md"}, *shaped(sections, found)]


def in_folder(path: str, found: dict[str, str]) -> list[str]:
    """Give the pages of a folder that is linked as a whole; a page is itself."""
    folder = path.removesuffix("index.md")
    return (
        [page for page in sorted(found) if page != path and page.startswith(folder)]
        if folder != path
        else [path]
    )


def shaped(sections: dict[str, dict[str, list[str]]], found: dict[str, str]) -> Iterator[dict[str, object]]:
    """Give each section as Zensical takes it: a page, or a list of pages and groups."""
    seen = {"index.md", "project/readme.md"}
    for section, groups in sections.items():
        content: list[dict[str, object]] = []
        for group, paths in groups.items():
            fresh = [path for path in dict.fromkeys(paths) if path in found and path not in seen]
            seen.update(fresh)
            links = [*decisions_last(fresh, found)]
            content += [{group: links}] if group and links else links
        if content:
            yield content[0] if len(content) == 1 else {section: content}
    rest = [
        path for path in found if path not in seen and not re.match(r"project/source/|.*/index\.md$", path)
    ]
    yield {"Project": [titled(path, found) for path in ["project/readme.md", *rest]]}


def decisions_last(paths: list[str], found: dict[str, str]) -> Iterator[dict[str, object]]:
    """Give the pages one by one, and the decisions as a group of their own."""
    decisions = [path for path in paths if path.startswith("decisions/")]
    yield from (titled(path, found) for path in paths if path not in decisions)
    if decisions:
        yield {"Decisions": [titled(path, found) for path in decisions]}


def titled(path: str, found: dict[str, str]) -> dict[str, object]:
    """Give a page with its title."""
    title = re.search(r"^# (.+)$", found[path], re.MULTILINE)
    return {(title[1] if title else path).replace("`", ""): path}


# -------------------------------------------------------------------------------------------------------------- build


def collect() -> None:
    """Write all pages, the images beside them, and the configuration with the navigation, to build/."""
    found = pages()
    shutil.rmtree(BUILD / "docs", ignore_errors=True)
    for path, text in found.items():
        write(BUILD / "docs" / path, text)
    for image in (*DOCS.rglob("*.png"), *DOCS.rglob("*.svg")):
        target = BUILD / "docs" / image.relative_to(DOCS)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(image, target)
    for name, text in for_models(found).items():
        write(BUILD / "docs" / name, text)
    settings = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    write(BUILD / "mkdocs.yml", f"{settings}nav: {json.dumps(navigation(found))}\n")


def for_models(found: dict[str, str]) -> dict[str, str]:
    """Give llms.txt, the pages with what each is about, and llms-full.txt, all that people wrote (llmstxt.org)."""
    written = {place(path): found[place(path)] for path in written_pages()}
    begin = f"# Rowbus\n\n> {first_paragraph(found['index.md'])}\n\n## Pages\n\n"
    return {
        "llms.txt": begin + "".join(f"* {in_one_line(path, text)}\n" for path, text in written.items()),
        "llms-full.txt": "\n\n".join(f"<!-- {path} -->\n\n{text.strip()}" for path, text in written.items())
        + "\n",
    }


def in_one_line(path: str, text: str) -> str:
    """Give a page's title, with a link, and how it begins."""
    [(title, _)] = titled(path, {path: text}).items()
    return f"[{title}]({path.removesuffix('md')}html): {first_paragraph(text)}"


def first_paragraph(text: str) -> str:
    """Give the first paragraph below a page's title, in one line, without its links."""
    paragraphs = re.split(r"\n\s*\n", text.partition("# ")[2])[1:]
    first = next((one for one in paragraphs if one[:1].isalnum()), "")
    return re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", " ".join(first.split()))


def write(path: Path, text: str) -> None:
    """Write a file and the folders above it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def zensical() -> int:
    """Build site/, strictly; say in plain text what is wrong."""
    shutil.rmtree(SITE, ignore_errors=True)
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "zensical",
            "build",
            "--strict",
            "--clean",
            "--config-file",
            BUILD / "mkdocs.yml",
        ],
        cwd=ROOT,  # where `paths` of mkdocstrings begin
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        why = done.stderr.partition("Traceback")[0] or done.stderr
        print(COLOUR.sub("", done.stdout + why), file=sys.stderr)
    else:
        (BUILD / "site").rename(SITE)
    return done.returncode


# -------------------------------------------------------------------------------------------------------------- check


@dataclass
class Page(HTMLParser):
    """Parts of a built page: anchors, links, and what a browser loads with it."""

    anchors: set[str] = field(default_factory=set)
    links: set[str] = field(default_factory=set)
    loaded: set[str] = field(default_factory=set)
    misread: bool = False

    def __post_init__(self) -> None:
        """Prepare the parser."""
        super().__init__()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note what a tag names."""
        given = {name: value for name, value in attrs if value}
        self.anchors |= {given[name] for name in ("id", "name") if name in given}
        if tag == "a" and "href" in given:
            self.links.add(given["href"])
        elif tag == "link" and given.get("rel") not in {"canonical", "next", "prev"}:
            self.loaded.add(given.get("href", ""))
        self.loaded |= {given["src"]} if "src" in given else set()

    def handle_data(self, data: str) -> None:
        """Note the marks of a block of code that was read as text."""
        self.misread = self.misread or "```" in data


def faults() -> Iterator[str]:
    """Find dead links and anchors between the pages, what is loaded from another host, and misread blocks."""
    built = {path: read(path) for path in SITE.rglob("*.html") if path.name != "404.html"}
    for path, page in built.items():
        where = path.relative_to(SITE)
        if page.misread:
            yield f"{where}: ``` is read as text; what follows it on its line?"
        yield from (f"{where}: loads {one}" for one in sorted(page.loaded) if urlsplit(one).netloc)
        for link in sorted(page.links):
            address = urlsplit(link)
            if address.scheme or address.netloc:
                continue
            target = (path.parent / unquote(address.path)).resolve() if address.path else path
            target = target / "index.html" if target.is_dir() else target
            if not target.exists():
                yield f"{where}: {link} leads to no file"
            elif (
                address.fragment
                and target in built
                and unquote(address.fragment) not in built[target].anchors
            ):
                yield f"{where}: {link} leads to no place on its page"
    for sheet in SITE.rglob("*.css"):
        if re.search(r"url\([\"']?(?:https?:)?//", sheet.read_text(encoding="utf-8")):
            yield f"{sheet.relative_to(SITE)}: loads from another host"


def read(path: Path) -> Page:
    """Read one built page."""
    page = Page()
    page.feed(path.read_text(encoding="utf-8"))
    return page


def main() -> int:
    """Build the site and check it."""
    collect()
    if zensical():
        return 1
    found = list(faults())
    print(
        "\n".join(found)
        if found
        else f"The site is in {SITE.relative_to(ROOT)}/; it begins with site/index.html."
    )
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
