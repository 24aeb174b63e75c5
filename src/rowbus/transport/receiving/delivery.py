"""A message in hand, as its processing sees it, and the contract of those who process it.

Invariants: headers are a fresh copy at every attempt; nothing an attempt changes or sends outlives its failure, except
what it sent with `send_now`. A call is made after a commit or never: an attempt that fails takes its calls with it.
Nothing that a call does keeps the next from being made.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

from rowbus.database.statements import answer_steps
from rowbus.errors import ConfigurationError, HandlerError, QueueNotFoundError
from rowbus.messages.dispatch import DelayedSend
from rowbus.messages.headers import Header
from rowbus.running.critical import OnCriticalError, report
from rowbus.running.functions import check_function, described, is_unawaited
from rowbus.running.scope import awaited_by, require_unfinished
from rowbus.running.threads import run_in_thread
from rowbus.transport.uniqueness.sending import leaving
from rowbus.work.attempt import Attempt

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rowbus.database.sessions import ReceiveSession
    from rowbus.database.statements import Statement
    from rowbus.messages.address import QueueAddress
    from rowbus.messages.dispatch import AnySend, AppendedEvent, Leaving, Send
    from rowbus.messages.message import MessageRow
    from rowbus.messages.outgoing import UniqueMessageId
    from rowbus.running.threads import Threads
    from rowbus.transport.queues.destination_rule import Destinations
    from rowbus.transport.receiving.dispatcher import Dispatcher
    from rowbus.transport.uniqueness.table import UniqueSend

logger = logging.getLogger("rowbus.receiving")


@dataclass(frozen=True, slots=True)
class CallAfterCommit:
    """A call, and the id of the message whose handler wants it made."""

    call: Callable[[], object]
    message_id: str

    def __call__(self) -> None:
        """Make the call; what it raises, or returns to be awaited, is logged."""
        try:
            if is_unawaited(self.call()):
                logger.error(
                    "A call after the commit of message '%s' returned what has to be awaited, and nothing awaits it: "
                    "%s; the message is handled",
                    self.message_id,
                    described(self.call),
                )
        except BaseException:  # in a thread of ours: also what would end a program, or a panic of Rust's
            logger.exception(
                "A call after the commit of message '%s' failed; the message is handled", self.message_id
            )


def check_call(call: object) -> None:
    """Raise HandlerError for what cannot be called after a commit, or would run nothing then."""
    if is_unawaited(call):
        raise HandlerError(
            "on_commit was given a coroutine, of which nothing ran: give it a function to call."
        )
    try:
        check_function(call, "What on_commit is to call")
    except ConfigurationError as error:
        raise HandlerError(
            f"{error} What has to be awaited belongs in the handler, before it returns, or in the handler of a message "
            "that it sends."
        ) from None


async def make_calls(calls: Sequence[Callable[[], object]]) -> None:
    """Make calls one after the other, those of handlers in a thread, and wait for their end."""
    _make([call for call in calls if not isinstance(call, CallAfterCommit)])
    if given := [call for call in calls if isinstance(call, CallAfterCommit)]:
        with awaited_by():
            await run_in_thread(_make, given)


def _make(calls: Sequence[Callable[[], object]]) -> None:
    for call in calls:
        call()


T = TypeVar("T")

_NO_OBJECTS: Final[dict[object, object]] = {}  # nothing is put in


class ErrorResult(Enum):
    """The deed of the error policy with a failed message."""

    HANDLED = "handled"
    """It has been dealt with (moved, discarded): consume it."""

    RETRY_REQUIRED = "retry required"
    """Process it again now."""


class Delivery(Attempt):
    """One attempt at one message.

    `items` is a bag that flows from a failed attempt to the error policy. Sends collected here leave with the
    attempt's transaction, as the transaction mode says.
    """

    __slots__ = (
        "_destinations",
        "_dispatcher",
        "afterwards",
        "body",
        "failures",
        "forward_to",
        "headers",
        "id",
        "items",
        "noted",
        "objects",
        "postponement",
        "receive_address",
        "sends",
        "take_back",
    )

    def __init__(  # noqa: PLR0917 - made in one place, once for each attempt, where keywords cost
        self,
        row: MessageRow,
        headers: dict[str, str | None],
        receive_address: QueueAddress,
        session: ReceiveSession,
        dispatcher: Dispatcher,
        items: dict[str, object],
        forward_to: QueueAddress | None = None,
        destinations: Destinations | None = None,
    ) -> None:
        """Hold the message; `id` is the row's, not the message's.

        `forward_to` is the queue of a delayed message that another mover put into ours: it is not to be handled here.
        `destinations` looks at what senders name (None: nothing is looked at).
        """
        super().__init__(session)
        self.id = row.id
        self.headers = headers
        self.body = row.body or b""
        self.receive_address = receive_address
        self.items = items
        self.objects: dict[object, object] = _NO_OBJECTS
        """The message as it was read for handlers, by their readers; each takes its own."""
        self.failures = 0
        """Attempts at it that have failed since it came into its queue."""
        self.forward_to = forward_to
        self.sends: list[Leaving] = []
        self.afterwards: tuple[Callable[[], object], ...] = ()
        self.postponement: tuple[str, float] | None = None
        """The headers that the message is to have while it waits where it is, and for how many seconds."""
        self.noted = row.noted
        """The id under which the receive noted it as processed; None once a step has found that to be right."""
        self.take_back: Statement[None] | None = None
        """Undoes what the attempt noted of its message, should the handler commit it and the message be given up."""
        self._dispatcher = dispatcher
        self._destinations = destinations

    @property
    def message_id(self) -> str:
        """The message's id, its row's where it has none."""
        return self.headers.get(Header.MESSAGE_ID) or self.id

    @property
    def destination(self) -> QueueAddress:
        """The queue in which the message is to be handled: where retries go, and what a failure names."""
        return self.forward_to or self.receive_address

    def require_open(self) -> None:
        """Raise HandlerError in code that runs when its handler has ended: nothing would leave any more."""
        require_unfinished()

    def send(self, *sends: AnySend) -> None:
        """Send when the attempt has succeeded, under the transaction mode."""
        self.require_open()
        self._dispatcher.note(sends)
        self.sends.extend(sends)

    async def send_once(self, unique: UniqueSend, *, immediate: bool) -> UniqueMessageId:
        """Send a unique message with the message's transaction; in mode NONE, or `immediate`, in one of its own.

        Raises QueueNotFoundError, StorageError.
        """
        self.require_open()
        self._dispatcher.note([unique.send])
        if immediate or self._session.ended:
            return await self._dispatcher.send_once(unique)
        return await answer_steps(self.run, leaving(unique, notify=self._dispatcher.notify))

    def withdraw(self, message_id: str) -> bool:
        """Send a delayed message of this id not after all, if the attempt was to send it; say whether it was."""
        kept = [send for send in self.sends if not _is_delayed(send, message_id)]
        is_withdrawn = len(kept) < len(self.sends)
        self.sends[:] = kept
        return is_withdrawn

    def append(self, event: AppendedEvent) -> None:
        """Append to a log when the attempt has succeeded, under the transaction mode, like a send."""
        self.require_open()
        self.sends.append(event)

    def call_afterwards(self, call: Callable[[], object]) -> None:
        """Have a call made in a thread, once the transaction of an attempt that succeeded is committed.

        Raises HandlerError for what would run nothing.
        """
        self.require_open()
        check_call(call)
        self.afterwards = (*self.afterwards, CallAfterCommit(call, self.message_id))

    def tell_afterwards(self, tell: Callable[[], object]) -> None:
        """Have a call of ours made on the loop, which it does not hold up, once the transaction is committed."""
        self.afterwards = (*self.afterwards, tell)

    async def require(self, destination: QueueAddress) -> None:
        """Look at a destination that the sender named, before something is sent there of which we say what it is.

        Raises DestinationRefusedError, QueueNotFoundError, StorageError.
        """
        if not self.is_known(destination) and self._destinations is not None:
            try:
                await self._destinations.require(destination, self.ask)
            except QueueNotFoundError as error:
                raise await self._dispatcher.explained(error) from None

    def note(self, send: AnySend) -> None:
        """Note which line of the program sends, for the text of `require`'s error."""
        self._dispatcher.note([send])

    async def ask(self, statement: Statement[T]) -> T:
        """Run a statement that asks something, in the message's transaction: a second connection may not be to be had.

        Where that connection is in the midst of something (a stream, a COPY, a pipeline), on another. Raises
        StorageError, and HandlerError when a statement that failed has spoilt the transaction.
        """
        if self._session.is_busy:
            return await self._dispatcher.ask(statement)
        self._session.ensure_usable()
        return await self.run(statement)

    def is_known(self, destination: QueueAddress) -> bool:
        """Say whether `require` would have nothing to ask; from any thread."""
        return self._destinations is None or self._destinations.knows(destination)

    async def send_now(self, *sends: AnySend) -> None:
        """Send at once, in a transaction of its own, also if the attempt fails later.

        Raises QueueNotFoundError, StorageError.
        """
        require_unfinished()
        await self._dispatcher.dispatch(sends)


