"""Tables of facts: what their statements have in common, on every database; and what keeps them short.

A family of tables is a class below `RecordStatements` (its statements) and one for each database, which is also a
`RecordTable` of `records/<database>.py` (how they are loaded, and how answers are read).

Invariants: nothing here names a database; a keeper waits for no lock: it passes over rows that another one deletes, a
batch a transaction.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar, Final, NamedTuple, Protocol

from rowbus.database.statements import Statement, no_rows
from rowbus.running.critical import ReportedBreaker
from rowbus.running.service import Periodic

if TYPE_CHECKING:
    import logging
    from collections.abc import Awaitable, Callable, Mapping
    from datetime import datetime

    from rowbus.database.sessions import AsyncSession, SessionPool
    from rowbus.database.statements import Loader, Query, Rows
    from rowbus.messages.address import QueueAddress
    from rowbus.running.critical import Alarm
    from rowbus.transport.queues.table import RecordTable


INSTALL: Final = "create it with `rowbus schema install MODULE:ENDPOINT` or install=True"


class ForSenders(Protocol):
    """A table that those write to who send to its endpoint."""

    def grant_keep(self, role: str) -> Statement[None]:
        """Let a role write what senders write."""
        raise NotImplementedError


class OwnTable(NamedTuple):
    """A table that an endpoint has for itself: what it is called, and what to do when it is missing."""

    table: RecordTable
    called: str
    remedy: str = INSTALL
    is_viewed: bool = False
    """Whether people look into it, and operators change it."""
    sender: ForSenders | None = None
    """The grant of senders on it, if they write to it."""
    check: Callable[[AsyncSession], Awaitable[None]] | None = None
    """The check of its endpoint before it begins to receive; raises ConfigurationError for what cannot work."""


class RecordStatements:
    """Statements on one table; each runs in its runner's transaction."""

    folder: ClassVar[str]
    """The subject; its files are in `<folder>/sql/<database>`."""

    variable: ClassVar[str]
    """The name in its files."""

    remedy: ClassVar[str]
    """The remedy when it is missing."""

    loader: ClassVar[Loader]
    """Loads the database's files."""

    privileges: ClassVar[tuple[str, ...]] = ()
    """The privileges that a role needs on it that uses it where it is there; for tables that may be missing."""

    def __init__(self, address: QueueAddress) -> None:
        """Bind the SQL files to the table. No I/O."""
        self.address = address

    def create(self) -> list[Statement[None]]:
        """Create the table if it is missing: in one transaction. Another creator may make it fail; see `installer`."""
        raise NotImplementedError

    def exists(self) -> Statement[bool]:
        """Say whether the table exists."""
        raise NotImplementedError

    def can_be_changed(self) -> Statement[bool]:
        """Say whether this role may read, write and delete from the table, or create it if it is missing."""
        raise NotImplementedError

    def can_be_used(self) -> Statement[bool]:
        """Say whether the table is there, of a trusted owner, and this role has the privileges that it needs."""
        raise NotImplementedError

    def which_can_be_used(self, *others: RecordStatements) -> Statement[list[QueueAddress]]:
        """Return the addresses of those, of this table and others, that can be used."""
        raise NotImplementedError

    def grant(self, role: str) -> Statement[None]:
        """Let a role do what endpoints do with it."""
        return Statement(self._load("grant", f"Failed to grant {role} privileges on", role=role), {}, no_rows)

    def _load(self, operation: str, failing: str, *, prepare: bool = False, **names: str) -> Query:
        """Load a file; `names` are what it calls other things than the table."""
        return self.loader(
            f"{self.folder}/sql/{self.address.backend}/{operation}.sql",
            identifiers={**self._place(), self.variable: self.address.table, **names},
            failing=f"{failing} {self.address}",
            remedy=self.remedy,
            prepare=prepare,
        )

    def _place(self) -> Mapping[str, str]:
        """Return what the files call the place of the table."""
        raise NotImplementedError

    def _counted(self, rows: Rows, count: int) -> int:
        """Decode an answer that is a number of rows."""
        raise NotImplementedError

    def _instant(self, value: Any) -> datetime:  # noqa: ANN401 - what the driver makes of it
        """Return a column's time as an aware datetime."""
        raise NotImplementedError


INTERVAL: Final = 60.0  # seconds, give or take a fifth, between two looks


class RecordKeeper(Periodic):
    """Keeps one table within its time. For one event loop."""

    what: ClassVar[str]
    """The kind of rows that it forgets."""

    logger: ClassVar[logging.Logger]

    def __init__(
        self, pool: SessionPool, address: QueueAddress, alarm: Alarm, *, interval: float = INTERVAL
    ) -> None:
        """Look after a table, and first at the start. No I/O."""
        activity = f"Forgetting {self.what} of {address}"
        failure = f"Could not forget {self.what} of {address}"
        outages = ReportedBreaker(activity, failure, self.logger, alarm)
        super().__init__(f"rowbus {address} keeper", outages, interval, at_once=True)
        self._pool = pool
        self._address = address

    async def forget(self) -> int:
        """Forget all that is over; return how many rows that were. Raises StorageError."""
        async with self._pool.session() as session:
            return await self.forget_on(session)

    @abstractmethod
    async def forget_on(self, session: AsyncSession) -> int:
        """Forget all that is over, batch by batch; return how many rows that were."""

    async def do(self) -> None:
        """Forget, and log how many rows."""
        if forgotten := await self.forget():
            self.logger.debug("Forgot %s %s of %s", forgotten, self.what, self._address)


async def run_until_none(session: AsyncSession, purge: Statement[int]) -> int:
    """Run a statement that deletes a batch until there is nothing left; return how many rows that were."""
    total = 0
    while deleted := await session.run(purge):
        total += deleted
    return total
