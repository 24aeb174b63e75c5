"""The store that the how-to page shows, as its readers copy it.

Invariant: the code is the page's, character for character.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

from rowbus import DelayedMessageStore

PAGE = Path(__file__).resolve().parents[3] / "docs" / "how-to" / "write-a-delayed-message-store.md"


def code() -> str:
    """Return the page's module `file_store`."""
    (found,) = re.findall(
        r"```python\n(# file_store[.]py\n.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL
    )
    return str(found)


def file_store(path: Path, clock: Callable[[], float] = time.time) -> DelayedMessageStore:
    """Make the page's store."""
    module = ModuleType("file_store")
    exec(compile(code(), "file_store.py", "exec"), module.__dict__)  # noqa: S102 - our own page
    store: DelayedMessageStore = module.FileStore(path, clock)
    return store
