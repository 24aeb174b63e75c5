"""One connection of a process that watches all its queues of a database: it listens for all, and looks into all.

A receiver that has nothing to do waits here. It is woken by a notification for its queue and by a look that finds
something; looks that find nothing wake no task. Those due at about the same time are one round trip, up to `AT_ONCE`
tables, each looked into by a statement of its own, whose failure is told to who waits for that table.

Invariant: what waits is woken, or looked for as often as it asks, or it fails; while nothing waits, no task runs and no
connection is open. What wakes a receiver is told once; a failure is raised where the receiver waits.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final, Protocol

from rowbus.database.locks import FULL_DISK_LOCK
from rowbus.database.statements import Statement, load, no_rows
from rowbus.errors import ConnectionLostError, RowbusError, StorageError
from rowbus.running.scope import out_of_scope
from rowbus.running.service import keep
from rowbus.running.telemetry.process import REFUSED_AT, full_disks
from rowbus.running.waiting import cancel

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from rowbus.database.sessions import AsyncSession, Database
    from rowbus.messages.address import QueueAddress


logger = logging.getLogger("rowbus.receiving")

# Seconds; a server that has taken the looks and does not answer in them is away.
ANSWERED_WITHIN: Final = 30.0
PATIENCE: Final = 120.0  # seconds, shared by all that are watched: 200 tables leave each 0.6
# Seconds, while all are busy: then it looks whether the disk is full, in its own memory.
LONGEST_SLEEP: Final = 2.0
TOGETHER: Final = 0.4  # of its pause, by which a look may come early to come with others
AT_ONCE: Final = 200  # tables of one look: what is notified meanwhile waits for it, tens of milliseconds
CONFIGURE: Final = Statement(
    load(
        "transport/queues/sql/postgresql/configure_looks.sql",
        failing="Failed to prepare a session for looks",
        prepare=False,
    ),
    {},
    no_rows,
)


class WatchedTable(Protocol):
    """A table whose channel is notified of what is put into it."""

    @property
    def address(self) -> QueueAddress:
        """Where it is, and its channel."""
        raise NotImplementedError

    def listen(self) -> list[Statement[None]]:
        """Have the session notified."""
        raise NotImplementedError

    def unlisten(self) -> list[Statement[None]]:
        """Have the session no longer notified."""
        raise NotImplementedError

    def show_receiver(self) -> list[Statement[None]]:
        """Have the server show that the session's process receives here."""
        raise NotImplementedError

    def hide_receiver(self) -> list[Statement[None]]:
        """Have it show that no longer."""
        raise NotImplementedError


