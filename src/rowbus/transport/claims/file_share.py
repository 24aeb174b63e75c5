"""A folder that many machines see, where .NET's FileShareClaimCheck keeps values too: a folder an hour, a file a value.

Invariant: a file is complete, and on the disk, before its key is known; a key leads to nothing outside of the folder.
"""

from __future__ import annotations

import os
import re
import time
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Final
from uuid import uuid4

from rowbus.errors import ClaimNotFoundError, Unrecoverable
from rowbus.transport.claims.claim_table import is_in_table

if TYPE_CHECKING:
    from collections.abc import Iterator

HOUR: Final = "%Y-%m-%d_%H"
"""The name of an hour's folder, in UTC."""

_FOLDERS: Final = "????-??-??_??"
_KEY: Final = re.compile(r"[^/\\:\0]+(?:[/\\][^/\\:\0]+)*")


class FileShare:
    """Keeps the values of a `ClaimCheck` in files. In any thread; without state, so that processes may share a folder.

    What a transaction that is rolled back has kept stays, as does what was handled: see `purge`.
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        """Use a folder, which is there when the first value is kept or looked for. No I/O."""
        self.folder = Path(folder)

    def put(self, value: bytes) -> str:
        """Write a value to a file of its own, flushed to the disk, and return its key; raises OSError.

        No transaction takes part: a rollback leaves the file.
        """
        key = f"{datetime.now(UTC).strftime(HOUR)}/{uuid4()}"
        path = self.folder / key
        path.parent.mkdir(exist_ok=True)
        with path.open("xb") as file:
            file.write(value)
            file.flush()
            os.fsync(file.fileno())
        for folder in (path.parent, self.folder):
            _flush(folder)
        return key

    def get(self, key: str) -> bytes:
        """Return a value; raises ClaimNotFoundError when there is no file, OSError when it cannot be read.

        A key has the separator of the system that wrote it. One that leads out of the folder raises
        Unrecoverable: such a message is not tried again.
        """
        path = self._path(key)
        try:
            return path.read_bytes()
        except FileNotFoundError:
            raise _is_gone(key, path) from None

    def size(self, key: str) -> int:
        """Return the bytes of a value, and read none of it; raises as `get`."""
        path = self._path(key)
        try:
            return path.stat().st_size
        except FileNotFoundError:
            raise _is_gone(key, path) from None

    def purge(self, older_than: timedelta) -> int:
        """Remove the files that were written longer ago than that, and say how many; raises OSError.

        Choose it longer than any message may wait: in a queue, delayed, in the error queue. Only files in folders of
        hours are touched, also those of .NET; folders that are empty go. Purges at the same time do no harm.
        """
        latest = time.time() - older_than.total_seconds()
        purged = sum(_removed(path, latest) for path in self._files())
        for folder in self._folders():
            with suppress(OSError):  # there are files in it, or it is gone
                if folder.stat().st_mtime < latest:
                    folder.rmdir()
        return purged

    def _files(self) -> Iterator[Path]:
        return (path for folder in self._folders() for path in folder.glob("*"))

    def _folders(self) -> Iterator[Path]:
        """Yield the folders of hours; a link that has such a name leads out of the share, and is left alone."""
        return (folder for folder in self.folder.glob(_FOLDERS) if not folder.is_symlink())

    def _path(self, key: str) -> Path:
        if is_in_table(key):
            raise Unrecoverable(
                f"The message keeps a value in a table, under {key}, but values are looked for in {self.folder} here. "
                "Give this endpoint ClaimCheck(rowbus.ClaimTable()), then have the message tried again: "
                "rowbus errors retry."
            )
        parts = re.split(r"[/\\]", key)
        path = self.folder.joinpath(*parts) if _KEY.fullmatch(key) else None
        if path is None or not path.resolve().is_relative_to(self.folder.resolve()):
            raise Unrecoverable(f"The key {key!r} is that of no file in {self.folder}: it leads out of it.")
        return path


def _is_gone(key: str, path: Path) -> ClaimNotFoundError:
    return ClaimNotFoundError(
        f"The value that the message keeps under {key} is not there: no file {path}. Is the share mounted, and was the "
        "file purged? Put it back, then have the message tried again: rowbus errors retry.",
        key=key,
    )


def _removed(path: Path, latest: float) -> bool:
    try:
        if path.lstat().st_mtime >= latest:
            return False
        path.unlink()
    except FileNotFoundError:
        return False  # another was faster
    return True


def _flush(folder: Path) -> None:
    """Have a folder's new names on the disk, where the system can say so of a folder."""
    if not hasattr(os, "O_DIRECTORY"):
        return
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
