"""Settings with their defaults, validated before any I/O.

Invariant: settings are values. They hold no connection and no secret, and are never changed after they are made.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from enum import Enum
from typing import Any, Literal
from uuid import UUID

from rowbus.errors import ConfigurationError
from rowbus.running.setting_types import check_host_name, check_types

SHORTEST_PEEK_DELAY = timedelta(milliseconds=100)
LONGEST_ADVISED_PEEK_DELAY = timedelta(seconds=10)
SHORTEST_POLL_DELAY = timedelta(milliseconds=10)
SHORTEST_SILENCE = timedelta(seconds=1)
LARGEST_MESSAGE = 64 * 1024 * 1024  # bytes of headers and body, unless an endpoint says otherwise
LONGEST_HEADERS_READ = 1024 * 1024  # of headers that are read where messages are not received
LONGEST_READ = 1024 * 1024  # characters of headers and bytes of a body that are shown to a person
LONGEST_LOOK_DELAY = timedelta(seconds=30)  # store.sql notifies of what is due within a minute


class TransactionMode(Enum):
    """The scope of one transaction when a message is processed."""

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


class AllowedDestinations(Enum):
    """Queues that may get what a message names them for, in a header that its sender wrote."""

    ANY_QUEUE = "any queue"
    """Every queue that the endpoint's role may send to."""

    SAME_SCHEMA = "same schema"
    """Those of the schema that the message came from."""


Allowed = AllowedDestinations | tuple[str, ...]
"""Allowed destinations: one of these, or the queues themselves, as names or addresses. `*` as the table of an address
allows every queue of its schema: `"archive"."*"`, on SQL Server `*@[archive]`."""


def default_concurrency() -> int:
    """Return NServiceBus's default: the number of processors, at least 2."""
    return max(2, os.cpu_count() or 2)


def check_allowed(allowed: Allowed) -> None:
    """Raise ConfigurationError for what cannot say which destinations are allowed: a single text, above all."""
    if isinstance(allowed, str | bytes) or not isinstance(allowed, AllowedDestinations | tuple):  # pyright: ignore[reportUnnecessaryIsInstance] # what users give
        raise ConfigurationError(
            f"allowed_destinations is {allowed!r}; it must be AllowedDestinations.ANY_QUEUE or SAME_SCHEMA, or a tuple "
            "of queues."
        )


def host_digits(host_id: str) -> str:
    """Return a host id as it travels in headers: 32 digits. Raises ConfigurationError for what is no UUID."""
    try:
        return UUID(host_id).hex
    except ValueError:
        raise ConfigurationError(f"host_id is {host_id!r}; it must be a UUID.") from None


def check_time_limit(limit: timedelta | None) -> None:
    """Raise ConfigurationError for what is no time limit of a handler."""
    if limit is not None and not (type(limit) is timedelta and limit > timedelta()):
        raise ConfigurationError(f"time_limit is {limit!r}; give a timedelta longer than nothing, or None.")