class Lookout:
    """Watches queues of one database. For one event loop."""

    def __init__(self, database: Database) -> None:
        """Watch in this database. No I/O."""
        self._database = database
        self._members: set[QueueWatch] = set()
        self._due: dict[
            QueueWatch, tuple[float, float]
        ] = {}  # when each is looked for next, after what pause
        self._session: AsyncSession | None = None
        self._heard: dict[str, set[QueueWatch]] = {}  # by channel, for whom the session listens
        self._hearers: set[QueueWatch] = set()  # all of them
        self._shown: set[QueueWatch] = set()  # whom the session shows as receiving
        self._shows_full_disk = False
        self._muted: set[QueueWatch] = set()
        self._hinted: set[QueueWatch] = set()  # notified of while they were busy
        self._until = 0.0  # when the next look is due for which the task sleeps
        self._changed = asyncio.Event()
        self._hearing: asyncio.Future[set[str]] | None = None  # what waits for notifications
        self._task: asyncio.Task[None] | None = None

    async def wait(self, watch: QueueWatch, seconds: float) -> bool:
        """Wait until a watch is woken, here or by others; say whether something was seen or heard here.

        The first look is in so many seconds at the latest. The queue stays listened to: its watch will wait again soon.
        Raises what looking raised.
        """
        watch.is_woken, watch.error = False, None
        if watch in self._hinted:
            self._hinted.discard(watch)
            seconds = 0.0
        self._members.add(watch)
        due = asyncio.get_running_loop().time() + seconds
        self._due[watch] = (due, seconds)
        if due < self._until or watch in self._muted or watch not in self._hearers:
            self._muted.discard(watch)
            self._change()
        if self._task is None:
            keeping = partial(keep, self._run, "rowbus lookout", self, asyncio.Event())
            self._task = out_of_scope(lambda: asyncio.create_task(keeping(), name="rowbus lookout keeper"))
        try:
            await watch.woken.wait()
        finally:
            self._due.pop(watch, None)
        if watch.error is not None:
            raise watch.error
        return watch.is_woken

    @property
    def patience(self) -> float:
        """The time, in seconds, that one of so many may keep a connection that it does not use."""
        return PATIENCE / max(1, len(self._members))

    def mute(self, watch: QueueWatch) -> None:
        """Have the server not notify of a queue that is busy."""
        if watch in self._hearers:
            self._muted.add(watch)
            self._change()

    async def leave(self, watch: QueueWatch) -> None:
        """Forget a watch; the last one that leaves closes the connection."""
        self._members.discard(watch)
        self._due.pop(watch, None)
        self.mute(watch)
        if watch in self._shown:
            self._change()
        task = self._task
        if task is not None and not self._members:
            self._task = None
            session = self._forget()
            try:
                await cancel([task])
            finally:  # also where the caller's patience has ended
                await close(session)

    def ended_unasked(self, name: str, error: BaseException) -> float:
        """Have all who are watched report that the looks ended; they go on waiting, and are looked for again."""
        return max((watch.ended_unasked(name, error) for watch in self._members), default=0.0)

    async def _run(self) -> None:
        try:
            while True:
                try:
                    await self._turn()
                except Exception as error:  # noqa: BLE001 - of any error those who wait are told, and try again
                    await close(self._forget())
                    failed, self._due = self._due, {}
                    for watch in failed:
                        watch.fail(error)
                    await self._changed.wait()
        finally:
            await close(self._forget())

    async def _turn(self) -> None:
        """Listen for what is new, look for what is due, or wait."""
        self._changed.clear()
        session = self._session or await self._connect()
        await self._listen(session)
        await self._show(session)
        now = asyncio.get_running_loop().time()
        first, _ = min(self._due.values(), default=(now + LONGEST_SLEEP, 0.0))
        if first <= now:
            await self._look(session, now)
        else:
            self._until = first
        await self._hear(session, max(0.0, first - now))

    async def _connect(self) -> AsyncSession:
        session = self._session = await self._database.connect_reader()
        await session.run_all([CONFIGURE])
        return session

    async def _listen(self, session: AsyncSession) -> None:
        """Listen for what waits, and no longer for what is busy: in transactions that end before the looks begin."""
        muted, self._muted = self._muted, set()
        for watch in muted & self._hearers:
            self._hearers.discard(watch)
            channel = watch.table.address.channel
            self._heard[channel].discard(watch)
            if not self._heard[channel]:
                del self._heard[channel]
                await session.run_all(watch.table.unlisten())
        unheard = self._due.keys() - self._hearers  # none of hundreds, most of the time
        if not unheard:
            return
        new = {watch.table.address.channel: watch for watch in unheard}
        await session.run_all(
            [each for name, watch in new.items() if name not in self._heard for each in watch.table.listen()]
        )
        self._hearers |= unheard
        for watch in unheard:
            self._heard.setdefault(watch.table.address.channel, set()).add(watch)

    async def _show(self, session: AsyncSession) -> None:
        """Have operators see for whom the process works; a server that refuses the locks hides it, and no more."""
        is_full = bool(REFUSED_AT) and not {self._database.server, ""}.isdisjoint(full_disks())
        if self._members == self._shown and is_full == self._shows_full_disk:
            return
        new, gone = self._members - self._shown, self._shown - self._members
        full = [] if is_full == self._shows_full_disk else [presence(FULL_DISK_LOCK, hidden=not is_full)]
        self._shown, self._shows_full_disk = set(self._members), is_full
        statements = [
            *full,
            *(statement for watch in new for statement in watch.table.show_receiver()),
            *(statement for watch in gone for statement in watch.table.hide_receiver()),
        ]
        try:
            await session.run_all(statements)
        except ConnectionLostError:
            raise
        except StorageError:
            logger.debug("The server does not show who receives", exc_info=True)

    async def _look(self, session: AsyncSession, began: float) -> None:
        """Look for who is due, and for who may be looked for with them: those first that are due first."""
        due = [watch for watch, (when, pause) in self._due.items() if when <= began + TOGETHER * pause]
        watches = sorted(due, key=self._due.__getitem__)[:AT_ONCE]
        looks = [watch.look() for watch in watches]
        answers: Sequence[int | RowbusError] = await session.run_together(
            looks, within=ANSWERED_WITHIN, each=True
        )
        now = asyncio.get_running_loop().time()
        for watch, answer in zip(watches, answers, strict=True):
            if watch not in self._due:
                continue
            if isinstance(answer, RowbusError):
                del self._due[watch]
                watch.fail(answer)
                continue
            pause = watch.looked(answer, (now - began) / len(watches))
            if answer:
                self._wake(watch)
            else:
                self._due[watch] = (now + pause, pause)

    async def _hear(self, session: AsyncSession, seconds: float) -> None:
        """Wait for notifications, until something changes; where it has already, hear those that are there."""
        hearing = asyncio.ensure_future(session.heard(0.0 if self._changed.is_set() else seconds))
        self._hearing = hearing
        try:
            await asyncio.wait([hearing])
        finally:
            self._hearing = None
            if not hearing.done():
                await cancel([hearing])
        for channel in () if hearing.cancelled() else hearing.result():
            for watch in self._heard.get(channel, ()):
                if not self._wake(watch):
                    self._hinted.add(watch)

    def _change(self) -> None:
        """Have what changed be seen to; what waits for notifications first hears those that are there."""
        self._changed.set()
        if self._hearing is not None:
            self._hearing.get_loop().call_soon(self._hearing.cancel)

    def _wake(self, watch: QueueWatch) -> bool:
        if self._due.pop(watch, None) is None:
            return False
        watch.is_woken = True
        watch.woken.set()
        return True

    def _forget(self) -> AsyncSession | None:
        """Forget the session, and what depends on it; return it to be closed."""
        session, self._session = self._session, None
        self._heard.clear()
        self._hearers.clear()
        self._shown.clear()
        self._shows_full_disk = False
        self._muted.clear()
        self._hinted.clear()
        self._until = 0.0
        return session


