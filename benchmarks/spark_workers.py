"""The memory of the Python processes that work for Spark: its workers, and this one where it works itself.

Invariant: a process that was there before begins with what it has now, so an earlier comparison does not count.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

LOOK = 0.2  # seconds


@contextmanager
def watched_workers(*, driver: bool = False) -> Iterator[list[int]]:
    """Note the peak memory in bytes of the Python processes below this one, as long as the block lasts.

    With `driver` this process counts, too: what the driver does itself, no worker does.
    """
    peaks: list[int] = []
    ended = threading.Event()
    own = {os.getpid()} if driver else set[int]()
    for pid in own | _below(os.getpid()):
        with suppress(OSError):
            Path(f"/proc/{pid}/clear_refs").write_text("5")  # its peak is what it has now

    def watch() -> None:
        while not ended.wait(LOOK):
            peaks.extend(_peak(pid) for pid in own | _below(os.getpid()) if "python" in _command(pid))

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield peaks
    finally:
        peaks.extend(_peak(pid) for pid in own)
        ended.set()
        thread.join()


def _below(pid: int) -> set[int]:
    found: set[int] = set()
    with suppress(FileNotFoundError):  # it has ended
        for path in Path(f"/proc/{pid}/task").glob("*/children"):
            for child in _text(path).split():
                found |= {int(child)} | _below(int(child))
    return found


def _peak(pid: int) -> int:
    lines = _text(Path(f"/proc/{pid}/status")).splitlines()
    return next((int(line.split()[1]) * 1_024 for line in lines if line.startswith("VmHWM:")), 0)


def _command(pid: int) -> str:
    return _text(Path(f"/proc/{pid}/cmdline")).split("\0")[0]


def _text(path: Path) -> str:
    try:
        return path.read_text("utf-8", errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return ""