@dataclass(frozen=True, kw_only=True, slots=True)
class EndpointSettings:
    """Settings of one endpoint."""

    schema: str | None = None
    """Schema of the endpoint's queues; None for the database's default, `public` in PostgreSQL and `dbo` in SQL Server.
    Defaults to None."""

    error_queue: str = "error"
    """Where messages go that are given up on; a name or an address. Defaults to `error`."""

    audit_queue: str | None = None
    """Where a copy of every message goes that was processed successfully; a name or an address, None for nowhere.
    Defaults to None."""

    audit_time_to_be_received: timedelta | None = None
    """The time for which audit copies are worth receiving; None for ever. Defaults to None."""

    throttle_after_failures: int | None = None
    """After so many failed attempts in a row messages are processed one at a time, with a pause of `throttle_delay`
    before what follows each further failure, until one succeeds; None for never. Defaults to None."""

    throttle_delay: timedelta = timedelta(seconds=1)
    """The time that a throttled endpoint pauses after a failure. Defaults to 1 s."""

    subscription_table: str = "SubscriptionRouting"
    """The table of who subscribes to what, the same for all endpoints that exchange events; a name or an address.
    Defaults to `SubscriptionRouting`."""

    subscription_cache: timedelta = timedelta(seconds=5)
    """The time for which it is remembered who subscribes to an event that is published; 0 looks it up each time.
    Defaults to 5 s."""

    auto_subscribe: bool = True
    """Whether starting subscribes to the events that are handled. Defaults to True."""

    queue: str | None = None
    """The name of the queue received from; None for the endpoint's. Other tables keep that name. Defaults to None."""

    discriminator: str = ""
    """Makes a queue for this instance alone (`<queue>.<discriminator>`) beside the shared one, for replies. Defaults to
    none."""

    host_id: str | None = None
    """The UUID by which ServicePulse knows this instance; None makes one of the endpoint's name and
    `host_display_name`, the same in every container, or else of endpoint, machine and program. Defaults to None."""

    host_name: str | None = None
    """The machine that the endpoint's messages name; None for this one. Defaults to None."""

    host_display_name: str | None = None
    """The name that ServicePulse shows for this instance; None for the machine's. Defaults to None."""

    transaction_mode: TransactionMode = TransactionMode.SENDS_ATOMIC_WITH_RECEIVE
    """The scope of one transaction. Defaults to `SENDS_ATOMIC_WITH_RECEIVE`."""

    keep_tasks: bool = False
    """Whether a task that a handler starts may go on when the handler has ended; it cannot use the message's connection
    then. If not, it is named in the log and cancelled. Switch on where a client that a handler opens once has tasks of
    its own. Defaults to False."""

    time_limit: timedelta | None = None
    """The time that a handler may take that has no limit of its own; then it is ended and fails. None: no limit."""

    long_concurrency: int = 100
    """The number of handlers that take long (`handler(long=True)`) that a process runs at a time. Defaults to 100."""

    long_lease: timedelta = timedelta(seconds=12)
    """After how long who died, hangs or is cut off has lost the messages of such handlers. Defaults to 12 s."""

    deduplicate_for: timedelta | None = None
    """The time for which ids of processed messages are remembered, so that one that comes again is consumed without its
    handlers; None remembers none. In RECEIVE_ONLY what handlers send then commits with the message, as with
    NServiceBus's outbox; mode NONE cannot do it. Defaults to None."""

    concurrency: int = 0
    """The number of messages or batches processed at a time. Defaults to 0: the number of processors, at least 2."""

    batch_size: int | Literal["auto"] = 1
    """The number of messages that one transaction may take; "auto": one at rest and after a failure, up to
    100 while messages wait and their handlers take some 10 ms together. Defaults to 1."""

    allowed_destinations: Allowed = AllowedDestinations.SAME_SCHEMA
    """Where messages go whose destination a sender named: replies, acknowledgements of ServiceControl's retries, due
    messages that another mover put into the endpoint's queue, and those on their way through its delayed message store.
    Who may send to one queue is not to reach every other: systems with several schemas say here which. What handlers
    send by name is not concerned. A message that is not let go on moves to the error queue; a reply that is not fails.
    Defaults to the same schema."""

    max_message_size: int = LARGEST_MESSAGE
    """The bytes that headers and body of a message may have together, as the database stores them, to be received, and
    its body with the values that a ClaimCheck keeps elsewhere. A larger one moves to the error queue without being
    fetched; raise this and `rowbus errors retry` it to have it handled. `concurrency` times `batch_size` messages of
    this size must fit into memory. Defaults to 64 MiB."""

    failure_handling: FailureHandling = FailureHandling.SAVEPOINT
    """When the policy for a failed message is asked. Defaults to `SAVEPOINT`."""

    peek_delay: timedelta = timedelta(seconds=1)
    """The wait of an idle endpoint before it looks again, give or take a fifth; less when it is notified, and after
    a message that it has completed: then 20, 40, 80 … ms, up to this.
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

    takes_unique: bool = False
    """Whether messages may be sent here that exist once, by `send(…, unique=…)`. Defaults to False."""

    install: bool = True
    """Whether starting creates the queues that are missing. Never creates the schema. Defaults to True."""

    publish_contract: bool = True
    """Whether starting notes what the endpoint takes, sends and publishes in the table `Rowbus.Contracts`, which is
    created with the queues, for `rowbus doctor` and who sends to it; not on SQL Server. Defaults to True."""

    purge_on_startup: bool = False
    """Whether starting deletes what waits in the endpoint's queues. Defaults to False."""

    purge_expired_on_startup: bool = False
    """Whether starting deletes those messages in the endpoint's queues whose time to be received is over. Without it
    they are consumed one by one when receivers come to them. Defaults to False."""

    purge_expired_every: timedelta | None = None
    """The period in which such messages are deleted while the endpoint runs. Defaults to None: never."""

    purge_expired_batch_size: int = 10_000
    """The number of such messages to delete in one transaction. Defaults to 10,000."""

    service_platform: Mapping[str, Any] | str | None = field(default=None, hash=False)
    """The answer of ServiceControl's `GET /api/connection`, its monitoring's `GET /connection`, or both in one: the
    endpoint then sends the heartbeats, results of checks, metrics and changes of sagas that it asks for. Its
    `ErrorQueue` and `MessageAudit` are not looked at: see `error_queue` and `audit_queue`. Defaults to None: nothing is
    sent."""

    time_to_trigger_circuit_breaker: timedelta = timedelta(seconds=30)
    """The time that receiving or processing must fail without a success before the critical-error callback is called.
    Defaults to 30 s."""

    def __post_init__(self) -> None:
        """Refuse what cannot work."""
        check_types(self)
        self._check_mode()
        self._check_numbers()
        self._check_host()
        check_allowed(self.allowed_destinations)

    def _check_host(self) -> None:
        if self.host_id is not None:
            host_digits(self.host_id)
        for name in ("host_name", "host_display_name"):
            check_host_name(name, getattr(self, name))

    def _check_mode(self) -> None:
        if self.transaction_mode is TransactionMode.TRANSACTION_SCOPE:
            raise ConfigurationError(
                "TRANSACTION_SCOPE needs a distributed-transaction coordinator, which no Python driver enlists in. "
                "The equivalent is one database and one transaction: use SENDS_ATOMIC_WITH_RECEIVE and write your "
                "business data through context.connection."
            )

        if self.deduplicate_for is not None and self.transaction_mode is TransactionMode.NONE:
            raise ConfigurationError(
                "deduplicate_for needs a transaction that notes a message together with what its handlers did; mode "
                "NONE has none. Use SENDS_ATOMIC_WITH_RECEIVE or RECEIVE_ONLY."
            )

    def _check_numbers(self) -> None:
        for name in ("deduplicate_for", "purge_expired_every", "audit_time_to_be_received"):
            span = getattr(self, name)
            if span is not None and span <= timedelta():
                raise ConfigurationError(f"{name} must be longer than nothing, or None.")
        check_time_limit(self.time_limit)
        if self.peek_delay < SHORTEST_PEEK_DELAY:
            raise ConfigurationError(
                f"peek_delay is {self.peek_delay.total_seconds()} s; it must be at least 100 ms (advised: up to 10 s)."
            )
        for name, least in (
            ("concurrency", 0),
            ("batch_size", 1),
            ("max_message_size", 1),
            ("purge_expired_batch_size", 1),
            ("long_concurrency", 1),
            ("long_lease", timedelta(seconds=1)),
        ):
            given = getattr(self, name)
            if given != "auto" and given < least:
                raise ConfigurationError(f"{name} is {given}; it must be at least {least}.")
        if self.long_lease > timedelta(days=1):
            raise ConfigurationError(f"long_lease is {self.long_lease}; it must be at most a day.")
        for name in ("max_records_to_peek", "throttle_after_failures"):
            given = getattr(self, name)
            if given is not None and given < 1:
                raise ConfigurationError(f"{name} is {given}; it must be at least 1, or None.")
        if self.throttle_delay < timedelta():
            raise ConfigurationError(f"throttle_delay is {self.throttle_delay}; it must not be negative.")

    @property
    def effective_concurrency(self) -> int:
        """The concurrency with its default filled in."""
        return self.concurrency or default_concurrency()

    @property
    def effective_transaction_mode(self) -> TransactionMode:
        """The transaction mode, with what `deduplicate_for` makes of it: what is sent is part of what is noted."""
        if self.deduplicate_for is not None and self.transaction_mode is TransactionMode.RECEIVE_ONLY:
            return TransactionMode.SENDS_ATOMIC_WITH_RECEIVE
        return self.transaction_mode


