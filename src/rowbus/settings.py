"""What can be set about an endpoint, with its defaults; validated before any I/O.

Invariant: settings are values. They hold no connection and no secret, and are never changed after they are made.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from datetime import timedelta
from enum import Enum

from rowbus.errors import ConfigurationError

DATABASE_VARIABLE = "ROWBUS_DATABASE"
SHORTEST_PEEK_DELAY = timedelta(milliseconds=100)
LONGEST_ADVISED_PEEK_DELAY = timedelta(seconds=10)


class TransactionMode(Enum):
    """What one transaction covers when a message is processed."""

    NONE = "none"
    """The message is consumed before its handler runs; a crash loses it, nothing repeats it."""

    RECEIVE_ONLY = "receive-only"
    """The message and the handler's SQL commit together; what it sends commits before, so a crash may repeat sends."""

    SENDS_ATOMIC_WITH_RECEIVE = "sends-atomic-with-receive"
    """The message, the handler's SQL and what it sends commit together or not at all."""

    TRANSACTION_SCOPE = "transaction-scope"
    """NServiceBus's distributed transaction; refused, see `EndpointSettings.transaction_mode`."""


class FailureHandling(Enum):
    """When the policy for a failed message is asked."""

    SAVEPOINT = "savepoint"
    """At once, in the kept receive transaction: the attempt is undone, retry counts are exact across instances."""

    ROLLBACK = "rollback"
    """At the next receive of the message on this instance, as NServiceBus does: counts live in its memory."""


def default_concurrency() -> int:
    """Return NServiceBus's default: the number of processors, at least 2."""
    return max(2, os.cpu_count() or 2)


@dataclass(frozen=True, kw_only=True, slots=True)
class EndpointSettings:
    """Settings of one endpoint."""

    schema: str = "public"
    """Schema of the endpoint's queues. Defaults to `public`."""

    error_queue: str = "error"
    """Where messages go that are given up on; a name or an address. Defaults to `error`."""

    discriminator: str = ""
    """Makes a queue for this instance alone (`Sales.<discriminator>`) beside the shared one, for replies. Defaults to
    none."""

    transaction_mode: TransactionMode = TransactionMode.SENDS_ATOMIC_WITH_RECEIVE
    """What one transaction covers. Defaults to `SENDS_ATOMIC_WITH_RECEIVE`."""

    concurrency: int = 0
    """How many messages (or batches) are processed at a time; 0 means the number of processors, at least 2.
    Defaults to 0."""

    batch_size: int = 1
    """How many messages one transaction may receive, process and commit. Defaults to 1."""

    failure_handling: FailureHandling = FailureHandling.SAVEPOINT
    """When the policy for a failed message is asked. Defaults to `SAVEPOINT`."""

    peek_delay: timedelta = timedelta(seconds=1)
    """How long an idle endpoint waits before it looks again, give or take a fifth; less when it is notified.
    At least 100 ms; above 10 s a warning is logged. Defaults to 1 s."""

    max_records_to_peek: int | None = None
    """Most messages that one round of receiving takes before the queue is peeked again; None for no bound.
    Defaults to None."""

    notifications: bool = True
    """Whether to LISTEN while idle and NOTIFY with own sends; switch off behind a pooler in transaction mode.
    Defaults to True."""

    prepared_statements: bool = True
    """Whether plans are kept on the server; switch off behind a pooler in transaction mode. Defaults to True."""

    foreign_notifications: bool = False
    """Whether to install a trigger that also notifies of messages other software inserts. Defaults to False."""

    body_string: bool = False
    """Whether queues get the generated BodyString column, readable in SQL tools. Defaults to False."""

    install: bool = True
    """Whether starting creates the queues that are missing. Never creates the schema. Defaults to True."""

    purge_on_startup: bool = False
    """Whether starting deletes what waits in the endpoint's queues. Defaults to False."""

    time_to_trigger_circuit_breaker: timedelta = timedelta(seconds=30)
    """How long receiving or processing must fail without a success before the critical-error callback is called.
    Defaults to 30 s."""

    def __post_init__(self) -> None:
        """Refuse what cannot work."""
        self._check_mode()
        self._check_numbers()

    def _check_mode(self) -> None:
        if self.transaction_mode is TransactionMode.TRANSACTION_SCOPE:
            raise ConfigurationError(
                "TRANSACTION_SCOPE needs a distributed-transaction coordinator, which no Python driver enlists in. "
                "The equivalent is one database and one transaction: use SENDS_ATOMIC_WITH_RECEIVE and write your "
                "business data through context.connection."
            )

    def _check_numbers(self) -> None:
        if self.peek_delay < SHORTEST_PEEK_DELAY:
            raise ConfigurationError(
                f"peek_delay is {self.peek_delay.total_seconds()} s; it must be at least 100 ms (advised: up to 10 s)."
            )
        for name, least in (("concurrency", 0), ("batch_size", 1)):
            if getattr(self, name) < least:
                raise ConfigurationError(f"{name} is {getattr(self, name)}; it must be at least {least}.")
        if self.max_records_to_peek is not None and self.max_records_to_peek < 1:
            raise ConfigurationError(
                f"max_records_to_peek is {self.max_records_to_peek}; it must be at least 1."
            )

    @property
    def effective_concurrency(self) -> int:
        """The concurrency with its default filled in."""
        return self.concurrency or default_concurrency()
