"""The version of the assets, so that browsers keep them until they change.

Invariant: it changes when any asset does.
"""

from __future__ import annotations

import hashlib
from functools import cache
from importlib.resources import files


@cache
def version_of_assets() -> str:
    """Return the beginning of a hash over all assets."""
    found = hashlib.sha256()
    for file in sorted(files("rowbus.web").joinpath("assets").iterdir(), key=lambda one: one.name):
        if file.is_file():
            found.update(file.read_bytes())
    return found.hexdigest()[:12]