@dataclass(frozen=True, kw_only=True, slots=True)
class NativeDelayedDelivery:
    """Settings of an endpoint's own table of delayed messages, and of the mover that empties it when they are due."""

    table_suffix: str = "Delayed"
    """The table is called `<endpoint>.<suffix>`; NServiceBus instances of the endpoint must use the same. Defaults to
    `Delayed`."""

    allowed_destinations: Allowed = AllowedDestinations.ANY_QUEUE
    """Where due messages are moved; those for elsewhere, or for a table that is no queue, move to the error queue. Only
    a role that may write to this table names them, and that is the endpoint itself, which may send anywhere. Defaults
    to any queue."""

    batch_size: int = 100
    """The number of due messages one transaction moves at the most. Defaults to 100."""

    longest_look_delay: timedelta = timedelta(seconds=1)
    """The longest sleep of the mover when it hears of nothing; for a while after it has moved something, less.
    Matters only for messages that others store who do not notify (NServiceBus, plain SQL). From 10 ms to 30 s.
    Defaults to 1 s."""

    standby_delay: timedelta = timedelta(seconds=1)
    """The wait of a mover that stands by before it tries again to lead, give or take a fifth. Defaults to 1 s."""

    silence_timeout: timedelta = timedelta(seconds=10)
    """When the server ends the session of a leading mover that shows no sign of life (its machine is gone, its process
    is frozen), so that another can lead. At least twice `longest_look_delay`. Defaults to 10 s."""

    refuse_shifted_times: bool = True
    """Whether the endpoint refuses to start (ShiftedTimesError) while messages wait whose time is off by a time zone: a
    .NET session that is not in UTC wrote them, and they come early or late. If not, the start logs an ERROR. Defaults
    to True."""

    def __post_init__(self) -> None:
        """Refuse what cannot work."""
        check_types(self)
        check_allowed(self.allowed_destinations)
        if not self.table_suffix:
            raise ConfigurationError("table_suffix is empty; the endpoint's own queue has that name.")
        if self.batch_size < 1:
            raise ConfigurationError(f"batch_size is {self.batch_size}; it must be at least 1.")
        if not SHORTEST_POLL_DELAY <= self.longest_look_delay <= LONGEST_LOOK_DELAY:
            raise ConfigurationError("longest_look_delay must be from 10 ms to 30 s.")
        if self.standby_delay < SHORTEST_POLL_DELAY:
            raise ConfigurationError("standby_delay must be at least 10 ms.")
        if self.silence_timeout < max(SHORTEST_SILENCE, 2 * self.longest_look_delay):
            raise ConfigurationError(
                "silence_timeout must be at least 1 s, and twice longest_look_delay, the longest normal silence."
            )


