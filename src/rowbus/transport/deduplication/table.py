"""The inbox: a table in which a database remembers the messages it has, so that each has its effects once.

`Inbox` and `AsyncInbox` are for handlers whose effects are not on `context.connection`: in a transaction of their own,
or in another database. (An endpoint with the setting `deduplicate_for` does by itself what they do, in the receive
transaction.)

Invariants: nothing here names a database. Inboxes commit nothing: a message is noted when the caller's transaction
commits. `InboxKeeper` has those of every `RecordKeeper`.
"""

from __future__ import annotations

import logging
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from rowbus.database.backends import borrow, borrow_async, bound_table
from rowbus.database.statements import Statement, no_rows, run_steps, run_steps_now
from rowbus.transport.queues.owners import refuse_foreign
from rowbus.transport.queues.records.keys import key_of
from rowbus.transport.queues.records.table import (
    INSTALL,
    INTERVAL,
    OwnTable,
    RecordKeeper,
    RecordStatements,
    run_until_none,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rowbus.database.sessions import AsyncSession, SessionPool
    from rowbus.messages.address import Addresses, QueueAddress
    from rowbus.messages.message import MessageRow
    from rowbus.running.critical import Alarm
    from rowbus.transport.queues.table import QueueTable

INBOX: Final = "Inbox"
"""The qualifier of the table: `Billing.Inbox`."""

PURGE_BATCH: Final = 1000  # rows that `purge` deletes by one statement
BATCH: Final = 1000  # rows that the keeper deletes in one transaction
WEEK: Final = timedelta(days=7)


class InboxTable(RecordStatements):
    """Statements on the table of what an endpoint has processed; each runs in its runner's transaction."""

    folder = "transport/deduplication"
    variable = "inbox"
    remedy = (
        "the table does not exist; starting an endpoint with deduplicate_for creates it, as do "
        "`rowbus schema install MODULE:ENDPOINT` and Inbox.create()."
    )

    def __init__(self, address: QueueAddress) -> None:
        """Bind the SQL files to the table. No I/O."""
        super().__init__(address)
        self._accept = self._load("accept", "Failed to note a message in", prepare=True)
        self._take_back = self._load("take_back", "Failed to take a message back from")
        self._purge = self._load("purge", "Failed to forget old messages of")

    def accept(self, message_id: str) -> Statement[bool]:
        """Note a message, and say whether it is new.

        Waits for a transaction that has just noted the same: if that commits, it is not new.
        """
        raise NotImplementedError

    def receive(
        self, table: QueueTable, most: int, lower_bound: int, *, most_bytes: int, passed_over: Sequence[int]
    ) -> Statement[list[MessageRow]]:
        """Take messages of one of the endpoint's queues as its table does, and note each that can be noted with it.

        Waits as `accept` does. A database that cannot do so notes none.
        """
        return table.receive(most, lower_bound, most_bytes=most_bytes, passed_over=passed_over)

    def take_back(self, message_id: str) -> Statement[None]:
        """Take back what was noted of a message, which was not processed after all."""
        return Statement(self._take_back, {"message_key": key_of(message_id)}, no_rows)

    def purge(self, older_than: timedelta, batch_size: int) -> Statement[int]:
        """Forget up to `batch_size` messages accepted longer ago than that, and say how many."""
        raise NotImplementedError


def inbox_table(address: QueueAddress) -> InboxTable:
    """Return the statements on a table of processed messages. No I/O."""
    table: InboxTable = bound_table("rowbus.transport.deduplication", "InboxTable", address)
    return table


def own_inbox(address: QueueAddress) -> OwnTable:
    """Return a table of processed messages as an endpoint has it."""
    called = "the table of processed messages"
    return OwnTable(inbox_table(address), called, f"{INSTALL}, or do without: deduplicate_for=None")


def inbox_address(endpoint: str, addresses: Addresses) -> QueueAddress:
    """Return the table of what an endpoint has processed."""
    return addresses.for_endpoint(endpoint, qualifier=INBOX)


class Inbox:
    """Notes in a database what one endpoint has processed there, through your synchronous connection to it.

    ```python
    with connection.transaction():
        if rowbus.Inbox(connection, "Billing").accept(context.message_id):
            charge(connection, message)
    ```
    """

    def __init__(self, connection: object, endpoint: str, *, schema: str | None = None) -> None:
        """Use a connection, which stays yours; the table is `<endpoint>.Inbox`. `schema`: None for the default one.

        Raises ConfigurationError for connections of other libraries, InvalidAddressError for names that are too long.
        """
        borrowed = borrow(connection, schema)
        self._borrowed = borrowed.session
        self._table = _table(endpoint, borrowed.addresses)

    def accept(self, message_id: str) -> bool:
        """Note a message in your transaction, and say whether it is new: if not, do nothing about it.

        Waits for a transaction that has just noted the same, until that ends. Raises StorageError.
        """
        return self._borrowed().run(self._table.accept(message_id))

    def create(self) -> None:
        """Create the table, in your transaction, if it is missing.

        Raises ConfigurationError for one of a role that yours cannot trust.
        """
        session = self._borrowed()
        with session.transaction():
            session.run_all(self._table.create())
            run_steps_now(session, refuse_foreign(self._table.address))

    def purge(self, older_than: timedelta = WEEK) -> int:
        """Forget what was accepted longer ago than that, and say how many messages; never waits.

        In autocommit mode in transactions of 1000 messages each.
        """
        total = 0
        while purged := self._borrowed().run(self._table.purge(older_than, PURGE_BATCH)):
            total += purged
        return total


class AsyncInbox:
    """The asynchronous twin of `Inbox`."""

    def __init__(self, connection: object, endpoint: str, *, schema: str | None = None) -> None:
        """Use a connection, which stays yours; see `Inbox`."""
        borrowed = borrow_async(connection, schema)
        self._borrowed = borrowed.session
        self._table = _table(endpoint, borrowed.addresses)

    async def accept(self, message_id: str) -> bool:
        """Note a message in your transaction, and say whether it is new; see `Inbox.accept`."""
        return await (await self._borrowed()).run(self._table.accept(message_id))

    async def create(self) -> None:
        """Create the table, in your transaction, if it is missing; see `Inbox.create`."""
        session = await self._borrowed()
        async with session.transaction():
            await session.run_all(self._table.create())
            await run_steps(session, refuse_foreign(self._table.address))

    async def purge(self, older_than: timedelta = WEEK) -> int:
        """Forget what was accepted longer ago than that, and say how many messages; see `Inbox.purge`."""
        session, total = await self._borrowed(), 0
        while purged := await session.run(self._table.purge(older_than, PURGE_BATCH)):
            total += purged
        return total


def _table(endpoint: str, addresses: Addresses) -> InboxTable:
    addresses.validate_endpoint_name(endpoint)
    address: QueueAddress = inbox_address(endpoint, addresses)
    address.validate()
    return inbox_table(address)


class InboxKeeper(RecordKeeper):
    """Keeps one endpoint's inbox within its retention. For one event loop."""

    what = "old messages"
    logger = logging.getLogger("rowbus.inbox")

    def __init__(
        self,
        pool: SessionPool,
        table: InboxTable,
        remember: timedelta,
        alarm: Alarm,
        *,
        interval: float = INTERVAL,
    ) -> None:
        """Forget what was accepted longer ago than `remember`. No I/O."""
        super().__init__(pool, table.address, alarm, interval=interval)
        self._table = table
        self._remember = remember

    async def forget_on(self, session: AsyncSession) -> int:
        """Forget all messages that are older; return how many."""
        return await run_until_none(session, self._table.purge(self._remember, BATCH))
