"""The process that is a shared server's parent, and stops it when its last user has left.

`shared_server` starts it, with the arguments DIRECTORY BINARIES CHANGE WATCHER [NAME=VALUE …]; CHANGE and WATCHER
are descriptors of locks that it inherits. It detaches itself, so that it belongs to no program and no terminal.

Invariant: it stops the server only while it holds both `change.lock` and `users.lock` alone: then no process uses the
server, and none can begin to. It holds `watcher.lock` as long as it lives.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from contextlib import ExitStack
from pathlib import Path
from types import FrameType

from rowbus.database.embedded import shared_server
from rowbus.database.embedded.cluster import Cluster
from rowbus.database.embedded.shared_server import READY
from rowbus.errors import EmbeddedServerError

POLL_SECONDS = 0.1


def main(arguments: list[str]) -> None:
    """Start or adopt the server of a directory, say so on standard output, and watch until it is not needed."""
    directory, binaries, change, watcher, *settings = arguments
    if os.fork() != 0:
        os._exit(0)  # the process that started us must not be left with a child it does not know
    os.chdir("/")
    for lock in (int(change), int(watcher)):
        os.set_inheritable(lock, False)  # noqa: FBT003 - the parameter has no name
    signal.signal(signal.SIGTERM, _end)
    cluster = Cluster(Path(binaries), Path(directory), settings=dict(s.split("=", 1) for s in settings))
    try:
        _start(cluster, int(change))
        _watch(cluster)
    finally:
        cluster.stop()


def _end(_signal: int, _frame: FrameType | None) -> None:
    sys.exit()


def _start(cluster: Cluster, change: int) -> None:
    try:
        cluster.start()
    except EmbeddedServerError as error:
        sys.exit(str(error))
    print(READY, flush=True)  # noqa: T201 - this is what the starter waits for
    _let_go_of_output()
    os.close(change)


def _let_go_of_output() -> None:
    nowhere = os.open(os.devnull, os.O_RDWR)
    for descriptor in (1, 2):
        os.dup2(nowhere, descriptor)
    os.close(nowhere)


def _watch(cluster: Cluster) -> None:
    users = shared_server.open_lock(cluster.directory / "users.lock")
    change = shared_server.open_lock(cluster.directory / "change.lock")
    while cluster.is_running and not shared_server.is_deleted(users):
        with ExitStack() as held:
            if all(held.enter_context(shared_server.tried(lock)) for lock in (change, users)):
                cluster.stop()
                return
        time.sleep(POLL_SECONDS)


if __name__ == "__main__":
    main(sys.argv[1:])
