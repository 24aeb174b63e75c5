"""An endpoint's contract, published in the database: at the start, and again for as long as it runs.

Invariant: nothing is published where the table is a stranger's or not granted; what fails here, code of the messages'
classes included, keeps no endpoint from its start.
"""

from __future__ import annotations

import hashlib
import logging
from typing import TYPE_CHECKING, Final

import msgspec

from rowbus.errors import RowbusError
from rowbus.running.critical import Alarm, ReportedBreaker, log_lasting
from rowbus.running.service import Periodic
from rowbus.transport.published_contracts.table import (
    LARGEST,
    SEEN_EVERY,
    contracts_address,
    contracts_table,
)
from rowbus.transport.queues.installer import make_table
from rowbus.transport.queues.table import queue_table

if TYPE_CHECKING:
    from rowbus.database.sessions import AsyncSession, SessionPool
    from rowbus.endpoint.parts import Parts
    from rowbus.transport.published_contracts.table import PublishedContractsTable

logger = logging.getLogger("rowbus.endpoint")

LOCK_WAIT: Final = 200  # milliseconds that a start waits for who has locked the table
DIGITS: Final = 16  # of a version


def document_of(parts: Parts) -> str:
    """Return an endpoint's contract as the text of an AsyncAPI document; empty where it agrees on nothing.

    Raises what its messages' classes raise.
    """
    from rowbus.contracts.asyncapi import to_asyncapi  # noqa: PLC0415 - loaded where it is asked for
    from rowbus.endpoint.description import contract_of_parts  # noqa: PLC0415 - likewise

    contract = contract_of_parts(parts)
    return msgspec.json.encode(to_asyncapi(contract)).decode() if contract.uses else ""


class ContractPublisher(Periodic):
    """Publishes the contract of one endpoint. For one event loop."""

    def __init__(self, pool: SessionPool, parts: Parts) -> None:
        """Take the endpoint's parts. No I/O."""
        self._parts = parts
        self.table = contracts_table(contracts_address(parts.addresses))
        self._document = ""
        self._pool = pool
        told = f"the contract of {parts.name} in {self.table.address}"
        alarm = Alarm(log_lasting(logger))
        outages = ReportedBreaker(f"Publishing {told}", f"Could not publish {told}", logger, alarm)
        super().__init__("rowbus contract", outages, SEEN_EVERY.total_seconds(), at_once=False)

    async def begin(self, session: AsyncSession, *, can_be_used: bool) -> None:
        """Publish for the first time, in a transaction of its own; say in the log why that cannot be."""
        try:
            self._document = document_of(self._parts)
        except Exception:
            text = "Endpoint %s publishes no contract: its messages cannot be described"
            logger.warning(text, self._parts.name, exc_info=True)
        if len(self._document.encode()) > LARGEST:
            text = "Endpoint %s publishes no contract: its document has more than the %s bytes that are read"
            logger.warning(text, self._parts.name, LARGEST)
            self._document = ""
        if not self._document:
            return
        try:
            if not can_be_used and self._parts.settings.install:
                await _create(session, self.table)
                can_be_used = await session.run(self.table.can_be_used())
            if can_be_used:
                await self._publish(session)
        except RowbusError as error:
            logger.info("The contract of endpoint %s is not published now: %s", self._parts.name, error)

    async def do(self) -> None:
        """Note that a process of this version is still there. Raises StorageError."""
        if self._document:
            async with self._pool.session() as session:
                if await session.run(self.table.can_be_used()):
                    await self._publish(session)

    async def _publish(self, session: AsyncSession) -> None:
        version = hashlib.sha256(self._document.encode()).hexdigest()[:DIGITS]
        publish = self.table.publish(self._parts.name, version, self._document)
        patience = queue_table(self.table.address).limit_lock_wait(LOCK_WAIT)
        await session.run_all([*patience, publish], atomic=True)


async def _create(session: AsyncSession, table: PublishedContractsTable) -> None:
    """Create the table if it is missing and this role may."""
    if not await session.run(table.exists()) and await session.run(table.can_be_changed()):
        await make_table(session, table)
