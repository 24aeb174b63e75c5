"""Files of a new project, from templates: `name.template` with `$fact`s, and names of logs as text in them.

Invariants: all files are written or none, and no existing file is overwritten; a YAML reader gets back exactly the same
text: no name becomes a number, a boolean or a list.
"""

from __future__ import annotations

import re
import shlex
from string import Template
from typing import TYPE_CHECKING, Final

from rowbus.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from importlib.resources.abc import Traversable
    from pathlib import Path

_SUFFIX: Final = ".template"


def write_templates(root: Traversable, folder: Path, facts: Mapping[str, str]) -> list[Path]:
    """Write the templates below `root` into a folder, made if it is missing; return what was written.

    A `$fact` may stand in the text and in a path. Raises ConfigurationError when a file exists already.
    """
    written = {
        folder / Template(path).substitute(facts): Template(file.read_text(encoding="utf-8")).substitute(
            facts
        )
        for path, file in _found(root, "")
    }
    if there := [path for path in written if path.exists()]:
        raise ConfigurationError(f"{there[0]} is there already; nothing was written.")
    for path, text in written.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return list(written)


def _found(folder: Traversable, prefix: str) -> Iterator[tuple[str, Traversable]]:
    for entry in sorted(folder.iterdir(), key=lambda entry: entry.name):
        if entry.is_dir():
            yield from _found(entry, f"{prefix}{entry.name}/")
        elif entry.name.endswith(_SUFFIX):
            yield prefix + entry.name.removesuffix(_SUFFIX), entry


_QUOTED = re.compile(r'"((?:[^"\\]|\\.)*)"')
_ESCAPE = re.compile(r"\\U([0-9A-F]{8})|\\(.)")


def quoted(text: str) -> str:
    """Write text as a scalar in double quotes; what is not printable is written as its number."""
    return f'"{"".join(map(_letter, text))}"'


def unquoted(scalar: str) -> str:
    """Read what `quoted` has written, or a plain scalar or one in single quotes that a user has put in its place."""
    if found := _QUOTED.fullmatch(scalar):
        return _ESCAPE.sub(lambda match: chr(int(match[1], 16)) if match[1] else match[2], found[1])
    if scalar[:1] == scalar[-1:] == "'" and len(scalar) > 1:
        return scalar[1:-1].replace("''", "'")
    return scalar


def for_shell(text: str) -> str:
    """Write text as one argument of a command; what is not printable as the shell's own escapes."""
    if text.isprintable():
        return shlex.quote(text)
    escaped = text.encode("unicode_escape").decode().replace("'", "\\'")
    return f"$'{escaped}'"


def in_prose(text: str) -> str:
    """Write text for a line of Markdown, between backquotes."""
    return "".join(
        letter if letter.isprintable() and letter != "`" else letter.encode("unicode_escape").decode()
        for letter in text
    ).replace("`", "'")


def _letter(letter: str) -> str:
    if letter in {'"', "\\"}:
        return f"\\{letter}"
    return letter if letter.isprintable() else f"\\U{ord(letter):08X}"
