"""One connection of a process that watches all its queues of a database: it listens for all, and looks into all.

A receiver that has nothing to do waits here. It is woken by a notification for its queue and by a look that finds
something; looks that find nothing wake no task. Those due at about the same time are one round trip, up to `AT_ONCE`
tables, each looked into by a statement of its own, whose failure is told to who waits for that table.

Invariant: what waits is woken, or looked for as often as it asks, or it fails; while nothing waits, no task runs and no
connection is open.
"""

from __future__ import annotations

import asyncio
import logging
from functools import partial
from typing import TYPE_CHECKING, Final, Protocol

from rowbus.database.statements import Statement, load, no_rows
from rowbus.errors import ConnectionLostError, RowbusError, StorageError
from rowbus.running.scope import out_of_scope
from rowbus.running.service import keep
from rowbus.running.waiting import cancel

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rowbus.database.sessions import AsyncSession, Database
    from rowbus.messages.address import QueueAddress

logger = logging.getLogger("rowbus.receiving")

ANSWERED_WITHIN: Final = (
    30.0  # seconds; a server that has taken the looks and does not answer in them is away
)
PATIENCE: Final = 120.0  # seconds, shared by all that are watched: 200 tables leave each 0.6
LONGEST_SLEEP: Final = 60.0  # seconds, while all are busy
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


class Watched(Protocol):
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


class Watch(Protocol):
    """What waits: for what table, and what is to be told."""

    @property
    def table(self) -> Watched:
        """The table."""
        raise NotImplementedError

    def look(self) -> Statement[int]:
        """Begin a look; return its statement, which says how many messages are there."""
        raise NotImplementedError

    def looked(self, found: int, seconds: float, /) -> float:
        """Hear what a look found, and how long it took; return the seconds until the next."""
        raise NotImplementedError

    def wake(self) -> None:
        """Hear that there is something, perhaps. Who wakes waits no more."""
        raise NotImplementedError

    def fail(self, error: Exception) -> None:
        """Hear that the looks have ended, and why."""
        raise NotImplementedError

    def ended_unasked(self, name: str, error: BaseException, /) -> float:
        """Hear that the looks stop for a while; return for how many seconds, at the most."""
        raise NotImplementedError


