"""Files of a new project, from templates: `name.template` with `$fact`s, in folders as the project has them.

Invariant: all files are written or none, and no existing file is overwritten.
"""

from __future__ import annotations

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
