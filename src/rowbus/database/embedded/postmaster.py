"""Facts of the operating system about a server's processes.

Invariant: no process is taken for a server because of its number alone. Numbers are used again, after the restart of a
container usually for something else, so the command line has to name the data directory too. Only world-readable
parts of `/proc` are read: root in a container may not look into other users' processes.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

POLL_SECONDS = 0.01
_NO_SUCH_PID = 2**31 - 1  # above any pid_max
_STATUS_LINE = 8


def running(data: Path) -> int | None:
    """Give the pid of the server that runs on this data directory, or None."""
    pid = _pid(_recorded(data))
    arguments = _read(Path(f"/proc/{pid}/cmdline")).split(b"\0")
    return pid if arguments[1:3] == [b"-D", os.fsencode(data)] else None


def is_ready(data: Path, pid: int) -> bool:
    """Say whether the server of this pid has told, in its pid file, that it takes connections."""
    recorded = _recorded(data)
    return len(recorded) >= _STATUS_LINE and recorded[0] == str(pid) and recorded[_STATUS_LINE - 1] == "ready"


def free_stale_pid(data: Path) -> None:
    """Let a server start although its last one's pid now belongs to some other program.

    PostgreSQL takes any living process with the pid in `postmaster.pid` for a server in use and refuses to start. The
    pid in the file is replaced by one that cannot exist; the rest of the file stays, for from it PostgreSQL finds out
    whether an old server's children are still at work in the directory. A pid of any postgres is left to PostgreSQL.
    """
    recorded = _recorded(data)
    if _read(Path(f"/proc/{_pid(recorded)}/comm")) in {b"", b"postgres\n"}:
        return
    file = data / "postmaster.pid"
    owner = file.stat()
    new = data / "postmaster.pid.rowbus"
    new.unlink(missing_ok=True)
    # Exclusive, and renamed into place: as root we never write through a link that the server's user has laid.
    with new.open("x", encoding="utf-8", errors="surrogateescape") as replacement:
        os.fchown(replacement.fileno(), owner.st_uid, owner.st_gid)
        os.fchmod(replacement.fileno(), 0o600)
        replacement.write("\n".join([str(_NO_SUCH_PID), *recorded[1:], ""]))
    new.rename(file)


def send(pid: int, what: signal.Signals) -> None:
    """Send a signal to a process, which may have ended meanwhile."""
    with suppress(ProcessLookupError):
        os.kill(pid, what)


def kill_with_children(pid: int) -> None:
    """End a server and all its processes with SIGKILL, as a power cut would, and wait until they are gone."""
    send(pid, signal.SIGSTOP)  # so that it starts no more of them while we look
    family = [pid, *_children(pid)]
    for member in family:
        send(member, signal.SIGKILL)
    wait_until(lambda: not any(is_alive(member) for member in family), seconds=30)


def is_alive(pid: int) -> bool:
    """Say whether there is such a process and it has not ended; a zombie has."""
    return _status(pid)[:1] not in ([], ["Z"])


def wait_until(condition: Callable[[], bool], *, seconds: float) -> bool:
    """Poll until something is so; say whether it came to that in time."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(POLL_SECONDS)
    return True


def _recorded(data: Path) -> list[str]:
    text = _read(data / "postmaster.pid").decode("utf-8", "surrogateescape")
    return [line.strip() for line in text.splitlines()]


def _pid(recorded: list[str]) -> int:
    return int(recorded[0]) if recorded and recorded[0].isdecimal() else 0  # 0: never in /proc


def _children(pid: int) -> list[int]:
    everybody = (int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit())
    return [process for process in everybody if _status(process)[1:2] == [str(pid)]]


def _status(pid: int) -> list[str]:
    """State, parent and more; empty when there is no such process. The name before them may contain anything."""
    return _read(Path(f"/proc/{pid}/stat")).decode("utf-8", "replace").rpartition(")")[2].split()


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except (FileNotFoundError, PermissionError, ProcessLookupError):
        return b""
