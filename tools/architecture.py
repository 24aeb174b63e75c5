"""The pages about the code: `docs/architecture.md` and those below `docs/architecture/`, and what they say is there.

A page cites in code type: files by the end of their path (`ticker/ticker.py`, `store.sql`), folders with a stroke at
their end (`log/ticker/`). The tree of the first page has every folder below `src/rowbus`, and the folders in those of
which it draws any.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "src" / "rowbus"
PAGE = ROOT / "docs" / "architecture.md"
PAGES = (PAGE, *sorted((ROOT / "docs" / "architecture").glob("*.md")))

CODE = re.compile(r"(?<!`)`([^`\n]+)`(?!`)")
FENCE = re.compile(r"^ *```")
DRAWN = re.compile(r"((?:[│ ] {3})*)[├└]── (\S+)")

Line = tuple[int, str]


def in_code_type(text: str) -> Iterator[Line]:
    """Give what a page has in code type, each with the number of its line."""
    fenced = False
    for at, line in enumerate(text.splitlines(), 1):
        fenced ^= bool(FENCE.match(line))
        if not fenced:
            yield from ((at, found[1]) for found in CODE.finditer(line))


def faults_of_tree(text: str, package: Path = PACKAGE) -> Iterator[str]:
    """Find what the tree of a page shows and is not there, and which folders it leaves out."""
    drawn = list(paths_drawn(text))
    yield from (
        f"the tree shows {path}, which is not there" for path in drawn if not is_as_drawn(package, path)
    )
    for parent in dict.fromkeys(path.rstrip("/").rpartition("/")[0] for path in drawn):
        there = {f"{parent}/{name}/".lstrip("/") for name in packages_in(package / parent)}
        yield from (f"the tree leaves out {path}" for path in sorted(there - set(drawn)))


def paths_drawn(text: str) -> Iterator[str]:
    """Give what a tree shows, as paths; a folder's ends with a stroke."""
    above: list[str] = []
    for line in text.splitlines():
        if found := DRAWN.match(line):
            above[len(found[1]) // 4 :] = [found[2]]
            yield "".join(above)


def is_as_drawn(package: Path, path: str) -> bool:
    """Say whether a path leads to a folder or a file, whichever it is drawn as."""
    there = package / path
    return there.is_dir() if path.endswith("/") else there.is_file()


def packages_in(folder: Path) -> set[str]:
    """Name the folders of a folder that have modules."""
    return {path.parent.name for path in folder.glob("*/__init__.py")}
