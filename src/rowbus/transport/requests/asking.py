"""Asking, as long as an asker is started: the queue of its answers, and the sends of its requests.

Invariant: a request is expected before it leaves; `stop` leaves nothing running and nothing waiting.
"""

from __future__ import annotations

import asyncio
import logging
from secrets import token_hex
from typing import TYPE_CHECKING, Final, TypeVar

from rowbus.database.statements import run_as_one
from rowbus.errors import InvalidHeaderError, NoAnswerError
from rowbus.messages.bodies.serializer import Serializers
from rowbus.messages.headers import Header
from rowbus.messages.mutators import bound_mutators
from rowbus.messages.outgoing import Origin
from rowbus.running.bounded import Bounded
from rowbus.running.critical import Alarm, log_critical
from rowbus.settings import LARGEST_MESSAGE
from rowbus.transport.client import Inserts
from rowbus.transport.composition import Composer
from rowbus.transport.requests.decisions import discriminator, shortened
from rowbus.transport.requests.receiver import AnswerReader, AnswerReceiver, PendingRequests, Sweeper

if TYPE_CHECKING:
    import builtins
    from collections.abc import Sequence

    from rowbus.database.sessions import Database
    from rowbus.messages.address import Addresses
    from rowbus.messages.bodies.serializer import Serializer
    from rowbus.messages.dispatch import AnySend
    from rowbus.messages.headers import Identity
    from rowbus.messages.mutators import Mutator
    from rowbus.messages.outgoing import Options
    from rowbus.transport.composition import Destination

logger = logging.getLogger("rowbus.requests")

A = TypeVar("A")
SENDERS: Final = 4  # connections for the sends of requests


class Asking:
    """A started asker. For one event loop."""

    def __init__(
        self,
        database: Database,
        addresses: Addresses,
        sender: Identity,
        *,
        serializer: Serializer,
        mutators: Sequence[Mutator],
        answer_queue: str | None = None,
    ) -> None:
        """Ask in the name of a sender, whose answers come to a new queue, or to the one named. No I/O."""
        own = (
            addresses.for_endpoint(answer_queue)
            if answer_queue
            else addresses.for_endpoint(shortened(sender.endpoint), discriminator=discriminator(token_hex(8)))
        )
        own.validate()
        address = (
            own.folded
        )  # the sweeper of another asker takes the name, and so the lock, from the list of tables
        bound = bound_mutators(mutators, addresses, LARGEST_MESSAGE)
        self._composer = Composer(
            addresses, Origin(sender, address.canonical), serializer=serializer, mutators=bound
        )
        self._inserts = Inserts(self._composer.address("SubscriptionRouting"))
        self.address = address
        self._serializers = Serializers((serializer,))
        self._readers: dict[builtins.type, AnswerReader] = Bounded()
        self._pool = database.pool(SENDERS)
        self._pending = PendingRequests(bound, self._pool)
        alarm = Alarm(log_critical(logger))
        self._receiver = AnswerReceiver(
            database, address, self._pending, alarm, is_kept=answer_queue is not None
        )
        self._sweeper = Sweeper(database, address, alarm)

    async def start(self) -> None:
        """Create the queue, and begin to receive. Raises ConnectionLostError, ConfigurationError, StorageError."""
        await self._pool.open()
        await self._receiver.start()
        await self._sweeper.start()

    async def stop(self, timeout: float | None = None) -> None:  # noqa: ASYNC109 - a grace period
        """Give all requests up, drop the queue, and close what is open."""
        try:
            await self._receiver.stop(timeout)
            await self._sweeper.stop(0)
        finally:
            await self._pending.end(self._stopped())
            await self._pool.close()

    async def request(
        self,
        destination: Destination,
        message: object,
        answer: builtins.type[A],
        options: Options,
        *,
        timeout: float,  # noqa: ASYNC109 - the wait is the point
    ) -> A:
        """Send a message, and return its answer; raises NoAnswerError after `timeout` seconds."""
        read = self._reader(answer)
        send = self._composer.compose(destination, message, options)
        correlation_id = self._correlation_of(send)
        expected = self._pending.add(correlation_id, read)
        limit = asyncio.timeout(timeout)
        try:
            async with limit:
                await self._ask(send)
                found: A = await expected
                return found
        except TimeoutError as error:
            if not limit.expired():
                raise
            raise _unanswered(send, timeout) from error
        finally:
            self._pending.give_up(correlation_id)

    def _correlation_of(self, send: AnySend) -> str:
        """Return what the answer will name; raises InvalidHeaderError where it would not come here, or be another's."""
        headers = send.message.headers
        if headers.get(Header.REPLY_TO_ADDRESS) != self.address.canonical:
            raise InvalidHeaderError(
                "A request cannot name another queue for its answer, which would never come: leave the header out, or "
                "send the message with a client.",
                header=Header.REPLY_TO_ADDRESS,
                reason="not this client's",
            )
        correlation_id = headers.get(Header.CORRELATION_ID) or send.message.message_id
        if self._pending.expects(correlation_id):
            raise InvalidHeaderError(
                f"A request of the id {correlation_id} waits already, and an answer could be of either: give each "
                "its own.",
                header=Header.CORRELATION_ID,
                reason="not unique",
            )
        return correlation_id

    def _reader(self, kind: builtins.type) -> AnswerReader:
        """Return what reads answers of a kind, made when it is first asked for."""
        found = self._readers.get(kind)
        if found is None:
            found = self._readers[kind] = AnswerReader(kind, self._serializers)
        return found

    async def _ask(self, send: AnySend) -> None:
        statements = self._inserts.of(send)
        self._receiver.asked()
        async with self._pool.session() as session:
            await run_as_one(session, statements)

    def _stopped(self) -> NoAnswerError:
        return NoAnswerError(
            "The client stopped while it waited for the answer; the message may still be handled.",
            message_id="",
            destination="",
        )


def _unanswered(send: AnySend, timeout: float) -> NoAnswerError:
    message_id, what = send.message.message_id, send.message.headers.get(Header.ENCLOSED_MESSAGE_TYPES)
    return NoAnswerError(
        f"{send.destination} has not answered {what} (message {message_id}) within {timeout:g} s. Look whether it "
        "waits in that queue, or failed and is in the error queue; it may still be handled, and its answer is dropped "
        "then.",
        message_id=message_id,
        destination=str(send.destination),
    )
