"""The user's verbs for the embedded server as a whole: look at it, stop it for all, begin anew.

Invariant: it is stopped, and its data removed, under `change.lock`: no process joins it meanwhile, and one that waits
for that starts it again. The locks' files stay, as the processes that hold them go on.
"""

from __future__ import annotations

import shutil
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from rowbus.database.embedded import postmaster, shared_server
from rowbus.database.embedded.cluster import Cluster
from rowbus.database.embedded.directories import make_directory, server_account
from rowbus.errors import EmbeddedServerError


class ServerState(NamedTuple):
    """An embedded server as it is now; `process` is None while it is stopped, `size` in bytes, of its data."""

    directory: Path
    version: str | None
    process: int | None
    users: list[int]
    size: int


def state_of(cluster: Cluster) -> ServerState:
    """Look at a server, without starting it; `version` is None when it has no data yet."""
    with suppress(FileNotFoundError):
        return ServerState(
            cluster.directory,
            (cluster.data / _VERSION).read_text("ascii").strip(),
            postmaster.running(cluster.data),
            shared_server.sharers(cluster.directory / "users.lock"),
            sum(map(_size, cluster.data.rglob("*"))),
        )
    return ServerState(cluster.directory, None, None, [], 0)


def stop_for_all(cluster: Cluster) -> bool:
    """Stop a server although processes use it, whose sessions end; say whether it was running.

    Waits for processes that are starting or stopping it. The next process to ask for it starts it again.
    Raises `EmbeddedServerError` for a folder that belongs to another user.
    """
    if not cluster.directory.exists():
        return False
    with _alone(cluster):
        was_running = cluster.is_running
        cluster.stop()
    return was_running


def remove_data(cluster: Cluster) -> bool:
    """Stop a server and remove its data and its logs for good; say whether there were any.

    Raises `EmbeddedServerError` when the folder `data` is not PostgreSQL's, or belongs to another user.
    """
    if not cluster.data.exists():
        return False
    with _alone(cluster):
        if not (cluster.data / _VERSION).exists():
            raise EmbeddedServerError(
                f"{cluster.data} is no data of PostgreSQL's (it has no {_VERSION}), so it stays: remove it yourself.",
                log="",
            )
        cluster.stop()
        old = cluster.directory / "data.old"
        shutil.rmtree(old, ignore_errors=True)  # of a removal that was killed
        cluster.data.rename(old)
        shutil.rmtree(old)
        for log in cluster.directory.glob("server.log*"):
            log.unlink()
    return True


_VERSION = "PG_VERSION"


@contextmanager
def _alone(cluster: Cluster) -> Generator[None]:
    make_directory(cluster.directory, server_account(cluster.data))  # which is there: it is checked
    with shared_server.opened(cluster.directory / "change.lock") as change:
        shared_server.lock(change)
        yield


def _size(file: Path) -> int:
    try:
        return file.lstat().st_size
    except FileNotFoundError:  # the server removes files all the time
        return 0
