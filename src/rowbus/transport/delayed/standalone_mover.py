"""The mover without an endpoint: moves what is due while the endpoint does not run, in a process of its own or yours.

Invariant: nothing touches the database before `start`, and after `stop` nothing is left running.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from rowbus.database.backends import addresses_of, open_database
from rowbus.database.location import resolve_dsn
from rowbus.database.locks import require_sessions
from rowbus.database.sessions import connected
from rowbus.database.statements import run_steps_now
from rowbus.messages.headers import Identity
from rowbus.running.critical import Alarm, callback_of
from rowbus.running.host import this_host
from rowbus.running.service import Lifetime
from rowbus.running.signals import Serving
from rowbus.settings import NativeDelayedDelivery
from rowbus.transport.delayed.installer import create_delayed, require_delayed
from rowbus.transport.delayed.mover import MoverService, open_session
from rowbus.transport.delayed.moves import DueMoves, Fallback, send_now
from rowbus.transport.delayed.table import delayed_address, delayed_table
from rowbus.transport.queues.destination_rule import moved_destinations
from rowbus.transport.queues.table import queue_table

if TYPE_CHECKING:
    from rowbus.database.sessions import AsyncSession, Database
    from rowbus.running.critical import OnCriticalError

logger = logging.getLogger("rowbus.delaying")

APPLICATION_NAME = "rowbus mover"


class DelayedMover(Serving):
    """Moves an endpoint's delayed messages to their queues when they are due.

    A started endpoint has one already. This is for processes that only send (`Client(…, delay_through="Web")`), and for
    endpoints that are down for long. As many as you like may run: one leads, the others stand by and take over within
    seconds; movers of NServiceBus instances of the endpoint may run beside them.

    ```python
    async with rowbus.DelayedMover("Web", database="postgresql://…"):
        ...
    ```
    """

    def __init__(
        self,
        endpoint: str,
        *,
        database: str | None = None,
        schema: str | None = None,
        error_queue: str = "error",
        settings: NativeDelayedDelivery | None = None,
        on_critical_error: OnCriticalError | None = None,
    ) -> None:
        """Describe the mover; no I/O.

        `endpoint` names the table, `<endpoint>.Delayed`. `database` is a libpq connection string; none given, the
        environment variable ROWBUS_DATABASE, else the embedded server. Its session holds a lock, so it must not go
        through a pooler in transaction mode. What cannot be moved to its queue goes through the endpoint's own queue if
        there is one, else to `error_queue`. `on_critical_error(text, error)` is called, once for each outage, when
        moving has failed for 30 s. Raises InvalidAddressError.
        """
        self.settings = settings or NativeDelayedDelivery()
        addresses = addresses_of(database, schema)
        addresses.validate_endpoint_name(endpoint, delayed_suffix=self.settings.table_suffix)
        self.endpoint = endpoint
        self.database = database
        self.address = delayed_address(endpoint, self.settings, addresses)
        self._own = addresses.for_endpoint(endpoint)
        self._error_queue = addresses.from_user(error_queue)
        self._on_critical_error = callback_of(on_critical_error, logger)
        self._lifetime: Lifetime[MoverService] = Lifetime(self)

    async def install(self) -> bool:
        """Create the table of delayed messages if it is missing; say whether it was.

        Raises ConnectionLostError, ConfigurationError (the schema is missing).
        """
        session = await (await self._locate()).connect()
        try:
            return await create_delayed(session, self.address)
        finally:
            await session.close()

    def run_once(self) -> int:
        """Move all that is due now, whether this or another mover leads; return how many messages. Blocks.

        Raises ConnectionLostError, QueueNotFoundError (there is no such table), StorageError.
        """
        return asyncio.run(self._move_all())

    def send_now(self, message_id: str) -> bool:
        """Move the message of this id to its queue before it is due; say whether that was done. Blocks.

        In a transaction of its own. False: no message of this id waits, or another mover has it in its hands, which is
        not waited for, so that nothing is sent twice. Reads the whole table. Raises ConnectionLostError,
        QueueNotFoundError (there is no such table, or the message's queue is missing), DestinationRefusedError,
        StorageError; then the message waits on.
        """
        database = open_database(resolve_dsn(self.database), application_name=APPLICATION_NAME)
        destinations = moved_destinations(self.settings.allowed_destinations, self.address)
        steps = send_now(delayed_table(self.address), self._own, destinations, message_id)
        with database.session() as session, session.transaction():
            return run_steps_now(session, steps) > 0

    async def start(self) -> None:
        """Begin to stand by, and to lead as soon as no other mover does. Harmless when started.

        Raises ConnectionLostError, QueueNotFoundError (there is no such table).
        """
        await self._lifetime.begin(self._begin)

    async def _begin(self) -> MoverService:
        database = await self._locate()
        await asyncio.to_thread(require_sessions, database, "A mover")
        async with connected(database) as session:
            fallback = await self._fallback(session)
        alarm = Alarm(self._on_critical_error)
        service = MoverService(database, self.address, fallback, self.settings, alarm)
        await service.start()
        return service

    async def stop(self, timeout: float | None = None) -> None:  # noqa: ASYNC109 - a grace period
        """Finish the batch in hand and let another mover lead. After `timeout` seconds the batch is rolled back."""
        await self._lifetime.end(timeout)

    @property
    def is_leading(self) -> bool:
        """Whether this mover, of all of this table, is the one that moves."""
        service = self._lifetime.run
        return service is not None and service.leads.is_set()

    async def _move_all(self) -> int:
        table = delayed_table(self.address)
        session = await open_session(await self._locate(), table)
        try:
            moves = DueMoves(table, await self._fallback(session), self.settings.batch_size)
            moved = await moves.move_all(session)
            if moves.failure is not None and not moved:
                raise moves.failure
            return moved
        finally:
            await session.close()

    async def _fallback(self, session: AsyncSession) -> Fallback:
        await require_delayed(session, self.address)
        own = self._own if await session.run(queue_table(self._own).exists()) else None
        destinations = moved_destinations(self.settings.allowed_destinations, self.address)
        return Fallback(
            own, self._error_queue, Identity(self.endpoint, *this_host(self.endpoint)), destinations
        )

    async def _locate(self) -> Database:
        dsn = await asyncio.to_thread(resolve_dsn, self.database)
        return open_database(dsn, application_name=APPLICATION_NAME)
