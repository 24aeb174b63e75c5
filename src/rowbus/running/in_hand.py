"""What a worker process has in hand, noted where it outlives the process: a file that both it and its supervisor see.

A process that is killed writes no log and rolls back what it had in hand. What it handled at that moment is known from
here only. The file is mapped into memory: a note costs microseconds, and the operating system keeps it whatever the
process comes to; nothing has to reach a disk, because the notes are worthless after the machine has gone down.

Invariant: a note is whole or not there, whenever the process dies; more than the file can hold is not noted.
"""

from __future__ import annotations

import mmap
import os
from contextlib import suppress
from functools import cache
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from pathlib import Path

VARIABLE: Final = "ROWBUS_IN_HAND"
"""The environment variable in which a supervisor tells a worker the file."""

ENTRIES: Final = 512
SIZE: Final = 1024  # bytes of an entry: the length in two bytes, then the text
_LENGTH: Final = 2
_SEPARATOR: Final = "\0"


class Held(NamedTuple):
    """One thing in hand: a row of a queue. `alone`: it was suspected before, and handled alone, at first at least."""

    queue: str
    row_id: str
    alone: bool = False


class InHand:
    """The notes of this process, in a file that `prepare` made."""

    def __init__(self, path: str) -> None:
        """Open the file; raises OSError."""
        descriptor = os.open(path, os.O_RDWR)
        try:
            self._notes = mmap.mmap(descriptor, ENTRIES * SIZE)
        finally:
            os.close(descriptor)
        self._free = list(range(ENTRIES))

    def note(self, held: Held) -> int | None:
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
    path = os.environ.get(VARIABLE)
    if path:
        with suppress(OSError, ValueError):
            return InHand(path)
    return None


def prepare(path: Path) -> None:
    """Make the file of a process that is to start, empty. Raises OSError."""
    path.unlink(missing_ok=True)
    with path.open("xb") as file:
        file.truncate(ENTRIES * SIZE)


def read(path: Path) -> list[Held]:
    """Return what the process had in hand when it ended; nothing if that cannot be known."""
    try:
        notes = path.read_bytes()
    except OSError:
        return []
    entries = (notes[start : start + SIZE] for start in range(0, len(notes), SIZE))
    return [_held(entry) for entry in entries if any(entry[:_LENGTH])]


def _held(entry: bytes) -> Held:
    length = int.from_bytes(entry[:_LENGTH], "big")
    queue, row_id, alone = entry[_LENGTH : _LENGTH + length].decode().split(_SEPARATOR)
    return Held(queue, row_id, bool(alone))
