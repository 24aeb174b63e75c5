"""The lock of an archive: one process at a time writes it.

Invariant: the operating system releases the lock when its process ends, however it ends.
"""

from __future__ import annotations

import fcntl
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from rowbus.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Generator
    from pathlib import Path

_FILE: Final = "_lock"


@contextmanager
def locked(folder: Path) -> Generator[None]:
    """Lock an archive, without waiting; raises ConfigurationError while another process holds the lock."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / _FILE).open("a", encoding="utf-8") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ConfigurationError(
                f"Another process is writing {folder}; stop it, then archive again."
            ) from None
        yield
