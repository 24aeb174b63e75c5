"""The messages in a worker process's hand, noted where they outlive it: a file that it and its supervisor see.

A process that is killed writes no log and rolls back what it had in hand. What it handled at that moment is known from
here only. The file is mapped into memory: a note costs microseconds, and the operating system keeps it
when the process dies; nothing has to reach a disk, because the notes are worthless after the machine has gone down.
The file has no name: the worker inherits it open, and it is gone when both processes have ended, however they end.

Invariant: a note is whole or not there, whenever the process dies; more than the file can hold is not noted.
"""

from __future__ import annotations

import mmap
import os
import tempfile
from contextlib import suppress
from functools import cache
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from typing import IO

VARIABLE: Final = "ROWBUS_IN_HAND"
"""The environment variable in which a supervisor tells a worker the file: its descriptor, device and number."""

ENTRIES: Final = 512
SIZE: Final = 1024  # bytes of an entry: the length in two bytes, then the text
_LENGTH: Final = 2
_SEPARATOR: Final = "\0"


class RowInHand(NamedTuple):
    """One thing in hand: a row of a queue. `alone`: it was suspected before, and handled alone, at first at least."""

    queue: str
    row_id: str
    alone: bool = False


class InHand:
    """The notes of this process, in a file that its supervisor made."""

    def __init__(self, file: str) -> None:
        """Take over the file that `address` names; raises OSError and ValueError if this process did not inherit it."""
        descriptor = int(file.partition(" ")[0])
        if _address(descriptor) != file:
            raise ValueError(f"Descriptor {descriptor} is another file.")
        self._notes = mmap.mmap(descriptor, ENTRIES * SIZE)
        os.close(descriptor)
        self._free = list(range(ENTRIES))

    def note(self, held: RowInHand) -> int | None:
        """Note what is taken in hand now; return the entry for `clear`, None if there is no room."""
        text = _SEPARATOR.join((held.queue, held.row_id, "alone" if held.alone else "")).encode()
        if not self._free or len(text) > SIZE - _LENGTH:
            return None
        entry = self._free.pop()
        start = entry * SIZE
        self._notes[start + _LENGTH : start + _LENGTH + len(text)] = text
        self._notes[start : start + _LENGTH] = len(text).to_bytes(_LENGTH, "big")
        return entry

    def clear(self, entry: int | None) -> None:
        """Note that it is not in hand any more."""
        if entry is not None:
            self._notes[entry * SIZE : entry * SIZE + _LENGTH] = bytes(_LENGTH)
            self._free.append(entry)


@cache
def of_this_process() -> InHand | None:
    """Return the notes of this process; None without a supervisor, or where its file cannot be opened."""
    file = os.environ.get(VARIABLE)
    if file:
        with suppress(OSError, ValueError):
            return InHand(file)
    return None


def prepare() -> IO[bytes]:
    """Make the file of a process that is to start, empty. Raises OSError."""
    file = tempfile.TemporaryFile()  # noqa: SIM115 - the caller closes it
    file.truncate(ENTRIES * SIZE)
    return file


def address(file: IO[bytes]) -> str:
    """Return what to tell the process that inherits the file, in the environment variable `VARIABLE`."""
    return _address(file.fileno())


def read(file: IO[bytes]) -> list[RowInHand]:
    """Return what the process had in hand when it ended."""
    file.seek(0)
    entries = iter(lambda: file.read(SIZE), b"")
    return [_held(entry) for entry in entries if any(entry[:_LENGTH])]


def has_worked(file: IO[bytes]) -> bool:
    """Say whether the process ever had something in hand: what is cleared loses its length, not its text."""
    file.seek(0)
    return any(file.read(ENTRIES * SIZE))


def _address(descriptor: int) -> str:
    """Name a file so that a process which has another one open under this number notices."""
    status = os.fstat(descriptor)
    return f"{descriptor} {status.st_dev} {status.st_ino}"


def _held(entry: bytes) -> RowInHand:
    length = int.from_bytes(entry[:_LENGTH], "big")
    queue, row_id, alone = entry[_LENGTH : _LENGTH + length].decode().split(_SEPARATOR)
    return RowInHand(queue, row_id, bool(alone))
