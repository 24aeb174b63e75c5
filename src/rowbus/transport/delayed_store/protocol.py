"""Delayed delivery through a store of your own: its contract, and the settings of what works on it.

An endpoint keeps delayed messages in a table of its own database, and needs nothing from here. This is for those who
want them kept elsewhere, as NServiceBus's MSMQ transport keeps them: `Endpoint(…, delayed_delivery=
DelayedDeliverySettings(store))`. `rowbus.PostgresDelayedMessageStore` is one such store; `rowbus.testing.
DelayedMessageStoreContract` are the tests that any other must pass.

Invariant: what the poller relies on is said here, and tested by that suite; it relies on nothing else.
"""

from __future__ import annotations

from abc import abstractmethod
from contextlib import nullcontext
from dataclasses import KW_ONLY, dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Protocol, TypeAlias, runtime_checkable

from rowbus.errors import ConfigurationError

if TYPE_CHECKING:
    from contextlib import AbstractAsyncContextManager
    from datetime import datetime

    from rowbus.settings import NativeDelayedDelivery, TransactionMode

NOTHING = timedelta(0)


@dataclass(frozen=True, kw_only=True, slots=True)
class DelayedMessage:
    """A message that waits in a store until it is due."""

    message_id: str
    """Its key in the store, at most 250 characters: unique, and the same when it is stored again after a crash."""

    destination: str
    """The queue it is for, as a canonical address."""

    time: datetime
    """When it is due: an aware instant in UTC."""

    headers: bytes
    """Its headers, which a store keeps without looking into them (JSON in UTF-8)."""

    body: bytes = b""
    """Its body, which a store keeps without looking into it."""

    number_of_retries: int = 0
    """The number of times its failure had been counted when it was fetched; a store begins with 0."""


@runtime_checkable
class DelayedMessageStore(Protocol):
    """Keeps delayed messages until they are due; subclass it, and write the six methods that have no default.

    `initialize` is called first, whenever the endpoint starts or installs; then, if the endpoint creates what is
    missing, `setup_infrastructure`; in the end `close`. In between calls may overlap, also those of two transactions,
    and each may be cancelled: what was not done then, is undone. A method that raises has done nothing. To say that the
    store is away rather than that a message is at fault, raise `rowbus.StoreUnavailableError` or let an OSError through
    (ConnectionError and TimeoutError are such): these failures are waited out, and counted against no message.

    Every call is bounded by `DelayedDeliverySettings.store_timeout`, every answer is looked at. A driver that blocks
    belongs into a thread: `await rowbus.run_in_thread(call, …)`.

    Two instances of an endpoint share one store. So `fetch_next_due` has to lock what it gives: until the
    `transaction` it was called in ends, if the store has transactions, else for as long as a lease that the store
    chooses (a lease ends early with `remove` and `increment_failure_count`).
    """

    async def setup_infrastructure(self) -> None:
        """Create what is missing (tables, containers). Harmless when it is there. By default nothing."""
        return  # a body: without one, type checkers take this for a method that must be written

    @abstractmethod
    async def initialize(self, endpoint_name: str, transaction_mode: TransactionMode) -> None:
        """Learn whose messages are kept; raise ConfigurationError for a mode that the store cannot support.

        May be called again: after `close`, and when the store was away before.
        """
        raise NotImplementedError

    @abstractmethod
    async def store(self, message: DelayedMessage) -> None:
        """Keep a message. One that is kept already, by its id, stays as it is: a crash may have it stored again."""
        raise NotImplementedError

    @abstractmethod
    async def remove(self, message: DelayedMessage) -> bool:
        """Let go of a message, by its id, that was sent; false if it was already gone.

        As long as this fails, the message stays, and another process may send it again.
        """
        raise NotImplementedError

    @abstractmethod
    async def increment_failure_count(self, message: DelayedMessage) -> bool:
        """Count one more failure of a message, by its id; false if it was already gone."""
        raise NotImplementedError

    @abstractmethod
    async def next(self) -> datetime | None:
        """Say when the earliest message is due, locked or not, as an aware instant; None if none is kept."""
        raise NotImplementedError

    @abstractmethod
    async def fetch_next_due(self, at: datetime) -> DelayedMessage | None:
        """Give and lock the earliest message that is due at an instant and not locked; None if there is none."""
        raise NotImplementedError

    def transaction(self) -> AbstractAsyncContextManager[DelayedMessageStore]:
        """Give this store in a transaction, committed when the block ends, rolled back when it raises.

        What is fetched in it stays locked until it ends. By default there is none: each call stands for itself.
        """
        return nullcontext(self)

    def enlist(self, connection: object) -> DelayedMessageStore | None:  # noqa: ARG002 - for those who override it
        """Give this store on a connection to the queues' database, in that connection's transaction.

        `connection` is a psycopg.AsyncConnection in a transaction that Rowbus will end. A store whose tables are in
        the queues' database returns itself on that connection, and delivery is exactly once. By default None: the
        store is elsewhere, and delivery at least once.
        """
        return None

    async def close(self) -> None:
        """Let go of connections; the endpoint has stopped. By default nothing."""
        return  # as above


