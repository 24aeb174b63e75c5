"""Operations: what operators did, while the page runs and afterwards; noted in the transactions that carry them out.

Each is also noted in the log of the process, by the logger `rowbus.web`, when it begins and when it ends; what is kept
here ends with the process.

Invariants: an operation is noted before it does anything; a failure of it reaches its page and never the application;
an operation does nothing before it is noted; what a transaction did is noted in that transaction.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Generator, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from enum import Enum
from typing import TYPE_CHECKING, Final, NamedTuple

from rowbus.errors import ConfigurationError, RowbusError, StorageError
from rowbus.transport.operations import table as trail
from rowbus.transport.operations.discarded.table import begin_to_keep, discarded_address
from rowbus.transport.operations.table import STOPPING, operations_table

if TYPE_CHECKING:
    from rowbus.database.sessions import Session
    from rowbus.messages.address import Addresses, QueueAddress
    from rowbus.transport.operations.discarded.table import Keep
    from rowbus.transport.operations.table import OperationsTable

logger = logging.getLogger("rowbus.web")

MOST_KEPT: Final = 1_000


class State(Enum):
    """The state of an operation."""

    RUNNING = "running"
    DONE = "done"
    STOPPED = "stopped"
    FAILED = "failed"


class Operation:
    """One thing that one operator does. Its work reports to it, in the event loop or in a thread."""

    def __init__(self, who: str, what: str, subject: str, back: str) -> None:
        """Note who does what, to what, and the address of the page to go back to."""
        self.id = secrets.token_hex(8)
        self.who, self.what, self.subject, self.back = who, what, subject, back
        self.began = datetime.now(UTC)
        self.ended: datetime | None = None
        self.state = State.RUNNING
        self.done = 0
        self.stayed = 0
        self.total: int | None = None
        self.text = ""
        self.stopping = False
        """Whether it was asked to stop: the work looks at it between two transactions, and returns early."""

    def advance(self, count: int = 1, *, stayed: int = 0, total: int | None = None) -> None:
        """Say that so many more are done, so many stayed, and how many there are in all, if that is known."""
        self.done += count
        self.stayed += stayed
        self.total = self.total if total is None else total

    @property
    def is_running(self) -> bool:
        """Whether it has not ended."""
        return self.state is State.RUNNING

    def end(self, state: State, text: str) -> None:
        """Note how it ended."""
        self.state, self.text, self.ended = state, text, datetime.now(UTC)


Work = Callable[[Operation], Awaitable[str]]
"""Does an operation and returns a sentence on what came of it. May raise anything."""


class Operations:
    """The latest operations of this process, and those that run."""

    def __init__(self) -> None:
        """Keep the latest `MOST_KEPT`."""
        self._kept: OrderedDict[str, Operation] = OrderedDict()
        self._tasks: set[asyncio.Task[None]] = set()

    def __iter__(self) -> Iterator[Operation]:
        """Give them, the latest first."""
        return reversed(self._kept.values())

    def find(self, identity: str) -> Operation | None:
        """Return an operation; None if it is not, or no longer, known."""
        return self._kept.get(identity)

    def start(self, operation: Operation, work: Work) -> None:
        """Note an operation and have it done in the background. Needs the running event loop."""
        self._kept[operation.id] = operation
        while len(self._kept) > MOST_KEPT:
            self._kept.popitem(last=False)
        logger.info("%s began: %s, %s", operation.who, operation.what, operation.subject)
        task = asyncio.create_task(_carry_out(operation, work), name=f"rowbus web: {operation.what}")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def settle(self, seconds: float) -> None:
        """Wait until nothing runs any more, for so long at most."""
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=seconds)

    async def close(self) -> None:
        """Ask what runs to stop, and cancel what does not within 10 s."""
        for operation in self._kept.values():
            operation.stopping = True
        await self.settle(10)
        for task in tuple(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


async def _carry_out(operation: Operation, work: Work) -> None:
    try:
        text = await work(operation)
    except RowbusError as error:
        operation.end(State.FAILED, str(error))
    except asyncio.CancelledError:
        operation.end(State.STOPPED, "The page was shut down; what had not been committed was undone.")
        raise
    except Exception as error:  # an operation that fails is shown; the page goes on
        logger.exception("%s: %s failed", operation.who, operation.what)
        operation.end(State.FAILED, f"{type(error).__name__}: {error}")
    else:
        operation.end(State.STOPPED if operation.stopping else State.DONE, text)
    finally:
        logger.info(
            "%s ended: %s, %s: %s, %s messages: %s",
            operation.who,
            operation.what,
            operation.subject,
            operation.state.value,
            operation.done,
            operation.text,
        )


MAY_NOT: Final = "42501"  # the SQLSTATE of a privilege that is missing


class Note(NamedTuple):
    """The note that is made when an operation begins."""

    queue: str
    meant: int | None


def begin(session: Session, addresses: Addresses, operation: Operation, note: Note) -> OperationsTable | None:
    """Note that an operation begins; create the log if it is missing. Raises ConfigurationError if the role may not.

    None on a database that keeps no such log: there the page alone remembers.
    """
    if addresses.backend != "postgresql":
        return None
    act = trail.Act(operation.who, operation.what, note.queue, operation.subject, note.meant)
    with _noting_in(operations_table(addresses).address):
        return trail.begin(session, addresses, operation.id, act)


def start_to_keep(session: Session, addresses: Addresses, operation: Operation) -> Keep:
    """Prepare to keep what an operation discards. Raises ConfigurationError if the role may not."""
    with _noting_in(discarded_address(addresses)):
        return begin_to_keep(session, addresses, operation.id)


@contextmanager
def _noting_in(address: QueueAddress) -> Generator[None]:
    try:
        yield
    except StorageError as error:
        if error.sqlstate == MAY_NOT:
            raise _refusal(address, error) from error
        raise


def note(
    session: Session, table: OperationsTable | None, operation: Operation, done: int, stayed: int
) -> None:
    """Note what this transaction did; see that the operation stops, if it was asked to elsewhere."""
    if table is not None and session.run(table.note(operation.id, done, stayed)) == STOPPING:
        operation.stopping = True


def end(
    session: Session, table: OperationsTable | None, operation: Operation, state: State, text: str
) -> None:
    """Note how it ended, and what came of it."""
    if table is not None:
        session.run(table.end(operation.id, state.value, text))


def _refusal(address: QueueAddress, error: StorageError) -> ConfigurationError:
    return ConfigurationError(
        f"Nothing was done: what is done is kept in {address}, and this role may not write there, or create "
        f"it ({error}). Its owner can create and grant it: `rowbus schema grants --web --role ROLE` prints what to run."
    )
