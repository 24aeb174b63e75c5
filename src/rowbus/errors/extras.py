"""Extras of Rowbus: whether one is there, and how it is installed from where this Rowbus came from, published or not.

Invariant: nothing is asked of a network or a package index, and there is always a command to show.
"""

from __future__ import annotations

import json
from importlib.metadata import PackageNotFoundError, distribution
from importlib.util import find_spec
from typing import Any
from urllib.parse import unquote, urlsplit

from rowbus.errors import ConfigurationError


class MissingExtraError(ConfigurationError, ImportError):
    """Something was asked for whose extra is not installed; also an ImportError, for programs that try an import."""


def require(extra: str, *packages: str, what: str) -> None:
    """Raise MissingExtraError unless the top-level packages of an extra are there; import none of them."""
    missing = [name for name in packages if find_spec(name) is None]
    if missing:
        raise MissingExtraError(f"{what} needs {', '.join(missing)}: {install_command(extra)}")


def install_command(extra: str) -> str:
    """Return what to type to have an extra of Rowbus installed, beside the Rowbus that is running.

    pip notes where it took a package from, unless that was an index: a folder, a file, an address or a commit.
    """
    origin = _origin()
    if origin is None:
        return f'pip install "rowbus[{extra}]"'
    if "dir_info" in origin:
        return _from_folder(origin, extra)
    return f'pip install "{requirement(extra)}"'


def requirement(extra: str) -> str:
    """Return what a project of this machine names as its dependency, for Rowbus with an extra, as PEP 508 has it."""
    origin = _origin()
    return f"rowbus[{extra}]" if origin is None else f"rowbus[{extra}] @ {_address(origin)}"


def _origin() -> dict[str, Any] | None:
    try:
        note = distribution("rowbus").read_text("direct_url.json")
    except PackageNotFoundError:  # imported from a folder, not installed
        return None
    found: dict[str, Any] | None = json.loads(note) if note else None
    return found


def _from_folder(origin: dict[str, Any], extra: str) -> str:
    editable = "--editable " if origin["dir_info"].get("editable") else ""
    folder = unquote(urlsplit(str(origin["url"])).path)
    return f'pip install {editable}"{folder}[{extra}]"'


def _address(origin: dict[str, Any]) -> str:
    source = origin.get("vcs_info")
    return origin["url"] if source is None else f"{source['vcs']}+{origin['url']}@{source['commit_id']}"