def presence(lock_name: str, *, hidden: bool = False) -> Statement[None]:
    """Show something of this process by a shared session lock until the session ends, or no longer. Never waits."""
    file = "hide_receiver" if hidden else "show_receiver"
    path = f"transport/queues/sql/postgresql/{file}.sql"
    query = load(path, failing="Failed to show what this process does", prepare=False)
    return Statement(query, {"lock_name": lock_name}, no_rows)


async def close(session: AsyncSession | None) -> None:
    """Close a session, if there is one."""
    if session is not None:
        await session.close()


_lookouts: dict[asyncio.AbstractEventLoop, dict[str, Lookout]] = {}


def lookout_of(database: Database) -> Lookout | None:
    """Return what all receivers of this event loop share in a database; None where nothing can be listened to."""
    if not database.notifies:
        return None
    for loop in list(_lookouts):  # of all threads
        if loop.is_closed():  # weak keys would not do: a lookout refers to its loop
            _lookouts.pop(loop, None)
    lookouts = _lookouts.setdefault(asyncio.get_running_loop(), {})
    return lookouts.setdefault(database.identity, Lookout(database))


@dataclass(eq=False)
class QueueWatch:
    """The wait for messages of one queue at a lookout. For one event loop."""

    table: WatchedTable
    look: Callable[[], Statement[int]]
    looked: Callable[[int, float], float]
    """Hears how many a look found, and how many seconds it took; returns the seconds until the next."""
    woken: asyncio.Event
    """Ends a wait."""
    ended_unasked: Callable[[str, BaseException], float]
    """Hears of a lookout that did."""
    is_woken: bool = False
    """Whether the lookout saw or heard something, perhaps."""
    error: Exception | None = None
    """The end of the looks."""

    def fail(self, error: Exception) -> None:
        """Hear that the looks have ended, and why."""
        self.error = error
        self.woken.set()
