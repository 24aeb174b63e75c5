"""Fail when a comment, a docstring or a page cites what is not there: a page, a section, a decision, a file, a test.

What counts as a citation: `docs/page.md`, `docs/page.md#section`, `decision 0011`, `tests/x/test_y.py::test_z`, and in
comments and docstrings any path that ends as a file does (`store.sql`, `fixtures/history.py`). `§` and `reference/x.md`
are always wrong: they cite a document that readers do not have. Links in pages are checked with the site.

Pages about the code cite such paths, too, and folders (`log/ticker/`), wherever they are in code type; and docstrings
and comments of src cite names of code (tools/architecture.py, tools/code_names.py).

A line whose end says `citation: reason` is left out; so are the files that users are told to write (`EXAMPLES`).
"""

from __future__ import annotations

import ast
import io
import re
import sys
import tokenize
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from tools.architecture import PAGE as TREE
from tools.architecture import PAGES, faults_of_tree, in_code_type
from tools.code_names import SOURCE, dead_names

ROOT = Path(__file__).resolve().parent.parent
KINDS = {".py", ".sql", ".md", ".json", ".toml", ".yml", ".template", ""}
ABOUT_CITATIONS = {"citations", "test_citations", "test_dead_citations"}  # these have dead ones, as examples
EXAMPLES = {"sales.py", "name.py"}

PAGE = re.compile(r"(?<![\w./-])docs/[\w./-]*[\w/](?:#[\w-]+)?")
DECISION = re.compile(r"(?<![\w-])[Dd]ecisions?[ /]((?:\d{4})(?:-[a-z-]+)?)")
TEST = re.compile(r"(tests/[\w/]+\.py)::(\w+)")
STATEMENTS = re.compile(r"/sql(?:/(?:postgresql|sqlserver))?(?=/)")
FILE = re.compile(r"(?<![\w./:@*…<{$-])[\w-]+(?:/[\w.-]+)*\.(?:py|sql|md)\b(?![\w/*(]|\.\w)")
FOLDER = re.compile(r"(?<![\w./:@*…<{$-])[\w-]+(?:/[\w-]+)*/(?![\w*<{$…])")
PRIVATE = re.compile(r"§|\breference/\w+\.md|\breference,? section|\bshared/reference", re.IGNORECASE)
LINK = re.compile(r"\]\([^)]*\)")

Line = tuple[int, str]


@cache
def files() -> tuple[str, ...]:
    """List the files of the repository, and nothing that was made or installed in its folder."""
    folders = ("src", "tests", "tools", "docs", "benchmarks", "examples", "requirements", ".ci")
    found = [path for path in ROOT.iterdir() if path.is_file()]
    found += [path for folder in folders for path in (ROOT / folder).rglob("*") if path.is_file()]
    return tuple(path.relative_to(ROOT).as_posix() for path in found if "__pycache__" not in path.parts)


@cache
def anchors(page: Path) -> frozenset[str]:
    """Give the anchors of a page's headings, as code hosts and the site make them."""
    text = re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
    headings = re.findall(r"^#+ (.+)$", text, flags=re.MULTILINE)
    return frozenset(re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings)


@cache
def folders() -> frozenset[str]:
    """Give every folder's path from each of its folders on."""
    split = (name.split("/")[:-1] for path in files() for name in (path, STATEMENTS.sub("", path)))
    return frozenset(
        "/".join(parts[start:end])
        for parts in set(map(tuple, split))
        for start in range(len(parts))
        for end in range(start + 1, len(parts) + 1)
    )


@cache
def endings() -> frozenset[str]:
    """Give every file's path from each of its folders on: a citation may leave out the first ones.

    `delayed/move.sql` is the statement in `delayed/sql/postgresql/` or `delayed/sql/sqlserver/`.
    """
    split = (name.split("/") for path in files() for name in (path, STATEMENTS.sub("", path)))
    return frozenset("/".join(parts[start:]) for parts in split for start in range(len(parts)))


