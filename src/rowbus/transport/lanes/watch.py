"""The watch over an endpoint's lanes: a thread that asks who works on them, and so shows that this process does.

It is a thread because a handler may block the event loop: its process works, and keeps its lanes.

Invariant: while the watch goes on, the server has seen this process within `PERIOD`, as long as it answers.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Final

from rowbus.errors import RowbusError
from rowbus.running.threads import run_in_thread

if TYPE_CHECKING:
    from rowbus.database.sessions import Database, Session
    from rowbus.messages.address import QueueAddress
    from rowbus.transport.lanes.assignment import Survey
    from rowbus.transport.lanes.lane_table import LaneTable

logger = logging.getLogger("rowbus.lanes")

PERIOD: Final = 1.0  # seconds between two looks
PATIENCE: Final = 4.0  # seconds without a look after which a process is taken to have stopped
ENDS_WITHIN: Final = 5.0  # seconds in which a look on its way is waited for at the end


class LaneWatch:
    """Asks who works on the lanes of one endpoint, again and again. For one event loop."""

    def __init__(self, database: Database, table: LaneTable, lanes: list[QueueAddress], process: int) -> None:
        """Watch these lanes as the process of that number. No I/O."""
        self._database = database
        self._table = table
        self._survey = table.survey(lanes, PATIENCE)
        self._process = process
        self._end = threading.Event()
        self._thread: threading.Thread | None = None
        self._answers: asyncio.Queue[Survey | RowbusError] = asyncio.Queue()

    def start(self) -> None:
        """Begin to ask."""
        self._end.clear()
        run = partial(self._run, asyncio.get_running_loop())
        self._thread = threading.Thread(target=run, name="rowbus lanes", daemon=True)
        self._thread.start()

    async def stop(self) -> None:
        """Ask no more; others see it at once. Harmless when ended."""
        thread, self._thread = self._thread, None
        self._end.set()
        if thread is not None:
            await run_in_thread(thread.join, ENDS_WITHIN)

    async def next(self) -> Survey:
        """Wait for the newest answer. Raises what asking raised."""
        answer = await self._answers.get()
        while not self._answers.empty():
            answer = self._answers.get_nowait()
        if isinstance(answer, RowbusError):
            raise answer
        return answer

    def _run(self, loop: asyncio.AbstractEventLoop) -> None:
        while not self._end.is_set() and not loop.is_closed():
            try:
                with self._database.session() as session:
                    session.run(self._table.join(self._process))
                    self._ask(session, loop)
            except RowbusError as error:
                self._tell(loop, error)
                self._end.wait(PERIOD)

    def _ask(self, session: Session, loop: asyncio.AbstractEventLoop) -> None:
        while not self._end.is_set() and not loop.is_closed():
            self._tell(loop, session.run(self._survey))
            self._end.wait(PERIOD)

    def _tell(self, loop: asyncio.AbstractEventLoop, answer: Survey | RowbusError) -> None:
        with suppress(RuntimeError):  # the loop was closed just now
            loop.call_soon_threadsafe(self._answers.put_nowait, answer)
