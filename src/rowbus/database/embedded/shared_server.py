"""One server for all processes of a user: the first starts it, later ones join it, the last to leave stops it.

Every process that uses the server shares the lock `users.lock` until it ends, however it ends. A watcher process, not
related to any of them, is the server's parent and stops it when it gets that lock for itself.

Invariants: `change.lock` is held, by one side or the other, from before the look at what is running until what follows
from it is done. So no process joins a server that is being stopped, and two processes never start two. A lock belongs
to the open file, not to the process. A child that inherits the descriptor holds the lock with its parent, until both
have closed it; so nothing here unlocks a descriptor it may share.
"""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
import threading
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from rowbus.database.embedded.binaries import ROOT_STATE, find_binaries, major_version
from rowbus.database.embedded.cluster import Cluster
from rowbus.database.embedded.directories import make_directory, placed, server_account
from rowbus.errors import EmbeddedServerError


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


READY = "ready"
"""The watcher's word when the server takes connections; anything else it says is why it does not."""

_joined: dict[Path, int] = {}
_one_thread = threading.Lock()


def embedded_dsn(directory: Path | None = None) -> str:
    """Join this user's embedded server, starting it if it is not running, and give its address.

    The server runs at least until this process ends. May wait: about a second for a new server, longer when it has to
    recover from a crash. The data is kept in `default_directory()` unless another one is given.
    Raises `EmbeddedServerError` when there is no server to start, or it does not start.
    """
    binaries = find_binaries()
    return join(Cluster(binaries, directory or default_directory(binaries)))


def default_directory(binaries: Path) -> Path:
    """Name the folder of this user's server, for the major version of these binaries.

    `ROWBUS_EMBEDDED_DIRECTORY` if that is set; else for root `/var/lib/rowbus`, which the server's user can reach, and
    for others `$XDG_DATA_HOME/rowbus`, by default `~/.local/share/rowbus`, with `postgresql-18` below it.
    """
    given = os.environ.get("ROWBUS_EMBEDDED_DIRECTORY")
    if given:
        return Path(given)
    data_home = os.environ.get("XDG_DATA_HOME") or "~/.local/share"
    state = ROOT_STATE if os.geteuid() == 0 else Path(data_home, "rowbus").expanduser()
    return state / f"postgresql-{major_version(binaries)}"


@placed()
def join(cluster: Cluster) -> str:
    """Start a server or join the one on the same directory, and give its address.

    It runs until every process that joined it has ended or called `leave`. Its settings are those of its first
    process. Waits for processes that are starting or stopping it. Raises `EmbeddedServerError` when it does not start.
    """
    make_directory(cluster.directory, server_account(cluster.data))
    with _one_thread, opened(cluster.directory / "change.lock") as change:
        lock(change)
        _use(cluster.directory)
        with opened(cluster.directory / "watcher.lock") as watcher:
            if not (cluster.is_running and _is_held(watcher)):
                lock(watcher)  # after a crash the old watcher is just about to notice, and end
                _start_watcher(cluster, change, watcher)
    return cluster.dsn


def leave(cluster: Cluster) -> None:
    """Stop using a server before this process ends; it is stopped when no other process uses it."""
    with _one_thread:
        users = _joined.pop(cluster.directory, None)
        if users is not None:
            os.close(users)


def _use(directory: Path) -> None:
    users = _joined.get(directory)
    if users is not None and is_deleted(users):
        os.close(_joined.pop(directory))
        users = None
    if users is None:
        _joined[directory] = open_lock(directory / "users.lock")
        share(_joined[directory])


def _is_held(descriptor: int) -> bool:
    with tried(descriptor) as free:
        return not free


def _start_watcher(cluster: Cluster, change: int, watcher: int) -> None:
    module = "rowbus.database.embedded.watcher"
    settings = [f"{name}={value}" for name, value in cluster.settings.items()]
    paths = [str(cluster.directory), str(cluster.binaries)]
    done = subprocess.run(
        [sys.executable, "-P", "-m", module, *paths, str(change), str(watcher), *settings],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        check=False,
        text=True,
        errors="replace",
        pass_fds=(change, watcher),  # it holds both locks with us, and goes on should we be killed here
        env=os.environ | {"PYTHONPATH": os.pathsep.join(path or str(Path.cwd()) for path in sys.path)},
        start_new_session=True,
    )
    answer = done.stdout.strip()
    if answer != READY:
        text = answer or "The embedded server's watcher did not start."
        raise EmbeddedServerError(text, log=cluster.log_tail())