def faults_in(text: str, *, comment: bool) -> Iterator[str]:
    """Find what one line cites and is not there."""
    bare = LINK.sub("]", text)
    yield from (f"{found[0]!r} cites a document that readers do not have" for found in PRIVATE.finditer(bare))
    yield from (f"{found[0]} is not there" for found in PAGE.finditer(bare) if is_dead_page(found[0]))
    yield from (f"there is no {found[0]}" for found in DECISION.finditer(bare) if is_dead_decision(found[1]))
    yield from (f"{found[0]} is not there" for found in TEST.finditer(bare) if is_dead_test(*found.groups()))
    if comment:
        cited = (
            found[0] for found in FILE.finditer(bare) if not found[0].startswith(("docs/", "reference/"))
        )
        yield from (f"{path} is no file of ours" for path in cited if path not in endings() | EXAMPLES)


def faults_in_code_type(text: str) -> Iterator[str]:
    """Find what a page about the code has in code type, and is not there."""
    yield from faults_in(text, comment=True)
    cited = (found[0].rstrip("/") for found in FOLDER.finditer(text))
    yield from (f"{path}/ is no folder of ours" for path in cited if path not in folders())


def is_dead_page(citation: str) -> bool:
    """Say whether a page, its section, or a folder of pages is missing."""
    path, _, anchor = citation.partition("#")
    page = ROOT / path
    return not page.exists() or bool(anchor and anchor not in anchors(page))


def is_dead_decision(name: str) -> bool:
    """Say whether no decision has this number, or this number and name."""
    return not any((ROOT / "docs" / "decisions").glob(f"{name}*.md"))


def is_dead_test(path: str, name: str) -> bool:
    """Say whether a test file or the function or class in it is missing."""
    file = ROOT / path
    return not file.exists() or not re.search(rf"(def|class) {name}\b", file.read_text(encoding="utf-8"))


# ------------------------------------------------------------------------------------------------------------- reading


def comments(path: Path, text: str) -> Iterator[Line]:
    """Give the lines of a file that only people read."""
    if path.suffix == ".py":
        yield from python_comments(text)
    elif path.suffix == ".sql":
        yield from (
            (at, line) for at, line in enumerate(text.splitlines(), 1) if line.lstrip().startswith("--")
        )


def python_comments(text: str) -> Iterator[Line]:
    """Give the comments, and the strings that stand for themselves, of a Python file."""
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string
    for node in ast.walk(ast.parse(text)):
        if (
            isinstance(node, ast.Expr)
            and isinstance(node.value, ast.Constant)
            and isinstance(node.value.value, str)
        ):
            yield from enumerate(text.splitlines()[node.lineno - 1 : node.end_lineno], node.lineno)


def faults() -> Iterator[str]:
    """Find the dead citations of all files."""
    for name in files():
        path = ROOT / name
        if path.suffix in KINDS and path.stem not in ABOUT_CITATIONS and (text := readable(path)):
            yield from (f"{name}:{at}: {fault}" for at, fault in sorted(faults_of(path, text)))
    yield from (f"{TREE.relative_to(ROOT)}: {fault}" for fault in faults_of_tree(readable(TREE)))


def faults_of(path: Path, text: str) -> Iterator[Line]:
    """Find the dead citations of a file, but for the lines that have a reason to cite what is not there."""
    lines = dict(enumerate(text.splitlines(), 1))
    for_people = dict.fromkeys(comments(path, text))
    found = [(at, faults_in(line, comment=(at, line) in for_people)) for at, line in lines.items()]
    found += [(at, faults_in(line, comment=True)) for at, line in for_people if line != lines[at]]
    if path.is_relative_to(SOURCE) and path.suffix == ".py":
        found += [(at, dead_names(line, path)) for at, line in for_people]
    if path in PAGES:
        found += [(at, faults_in_code_type(code)) for at, code in in_code_type(text)]
    yield from {(at, fault) for at, faults in found if "citation: " not in lines[at] for fault in faults}


def readable(path: Path) -> str:
    """Read a file of text; give nothing for another."""
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        return ""


def main() -> int:
    """Print the dead citations."""
    found = list(dict.fromkeys(faults()))
    print("\n".join(found) if found else "Everything cited is there.")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