@dataclass(frozen=True, kw_only=True, slots=True)
class ConsumerSettings:
    """Settings of one consumer of a log."""

    chunk_size: int = 1000
    """The number of events read, and given to a batch handler, at a time. At most twice as many are in memory, however
    large a batch is. Defaults to 1000."""

    whole_batches: bool = False
    """Whether one transaction covers a batch, however large. If not, each chunk commits with the position reached, and
    a batch that is interrupted goes on there. Defaults to False."""

    workers: int = 1
    """The number of events handled at a time, each worker in a transaction of its own; more than 1 needs a key.
    Defaults to 1."""

    max_retries: int | None = None
    """Times that a failed event is delivered again before it becomes a dead letter; None for what the log says (its
    option `max_retries`), else 5. Defaults to None."""

    retry_delay: timedelta = timedelta(seconds=5)
    """The time that a failed event waits before its first retry, give or take a fifth; doubled for each further one.
    Defaults to 5 s."""

    longest_retry_delay: timedelta = timedelta(minutes=10)
    """The longest delay of a retry (but for its fifth). Defaults to 10 minutes."""

    from_oldest: bool = False
    """Whether a consumer that is new begins with the oldest events retained instead of those that commit from now on.
    Defaults to False."""

    min_count: int | None = None
    """Wait until about so many events have come since the last batch, or for `min_interval`. Defaults to None."""

    min_interval: timedelta | None = None
    """Merge ticks into batches that span at least this time (or have `min_count` events). Defaults to None."""

    min_lag: timedelta | None = None
    """Stay at least this far behind. Defaults to None."""

    poll_delay: timedelta = timedelta(seconds=1)
    """The time that an idle consumer waits before it looks again, give or take a fifth; less when it hears of a tick.
    Also how often one that stands by tries to take over. At least 10 ms. Defaults to 1 s."""

    notifications: bool = True
    """Whether to LISTEN for ticks; switch off behind a pooler in transaction mode. Defaults to True."""

    stand_by: bool = True
    """Whether a second process of the same name stands by, by a lock of its session, until the first ends. Switch off
    behind a pooler in transaction mode: then both may handle a batch, but only one can commit. Defaults to True."""

    silence_timeout: timedelta | None = timedelta(seconds=10)
    """When the server ends the session of a process that leads and shows no sign of life (its machine is gone, it is
    frozen, a handler blocks its event loop), so that one that stands by can lead. A handler may take longer: signs of
    life are given beside it. From 1 s; at least three times `poll_delay`, also where less is given. None: as long as
    TCP holds. Means nothing without `stand_by`. Defaults to 10 s."""

    prepared_statements: bool = True
    """Whether plans are kept on the server; switch off behind a pooler in transaction mode. Defaults to True."""

    keep_tasks: bool = False
    """Whether tasks that a handler starts may go on when it has ended; see `EndpointSettings.keep_tasks`."""

    dead_after: timedelta = timedelta(minutes=1)
    """When the batch of a cooperative consumer's member that has shown no sign of life is taken over; members show
    one four times as often. Defaults to 1 minute."""

    def __post_init__(self) -> None:
        """Refuse what cannot work."""
        check_types(self)
        for name in ("chunk_size", "workers"):
            if getattr(self, name) < 1:
                raise ConfigurationError(f"{name} is {getattr(self, name)}; it must be at least 1.")
        if self.max_retries is not None and self.max_retries < 0:
            raise ConfigurationError(f"max_retries is {self.max_retries}; it must be at least 0.")
        if self.silence_timeout is not None and self.silence_timeout < SHORTEST_SILENCE:
            raise ConfigurationError("silence_timeout must be at least 1 s, or None.")
        if self.whole_batches and self.workers > 1:
            raise ConfigurationError("whole_batches is one transaction, which several workers cannot share.")
        if self.poll_delay < SHORTEST_POLL_DELAY:
            raise ConfigurationError("poll_delay must be at least 10 ms.")


