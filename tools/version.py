"""The version of a build: that of the tag it is built from. hatchling asks for it (`[tool.hatch.version]`).

* at the tag `v1.2.3`: 1.2.3
* five commits after it: 1.2.4.dev5, because 1.2.3 is out
* where there is no tag, or no git: `UNRELEASED`, so that a clone without tags can be installed

hatchling does not ask when it builds from an sdist: that says its version itself.

Invariant: only git is asked, and nothing outside the folder of this checkout.
"""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
UNRELEASED = "0.1.0.dev0"
_DESCRIBED = re.compile(r"v(\d+\.\d+\.)(\d+)((?:a|b|rc)\d+)?-(\d+)-g[0-9a-f]+")


def version() -> str:
    """Return the version of this checkout."""
    return version_of(_described())


def version_of(described: str) -> str:
    """Return the version for what `git describe --long` says, `v1.2.3-5-gabcdef0`; for anything else UNRELEASED."""
    found = _DESCRIBED.fullmatch(described)
    if found is None:
        return UNRELEASED
    start, last, candidate, commits = found[1], found[2], found[3] or "", int(found[4])
    if commits == 0:
        return f"{start}{last}{candidate}"
    return f"{start}{last if candidate else int(last) + 1}{_next(candidate)}.dev{commits}"


def _next(candidate: str) -> str:
    return re.sub(r"\d+$", lambda number: str(int(number[0]) + 1), candidate)


def _described() -> str:
    if not (ROOT / ".git").exists():  # an export, perhaps within another project's repository
        return ""
    command = ["git", "describe", "--tags", "--long", "--match", "v[0-9]*"]
    try:
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    except OSError:  # no git here
        return ""
    return done.stdout.strip()
