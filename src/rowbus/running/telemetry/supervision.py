"""What a supervisor tells of its workers: their measurements, each with the worker's number, and whether all serve.

A worker listens on a socket in a folder that only this user may enter. Counters of a worker that was replaced begin at
0 again, in its own series, as Prometheus expects of a process that was started anew.

Invariant: a worker that does not answer in time is left out, and counts as not ready.
"""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import TYPE_CHECKING, Final

from rowbus.running.telemetry.exposition import CONTENT_TYPE, exposition, merged
from rowbus.running.telemetry.listener import Answer
from rowbus.running.telemetry.process import process_families
from rowbus.running.telemetry.service import Told

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rowbus.running.telemetry.listener import Address
    from rowbus.running.workers import Workers

PATIENCE: Final = 2.0  # seconds that a worker has for an answer
_STATUS: Final = re.compile(rb"HTTP/1\.1 (\d+)")


class ToldWorkers(Told):
    """Workers, of whom their supervisor tells."""

    def __init__(self, workers: Workers, address: Address | None, folder: str) -> None:
        """Ask the workers through the sockets in `folder`."""
        super().__init__(workers, address)
        self._workers = workers
        self._folder = Path(folder)

    async def metrics(self) -> Answer:
        """Return what the workers measured, and what is known of the supervisor."""
        answers = await self._ask("/metrics")
        texts = [(number, body) for number, (status, body) in answers.items() if status == 200]  # noqa: PLR2004 - HTTP's
        own = exposition(process_families(is_ready=await self.is_ready()))
        return Answer(merged([*texts, ("supervisor", own)], "worker"), type=CONTENT_TYPE)

    async def troubles(self) -> Sequence[str]:
        """Return the workers that do not serve."""
        answers = await self._ask("/readyz")
        ready = {number for number, (status, _) in answers.items() if status == 200}  # noqa: PLR2004 - HTTP's
        wanted = [str(number) for number in range(1, self._workers.count + 1)]
        return [f"worker {number}" for number in wanted if number not in ready]

    async def _ask(self, page: str) -> dict[str, tuple[int, str]]:
        pids = self._workers.processes()
        answers = await asyncio.gather(*(_get(self._folder / f"{pid}.sock", page) for pid in pids.values()))
        return {
            str(number): answer for number, answer in zip(pids, answers, strict=True) if answer is not None
        }


async def _get(socket: Path, page: str) -> tuple[int, str] | None:
    """Ask one worker; None: it does not answer."""
    try:
        async with asyncio.timeout(PATIENCE):
            reader, writer = await asyncio.open_unix_connection(socket)
            try:
                writer.write(f"GET {page} HTTP/1.1\r\n\r\n".encode())
                answer = await reader.read()
            finally:
                writer.close()
    except (OSError, TimeoutError):
        return None
    head, _, body = answer.partition(b"\r\n\r\n")
    status = _STATUS.match(head)
    return None if status is None else (int(status[1]), body.decode("utf-8", "replace"))