class Lookout:
    """Watches queues of one database. For one event loop."""

    def __init__(self, database: Database) -> None:
        """Watch in this database. No I/O."""
        self._database = database
        self._members: set[Watch] = set()
        self._due: dict[Watch, tuple[float, float]] = {}  # when each is looked for next, after what pause
        self._session: AsyncSession | None = None
        self._heard: dict[str, Watch] = {}  # by channel, what the session listens for
        self._shown: set[Watch] = set()  # whom the session shows as receiving
        self._muted: set[Watch] = set()
        self._hinted: set[Watch] = set()  # notified of while they were busy
        self._until = 0.0  # when the next look is due for which the task sleeps
        self._changed = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def wait(self, watch: Watch, seconds: float) -> None:
        """Have a watch woken, by a look in so many seconds at the latest, if that finds something."""
        if watch in self._hinted:
            self._hinted.discard(watch)
            seconds = 0.0
        self._members.add(watch)
        due = asyncio.get_running_loop().time() + seconds
        self._due[watch] = (due, seconds)
        if (
            due < self._until
            or watch in self._muted
            or self._heard.get(watch.table.address.channel) is not watch
        ):
            self._muted.discard(watch)
            self._changed.set()
        if self._task is None:
            keeping = partial(keep, self._run, "rowbus lookout", self, asyncio.Event())
            self._task = out_of_scope(lambda: asyncio.create_task(keeping(), name="rowbus lookout keeper"))

    @property
    def patience(self) -> float:
        """How long, in seconds, one of so many may keep a connection that it does not use."""
        return PATIENCE / max(1, len(self._members))

    def ignore(self, watch: Watch) -> None:
        """Wake a watch no more, though its queue stays listened to: it will wait again soon."""
        self._due.pop(watch, None)

    def mute(self, watch: Watch) -> None:
        """Have the server not notify of a queue that is busy."""
        if watch in self._heard.values():
            self._muted.add(watch)
            self._changed.set()

    async def leave(self, watch: Watch) -> None:
        """Forget a watch; the last one that leaves closes the connection."""
        self._members.discard(watch)
        self._due.pop(watch, None)
        self.mute(watch)
        if watch in self._shown:
            self._changed.set()
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
                await self._go_on()
        finally:
            await close(self._forget())

    async def _go_on(self) -> None:
        try:
            await self._turn()
        except Exception as error:  # noqa: BLE001 - of any error those who wait are told, and try again
            await close(self._forget())
            failed, self._due = self._due, {}
            for watch in failed:
                watch.fail(error)
            await self._changed.wait()

    async def _turn(self) -> None:
        """Listen for what is new, look for what is due, or wait."""
        self._changed.clear()
        session = await self._connected()
        await self._listen(session)
        await self._show(session)
        now = asyncio.get_running_loop().time()
        first, _ = min(self._due.values(), default=(now + LONGEST_SLEEP, 0.0))
        if first <= now:
            await self._look(session, self._due_by(now)[:AT_ONCE])
        else:
            self._until = first
        await self._hear(session, max(0.0, first - now))

    def _due_by(self, now: float) -> list[Watch]:
        """Return who is to be looked for, and who may be looked for with them: those first that are due first."""
        due = [watch for watch, (when, pause) in self._due.items() if when <= now + TOGETHER * pause]
        return sorted(due, key=self._due.__getitem__)

    async def _connected(self) -> AsyncSession:
        if self._session is None:
            session = await self._database.connect_reader()
            self._session = session
            await session.run_all([CONFIGURE])
        return self._session

    async def _listen(self, session: AsyncSession) -> None:
        """Listen for what waits, and no longer for what is busy: in transactions that end before the looks begin."""
        muted, self._muted = self._muted, set()
        for watch in muted:
            if self._heard.pop(watch.table.address.channel, None) is not None:
                await session.run_all(watch.table.unlisten())
        unheard = self._due.keys() - set(self._heard.values())  # none of hundreds, most of the time
        if not unheard:
            return
        new = [watch for watch in unheard if watch.table.address.channel not in self._heard]
        await session.run_all([statement for watch in new for statement in watch.table.listen()])
        self._heard |= {watch.table.address.channel: watch for watch in new}

    async def _show(self, session: AsyncSession) -> None:
        """Have operators see for whom the process works; a server that refuses the locks hides it, and no more."""
        if self._members == self._shown:
            return
        new, gone = self._members - self._shown, self._shown - self._members
        self._shown = set(self._members)
        statements = [
            *(statement for watch in new for statement in watch.table.show_receiver()),
            *(statement for watch in gone for statement in watch.table.hide_receiver()),
        ]
        try:
            await session.run_all(statements)
        except ConnectionLostError:
            raise
        except StorageError:
            logger.debug("The server does not show who receives", exc_info=True)

    async def _look(self, session: AsyncSession, watches: Sequence[Watch]) -> None:
        time = asyncio.get_running_loop().time
        began = time()
        looks = [watch.look() for watch in watches]
        answers: Sequence[int | RowbusError] = await session.run_together(
            looks, within=ANSWERED_WITHIN, each=True
        )
        now = time()
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
        hearing = asyncio.ensure_future(session.heard(seconds))
        waiting = asyncio.ensure_future(self._changed.wait())
        try:
            await asyncio.wait([hearing, waiting], return_when=asyncio.FIRST_COMPLETED)
            if hearing.done():
                for channel in hearing.result():
                    if (watch := self._heard.get(channel)) is not None and not self._wake(watch):
                        self._hinted.add(watch)
        finally:
            await cancel([hearing, waiting])

    def _wake(self, watch: Watch) -> bool:
        if self._due.pop(watch, None) is None:
            return False
        watch.wake()
        return True

    def _forget(self) -> AsyncSession | None:
        """Forget the session, and what depends on it; return it to be closed."""
        session, self._session = self._session, None
        self._heard.clear()
        self._shown.clear()
        self._muted.clear()
        self._hinted.clear()
        self._until = 0.0
        return session


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
