"""Lanes in the database, on PostgreSQL: statements on their rule, holders and messages, and the watch over who works.

The watch is a thread that asks who works on an endpoint's lanes, and so shows that this process does. It is a thread
because a handler may block the event loop: its process works, and keeps its lanes.

Invariants: each statement runs in its runner's transaction, and waits for nothing unless it says so. While the watch
goes on, the server has seen this process within `PERIOD`, as long as it answers.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

from rowbus.database.statements import Query, Statement, affected, load, no_rows, raw_source, scalar
from rowbus.errors import RowbusError
from rowbus.running.threads import run_in_thread
from rowbus.transport.lanes.rule import Holder, Lanes, Survey, read_lanes

if TYPE_CHECKING:
    from rowbus.database.sessions import Database, Session
    from rowbus.database.statements import Rows
    from rowbus.messages.address import QueueAddress

logger = logging.getLogger("rowbus.lanes")

PERIOD: Final = 1.0  # seconds between two looks
PATIENCE: Final = 4.0  # seconds without a look after which a process is taken to have stopped
ENDS_WITHIN: Final = 5.0  # seconds in which a look on its way is waited for at the end
_FOLDER: Final = "transport/lanes/sql/postgresql"


class Rule(NamedTuple):
    """The rule by which a queue has lanes; `is_ours` says whether its function is as this Rowbus makes it."""

    lanes: Lanes
    is_ours: bool

    def gives(self, lanes: Lanes | None) -> bool:
        """Say whether these are the lanes; weights are the program's alone."""
        return lanes is not None and self.lanes.arguments == lanes.arguments


class LaneTable:
    """Statements on the queue of an endpoint that has lanes."""

    def __init__(self, address: QueueAddress) -> None:
        """Take the endpoint's own queue. No I/O."""
        self.address = address
        self._members, self._beats = f"rowbus lanes {address}", f"rowbus lane beats {address}"

    def find_rule(self) -> Statement[Rule | None]:
        """Find by what rule the queue has lanes; None if it has none. Locks nothing."""
        _, body, _ = raw_source(f"{_FOLDER}/create_function.sql").split("$function$")
        query = _load("find_rule", self.address, "Failed to look for the lanes of")
        return Statement(query, {"table_name": self.address.canonical, "body": body}, _rule)

    def create(self, lanes: Lanes) -> list[Statement[None]]:
        """Have the queue's trigger put messages into these lanes: to run in one transaction, which locks it."""
        kind, header, names = lanes.arguments
        trigger = _load(
            "create_trigger", self.address, "Failed to give lanes to", kind=kind, header=header, lanes=names
        )
        lock, function, enable = (
            _load(each, self.address, "Failed to give lanes to")
            for each in ("lock_function", "create_function", "enable_trigger")
        )
        return [Statement(query, {}, no_rows) for query in (lock, function, trigger, enable)]

    def drop(self) -> Statement[None]:
        """Have messages stay in the queue. Locks it until the transaction ends."""
        return Statement(_load("drop_trigger", self.address, "Failed to take the lanes of"), {}, no_rows)

    def lock(self, table: QueueAddress) -> Statement[None]:
        """Keep everybody from the queue or a lane until the transaction ends. Waits for those that use it."""
        return Statement(_load("lock_table", table, "Failed to lock"), {}, no_rows)

    def move_out(self, lane: QueueAddress, header: str) -> Statement[int]:
        """Send what a lane has, or what of the queue itself names a lane, anew; say how many."""
        query = _load("move_out", self.address, f"Failed to move the messages of {lane} to", lane=lane.table)
        return Statement(query, {"all": lane != self.address, "header": header}, scalar)

    def join(self, process: int) -> Statement[bool]:
        """Have others see that a process works here, as long as the session asks something."""
        query = _load("join_members", self.address, "Failed to join the processes of")
        return Statement(query, {"beats": self._beats, "process": process}, scalar)

    def take(self, lane: QueueAddress, process: int) -> Statement[bool]:
        """Take a lane for the session's life; say whether it is this session's."""
        query = _load("take_lane", self.address, "Failed to take a lane of")
        names = {"members": self._members, "lane": lock_of(lane)}
        return Statement(query, {**names, "process": process}, scalar)

    def keep(self, lane: QueueAddress) -> Statement[bool]:
        """Keep others from a lane that this session has, until its transaction ends."""
        query = _load("keep_lane", self.address, "Failed to keep a lane of")
        return Statement(query, {"lane": lock_of(lane)}, scalar)

    def survey(self, lanes: list[QueueAddress], patience: float) -> Statement[Survey]:
        """Ask who works here, and who has which lane; who has asked nothing for `patience` seconds works no more."""
        locks = {lock_of(lane): number for number, lane in enumerate(lanes)}
        parameters = {
            "lanes": list(locks),
            "members": self._members,
            "beats": self._beats,
            "patience": f"{patience} seconds",
        }
        query = _load("survey", self.address, "Failed to ask who works on the lanes of")
        return Statement(query, parameters, partial(_survey, locks))

    def end_session(self, pid: int) -> Statement[bool]:
        """End a session of a process that answers no more. Raises PermissionDeniedError."""
        return Statement(_load("end_session", self.address, "Failed to free a lane of"), {"pid": pid}, scalar)


def rewrite(
    lane: QueueAddress, row_id: str, position: int, headers: str, *, keeps_expiry: bool
) -> Statement[int]:
    """Give a message other headers where it is; say 1, or 0 when it is gone or in flight."""
    query = _load("rewrite", lane, "Failed to note a retry in")
    parameters = {"row_id": row_id, "position": position, "headers": headers, "keeps_expiry": keeps_expiry}
    return Statement(query, parameters, affected)


def _load(operation: str, table: QueueAddress, failing: str, *, lane: str = "", **literals: str) -> Query:
    return load(
        f"{_FOLDER}/{operation}.sql",
        identifiers={"schema": table.schema, "queue": table.table, "lane": lane},
        literals=literals,
        failing=f"{failing} {table}",
        queue=str(table),
        prepare=False,
    )


def lock_of(lane: QueueAddress) -> str:
    """Name the lock of who has a lane."""
    return f"rowbus lane {lane}"


def _rule(rows: Rows, _count: int) -> Rule | None:
    if not rows:
        return None
    arguments, is_ours = rows[0]
    return Rule(read_lanes(*arguments.split("\\000")[:3]), is_ours)


def _survey(locks: dict[str, int], rows: Rows, _count: int) -> Survey:
    members = sorted(process for lane, _pid, process in rows if lane is None)
    holders = {locks[lane]: Holder(pid, process) for lane, pid, process in rows if lane and pid is not None}
    return Survey(tuple(members), holders)


# ------------------------------------------------------------------------------------------------------------ the watch


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
