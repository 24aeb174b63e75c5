"""`rowbus run --reload`: the same command below this process, begun again when a .py file of the project changes.

Invariant: the command drains before it is begun again, as after SIGTERM, and does not outlive this process.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

from rowbus.running.waiting import pause

if TYPE_CHECKING:
    from asyncio.subprocess import Process
    from collections.abc import Iterator, Sequence

logger = logging.getLogger("rowbus.cli")

PERIOD: Final = 0.5  # seconds between two looks at the files
# In the command's environment: its standard input is a lifeline.
RELOADED_VARIABLE: Final = "_ROWBUS_RELOADED"
NOT_OURS: Final = frozenset({"__pycache__", "node_modules"})
CLEAN_EXITS: Final = frozenset({0, -signal.SIGTERM})  # -SIGTERM: told to stop before it had begun


class Reloader:
    """A command that is begun again with each change of a folder's programs. For one event loop."""

    def __init__(self, arguments: Sequence[str], folder: Path) -> None:
        """Take the arguments of `rowbus` and where its programs are. No I/O."""
        self._arguments = arguments
        self._folder = folder
        self._stopping = asyncio.Event()
        self._process: Process | None = None
        self._keeper: asyncio.Task[None] | None = None
        self._lifeline = (-1, -1)

    @property
    def clean(self) -> bool:
        """Whether the command finished what it had in hand when it ended last."""
        return self._process is None or self._process.returncode in CLEAN_EXITS

    async def start(self) -> None:
        """Begin the command, and watch."""
        self._lifeline = os.pipe()
        self._keeper = asyncio.create_task(self._keep(), name="rowbus reload")

    async def stop(self, timeout: float | None = None) -> None:  # noqa: ASYNC109 - a grace period
        """Drain the command; after `timeout` seconds, or when the caller is cancelled, interrupt it."""
        self._stopping.set()
        if self._keeper is None:
            return
        try:
            await asyncio.wait([self._keeper], timeout=timeout)
        finally:
            if not self._keeper.done():
                self._tell()  # the second time: it interrupts what is in hand, and ends within seconds
                await asyncio.wait([self._keeper])
            for end in self._lifeline:
                os.close(end)

    async def _keep(self) -> None:
        while not self._stopping.is_set():
            before = written(self._folder)
            self._process = await self._begin()
            if changed := await self._change(before, self._process):
                logger.info("%s changed: starting again", changed)
            self._tell()
            await self._process.wait()

    async def _begin(self) -> Process:
        """Start the command in a session of its own, so that Ctrl-C in a terminal reaches this process alone."""
        return await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "rowbus", *self._arguments),
            stdin=self._lifeline[0],
            env=os.environ | {RELOADED_VARIABLE: "1"},
            start_new_session=True,
        )

    async def _change(self, before: dict[Path, int], process: Process) -> str:
        """Wait until a file is not as it was, and name it; the name is empty when this process is to stop."""
        noted = False
        while not self._stopping.is_set():
            if changed := before.items() ^ written(self._folder).items():
                return str(min(changed)[0].relative_to(self._folder))
            if process.returncode is not None and not noted:
                logger.warning("It ended with code %s: waiting for a change", process.returncode)
                noted = True
            await pause(self._stopping, PERIOD)
        return ""

    def _tell(self) -> None:
        if self._process is not None and self._process.returncode is None:
            self._process.terminate()


def written(folder: Path) -> dict[Path, int]:
    """Return when each .py file in a folder was written; hidden folders and virtual environments are left out."""
    return {path: path.stat().st_mtime_ns for path in _programs(folder) if path.exists()}


def _programs(folder: Path) -> Iterator[Path]:
    for place, folders, files in os.walk(folder):
        folders[:] = [
            one for one in folders if one[0] != "." and one not in NOT_OURS and not _is_venv(place, one)
        ]
        yield from (Path(place, name) for name in files if name.endswith(".py"))


def _is_venv(place: str, folder: str) -> bool:
    return Path(place, folder, "pyvenv.cfg").exists()
