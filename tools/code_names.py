"""The names of code that docstrings and comments of `src` cite in code type, and that are not there.

What counts: `Client.send`, if a class of ours has the first name; `running.service` and `service.pause`, unless the
first name is one of the module's own, or somebody else's; and after "see" and "raises as" a name alone, `pause`.
"""

from __future__ import annotations

import io
import re
import sys
import tokenize
from collections import defaultdict
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "src"
FILE = {"json", "lock", "md", "ndjson", "pid", "py", "sql", "template", "toml"}
OTHERS = {
    "df",  # a user's data frame
    "jdk",  # Java's modules
    "pgq",  # schemas of the database
    "rowbus_spark",
    "realm_access",  # a claim of Keycloak's tokens
    "shop",  # a user's schema
    "sockaddr_un",  # of the operating system
    "transaction",  # Django's
    *sys.stdlib_module_names,
}

DOTTED = re.compile(r"(?<!`)`([A-Za-z_]\w*(?:\.\w+)+)(?:\(\))?`(?!`)")
SEEN = re.compile(r"\b(?:[Ss]ee|[Rr]aises? as) `(\w+)`(?!`)")

DEFINITION = re.compile(r"^ *(?:async def|def|class) (\w+)", re.MULTILINE)
CLASS = re.compile(r"^ *class (\w+)(?:\(([^)]*)\))?:", re.MULTILINE)


def dead_names(line: str, path: Path) -> Iterator[str]:
    """Find what a line of a module's comments or docstrings cites and is not there."""
    for found in DOTTED.finditer(line):
        if is_dead(found[1], path):
            yield f"there is no {found[1]}"
    for found in SEEN.finditer(line):
        if found[1] not in words(path) | definitions() | modules():
            yield f"there is no {found[1]}"


def is_dead(name: str, path: Path) -> bool:
    """Say whether a dotted name, cited in a module, is to be one of ours and is none."""
    first, member, *_ = name.split(".")
    head, _, last = name.rpartition(".")
    if last in FILE or name in modules():
        return False
    if first in classes():
        return member not in words_of(classes()[first])
    if first[0].isupper() or first in OTHERS | words(path):
        return False
    return head not in modules() or last not in words_of(meant(head))


# ------------------------------------------------------------------------------------------------------ what there is


@cache
def sources() -> tuple[Path, ...]:
    """List the modules of src."""
    return tuple(sorted(SOURCE.rglob("*.py")))


def dotted(path: Path) -> str:
    """Return a module's name."""
    return ".".join(path.relative_to(SOURCE).with_suffix("").parts).removesuffix(".__init__")


@cache
def modules() -> frozenset[str]:
    """Give every module's and folder's name, from each of its folders on: a citation may leave out the first ones."""
    split = [dotted(path).split(".") for path in sources()]
    return frozenset(
        ".".join(parts[start:end])
        for parts in split
        for start in range(len(parts))
        for end in range(start + 1, len(parts) + 1)
    )


@cache
def words(path: Path) -> frozenset[str]:
    """Give the names in a module's code, and none of its comments and texts."""
    tokens = tokenize.generate_tokens(io.StringIO(path.read_text(encoding="utf-8")).readline)
    return frozenset(token.string for token in tokens if token.type == tokenize.NAME)


def words_of(paths: Iterable[Path]) -> frozenset[str]:
    """Give the names in the code of several modules."""
    return frozenset[str]().union(*map(words, paths))


def meant(module: str) -> list[Path]:
    """Give the modules that a citation may mean."""
    return [path for path in sources() if f".{dotted(path)}".endswith(f".{module}")]


@cache
def definitions() -> frozenset[str]:
    """Name all functions and classes."""
    return frozenset(
        name for path in sources() for name in DEFINITION.findall(path.read_text(encoding="utf-8"))
    )


@cache
def classes() -> dict[str, frozenset[Path]]:
    """Give, for each class, the modules of the classes of that name, and of those they extend."""
    own, bases = defaultdict[str, set[Path]](set), defaultdict[str, set[str]](set)
    for path in sources():
        for name, extended in CLASS.findall(path.read_text(encoding="utf-8")):
            own[name].add(path)
            bases[name] |= set(re.findall(r"\w+", extended))
    return {
        name: frozenset(own[name].union(*(own.get(base, set()) for base in bases[name]))) for name in [*own]
    }