def _is_delayed(send: Leaving, message_id: str) -> bool:
    return isinstance(send, DelayedSend) and send.message.headers.get(Header.MESSAGE_ID) == message_id


class FailedDelivery(NamedTuple):
    """A failed attempt, for the error policy: a fresh delivery of the same message, the error, and the count."""

    delivery: Delivery
    error: BaseException
    failures: int


OnMessage = Callable[[Delivery], Coroutine[Any, Any, None]]
OnError = Callable[[FailedDelivery], Awaitable[ErrorResult]]
OnPoison = Callable[["MessageRow", BaseException], "Send"]
DecidesOutage = Callable[[BaseException], "float | None"]


class Callbacks(NamedTuple):
    """The processor of what a receiver receives.

    `on_message` raises to fail; `on_error` decides; `on_poison` makes the error-queue message for a row that cannot
    be read; `on_critical_error` is told, once for each outage, of trouble that a person should look at.
    `decides_outage` says of what `on_message` raised whether it is no message's fault: then the message goes back to
    its queue, nothing is counted, and its slot waits for so many seconds. None: it is the message's.
    `threads` is where `on_message` calls what blocks, if it does: a
    batch goes on in a thread of these from there, see `rowbus.running.turns`.
    """

    on_message: OnMessage
    on_error: OnError
    on_poison: OnPoison
    on_critical_error: OnCriticalError
    decides_outage: DecidesOutage | None = None
    threads: Threads | None = None

    def report(self, text: str, error: BaseException) -> None:
        """Call `on_critical_error`; what goes wrong in it is logged, and does not stop the receiver."""
        report(self.on_critical_error, text, error)
