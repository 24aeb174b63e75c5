"""Rowbus: messaging in the database a team already runs.

Invariant: its names are those of `rowbus.facade`, which loads the whole library when the first is asked for, so that
`rowbus --help` need not; has our loggers escape what they write, and does nothing else.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from rowbus.running.loggers import escape_all as _escape_all

if TYPE_CHECKING:
    from rowbus import lake as lake
    from rowbus.facade import *  # noqa: F403 - type checkers see the names, which stand in one list
    from rowbus.facade import __all__ as __all__

    __version__: str
else:

    def __getattr__(name: str) -> object:
        if name == "__version__":
            from importlib.metadata import version  # noqa: PLC0415 - a twentieth of a second

            return version("rowbus")
        if name == "lake":
            return import_module("rowbus.lake")
        facade = import_module("rowbus.facade")
        if name != "__all__" and name not in facade.__all__:
            raise AttributeError(f"module 'rowbus' has no attribute {name!r}")
        return globals().setdefault(name, getattr(facade, name))

    def __dir__() -> list[str]:
        return sorted({*globals(), *import_module("rowbus.facade").__all__})


_escape_all()
