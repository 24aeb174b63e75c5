"""Locks between processes, as files: the kernel lets go of them when their holder ends, also by SIGKILL.

Invariant: a lock belongs to the open file, not to the process. A child that inherits the descriptor holds the lock
with its parent, until both have closed it; so nothing here unlocks a descriptor it may share.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path


def open_lock(file: Path) -> int:
    """Open a lock file, made if it is missing, and give its descriptor; nothing is locked yet."""
    return os.open(file, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)


@contextmanager
def opened(file: Path) -> Generator[int]:
    """Open a lock file for a while; the end of it unlocks what was locked, unless a child has inherited it."""
    descriptor = open_lock(file)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def lock(descriptor: int) -> None:
    """Lock it for us alone, after waiting until no other process has it."""
    fcntl.flock(descriptor, fcntl.LOCK_EX)


def share(descriptor: int) -> None:
    """Lock it together with others who share it, after waiting until no process has it alone."""
    fcntl.flock(descriptor, fcntl.LOCK_SH)


@contextmanager
def tried(descriptor: int) -> Generator[bool]:
    """Try to lock it for us alone, without waiting; say whether it worked, and unlock it in the end."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        yield False
        return
    try:
        yield True
    finally:
        fcntl.flock(descriptor, fcntl.LOCK_UN)


def sharers(file: Path) -> list[int]:
    """Give the processes that share it, as far as the kernel tells us; none when there is no such file. No waiting."""
    try:
        found = file.stat()
        held = Path("/proc/locks").read_text("ascii").splitlines()
    except (FileNotFoundError, PermissionError):
        return []
    place = f"{os.major(found.st_dev):02x}:{os.minor(found.st_dev):02x}:{found.st_ino}"
    shared = (line.split()[1:6] for line in held)
    return sorted(
        {int(pid) for kind, _, mode, pid, where in shared if (kind, mode, where) == ("FLOCK", "READ", place)}
    )


def is_deleted(descriptor: int) -> bool:
    """Say whether the lock file is gone from its folder: then new processes lock another one."""
    return os.fstat(descriptor).st_nlink == 0