@dataclass(frozen=True, slots=True)
class DelayedDeliverySettings:
    """Settings of delayed delivery through a store."""

    store: DelayedMessageStore
    """Where delayed messages wait. Has no default."""

    _: KW_ONLY

    number_of_retries: int = 0
    """Times that forwarding a due message, or storing one, is tried again after its first failure, before it goes to
    the error queue. Exactly so often: a message gets number_of_retries + 1 attempts. Defaults to 0."""

    maximum_recovery_failures_per_second: float = 1
    """Failures to deal with a failed message (to count it, to move it to the error queue) that are borne per
    second, over 30 s, before the critical-error callback is called. Defaults to 1."""

    time_to_trigger_store_circuit_breaker: timedelta = timedelta(seconds=30)
    """The time that storing must fail without a success before the critical-error callback is called.
    Defaults to 30 s."""

    time_to_trigger_fetch_circuit_breaker: timedelta = timedelta(seconds=30)
    """The time that fetching due messages must fail without a success before the critical-error callback is called.
    Defaults to 30 s."""

    time_to_trigger_dispatch_circuit_breaker: timedelta = timedelta(seconds=30)
    """The time that sending due messages must fail without a success before the critical-error callback is called.
    Defaults to 30 s."""

    store_timeout: timedelta = timedelta(seconds=30)
    """The time that a call of the store may take before it is given up and counts as a failure of the store. While the
    endpoint stops, 5 s at most. Defaults to 30 s."""

    def __post_init__(self) -> None:
        """Refuse what cannot work."""
        if not isinstance(self.store, DelayedMessageStore):  # pyright: ignore[reportUnnecessaryIsInstance] - for users without a type checker
            raise ConfigurationError(
                f"store is a {type(self.store).__qualname__}, which lacks methods of rowbus.DelayedMessageStore; "
                "subclass that and write those that have no default."
            )
        if self.number_of_retries < 0:
            raise ConfigurationError(f"number_of_retries is {self.number_of_retries}; it must be at least 0.")
        if self.maximum_recovery_failures_per_second <= 0:
            raise ConfigurationError("maximum_recovery_failures_per_second must be more than 0.")
        for name in ("store", "fetch", "dispatch"):
            if getattr(self, setting := f"time_to_trigger_{name}_circuit_breaker") <= NOTHING:
                raise ConfigurationError(f"{setting} must be longer than nothing.")
        if self.store_timeout <= NOTHING:
            raise ConfigurationError("store_timeout must be longer than nothing.")


DelayedDelivery: TypeAlias = "NativeDelayedDelivery | DelayedDeliverySettings | None"
"""The values that an endpoint may be given as `delayed_delivery`; None: it cannot delay."""