@dataclass(frozen=True, kw_only=True, slots=True)
class TickerSettings:
    """Settings of a ticker: what drives a database's logs."""

    tick_period: timedelta | None = timedelta(milliseconds=50)
    """The time from an event to a tick of a log that has no `tick_period` of its own and whose `ticker_max_lag` was not
    changed; its `ticker_max_count` may have it ticked sooner. None: as `ticker_max_lag` says (3 s by default), as pgqd
    does. From 10 ms. Defaults to 50 ms."""

    longest_look_delay: timedelta = timedelta(milliseconds=100)
    """The time that the ticker waits between looks when all logs have been quiet for long. From 10 ms. Defaults to
    100 ms."""

    standby_delay: timedelta = timedelta(seconds=1)
    """The wait of a ticker that stands by before it tries again to lead, give or take a fifth. Defaults to 1 s."""

    silence_timeout: timedelta = timedelta(seconds=10)
    """When the server ends the session of a leading ticker that shows no sign of life (its machine is gone, its process
    is frozen), so that another can lead. From 1 s. Defaults to 10 s."""

    retry_delay: timedelta = timedelta(seconds=1)
    """The period in which the ticker looks for events that are due to be delivered again. Defaults to 1 s."""

    maintenance_period: timedelta = timedelta(seconds=30)
    """The period in which the ticker does what PgQ's maintenance asks for, rotation above all. Defaults to 30 s."""

    time_to_trigger_circuit_breaker: timedelta = timedelta(seconds=30)
    """The time that ticking or maintenance must fail without a success before the critical-error callback is called.
    Defaults to 30 s."""

    def __post_init__(self) -> None:
        """Refuse what cannot work."""
        check_types(self)
        periods = {"tick_period": self.tick_period, "longest_look_delay": self.longest_look_delay}
        for name, period in periods.items():
            if period is not None and period < SHORTEST_POLL_DELAY:
                raise ConfigurationError(f"{name} is {period.total_seconds()} s; it must be at least 10 ms.")
        if self.silence_timeout < max(SHORTEST_SILENCE, 2 * self.longest_look_delay):
            raise ConfigurationError(
                "silence_timeout must be at least 1 s, and twice longest_look_delay, the longest normal silence."
            )
        for name in ("standby_delay", "retry_delay", "maintenance_period"):
            if getattr(self, name) < SHORTEST_POLL_DELAY:
                raise ConfigurationError(f"{name} must be at least 10 ms.")
