"""The servers that comparisons run on: default durability, one for each version that is asked for.

Invariant: none outlives the run, nor do its files.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from rowbus.database.embedded import Cluster

SETTINGS = {"max_connections": "300"}
"""So that 64 processes have their connections; all else is the default."""

_running: dict[Path, str] = {}


def running(binaries: Path, stack: ExitStack) -> str:
    """Give the DSN of a server with these binaries, started now if there is none; it runs until the stack ends."""
    if binaries not in _running:
        _running[binaries] = stack.enter_context(_server(binaries))
    return _running[binaries]


@contextmanager
def _server(binaries: Path) -> Iterator[str]:
    directory = Path(tempfile.mkdtemp(prefix="rowbus-bench-"))
    directory.chmod(0o711)  # the server runs as another user when we are root
    cluster = Cluster(binaries, directory / "server", settings=SETTINGS)
    try:
        cluster.start()
        yield cluster.dsn
    finally:
        cluster.stop("immediate")
        shutil.rmtree(directory)
        del _running[binaries]
