"""The public names, each with the module that it comes from.

Invariant: re-exports, and does nothing else; what is not in `__all__` may change without notice.
"""

from __future__ import annotations

from rowbus.bridges import drain_queue, forward_events
from rowbus.database.location import resolve_dsn
from rowbus.endpoint import Context, Endpoint, Proceed, Step, StepContext, SyncContext
from rowbus.endpoint.long_context import LongContext, SyncLongContext
from rowbus.errors import (
    BatchError,
    ClaimNotFoundError,
    ConfigurationError,
    ConnectionLostError,
    ConsumerBusyError,
    ConsumerNotFoundError,
    CriticalError,
    DataLossError,
    HandlerError,
    HandlingInterruptedError,
    InvalidAddressError,
    InvalidHeaderError,
    LeaseLostError,
    LogNotFoundError,
    LostPositionError,
    MessageDeserializationError,
    MessageSerializationError,
    NoAnswerError,
    QueueNotFoundError,
    RowbusError,
    SagaCorrelationError,
    SagaStateError,
    SagaVersionError,
    StorageError,
    StoreError,
    StoreUnavailableError,
    TimeLimitExceededError,
    TransactionConflictError,
    UnknownMessageTypeError,
    Unrecoverable,
    WorkCancelledError,
)
from rowbus.log.applied_events import AsyncDeduplication, Deduplication
from rowbus.log.archive import ArchivedMessage, archived_message
from rowbus.log.causes import Cause, cause, cause_async, read_cause
from rowbus.log.consumers.handlers import LogContext, SyncLogContext
from rowbus.log.event import Batch, DeadEvent, Event, Tick
from rowbus.log.log import AsyncLog, Log
from rowbus.log.migrations import capture_sql, log_grant_sql, log_sql, release_sql
from rowbus.log.ticker.ticker import Ticker
from rowbus.messages.address import QueueAddress
from rowbus.messages.bodies.dotnet_xml import Xml
from rowbus.messages.bodies.json_bodies import Json
from rowbus.messages.bodies.messagepack import MessagePack
from rowbus.messages.bodies.serializer import Serializer
from rowbus.messages.bodies.shape import OpenEnum
from rowbus.messages.headers import Header
from rowbus.messages.message_types import command, declare, event, message
from rowbus.messages.mutators import Draft, Mutator
from rowbus.messages.outgoing import UniqueMessageId
from rowbus.messages.return_code import ReturnCode
from rowbus.messages.sqlserver_address import SqlServerAddress
from rowbus.running.threads import run_in_thread
from rowbus.sagas.context import SagaContext
from rowbus.sagas.saga import Saga, handles, not_found, starts, timeout, upgrade
from rowbus.settings import (
    AllowedDestinations,
    ConsumerSettings,
    EndpointSettings,
    FailureHandling,
    NativeDelayedDelivery,
    TickerSettings,
    TransactionMode,
)
from rowbus.transport.claims.claim_check import ClaimCheck, ClaimStore
from rowbus.transport.claims.claim_table import ClaimTable
from rowbus.transport.claims.file_share import FileShare
from rowbus.transport.client import AsyncClient, Client
from rowbus.transport.deduplication.table import AsyncInbox, Inbox
from rowbus.transport.delayed.standalone_mover import DelayedMover
from rowbus.transport.delayed_store.protocol import (
    DelayedDeliverySettings,
    DelayedMessage,
    DelayedMessageStore,
)
from rowbus.transport.delayed_store.stores import PostgresDelayedMessageStore, SqlServerDelayedMessageStore
from rowbus.transport.lanes.rule import Lanes, by_key, by_priority, fair
from rowbus.transport.limits.concurrency import Concurrency
from rowbus.transport.limits.rate import RateLimit
from rowbus.transport.long_work.table import WorkStatus
from rowbus.transport.migrations import endpoint_sql, grant_sql, queue_sql
from rowbus.transport.recoverability.policy import (
    Decision,
    DelayedRetry,
    Discard,
    FailedAttempt,
    ImmediateRetry,
    MoveToErrorQueue,
    Recoverability,
    Retries,
    Throttling,
    exponential,
)
from rowbus.transport.requests.client import AsyncRequestClient, RequestClient

__all__ = [  # noqa: RUF022 - grouped by subject
    # endpoints
    "Context",
    "LongContext",
    "SyncLongContext",
    "Endpoint",
    "EndpointSettings",
    "AllowedDestinations",
    "Lanes",
    "by_key",
    "by_priority",
    "UniqueMessageId",
    "fair",
    "FailureHandling",
    "NativeDelayedDelivery",
    "Proceed",
    "RateLimit",
    "Concurrency",
    "Saga",
    "SagaContext",
    "Step",
    "StepContext",
    "SyncContext",
    "TransactionMode",
    "handles",
    "not_found",
    "starts",
    "timeout",
    "upgrade",
    # a store for delayed messages
    "DelayedDeliverySettings",
    "DelayedMessage",
    "DelayedMessageStore",
    "PostgresDelayedMessageStore",
    "SqlServerDelayedMessageStore",
    "run_in_thread",
    # sending from your own connection
    "AsyncClient",
    "Client",
    "DelayedMover",
    "WorkStatus",
    "resolve_dsn",
    # asking, and waiting for the answer
    "AsyncRequestClient",
    "RequestClient",
    # each message's effects once
    "AsyncInbox",
    "Inbox",
    # the event log
    "AsyncDeduplication",
    "AsyncLog",
    "Batch",
    "ConsumerSettings",
    "DeadEvent",
    "Deduplication",
    "Event",
    "Log",
    "LogContext",
    "SyncLogContext",
    "Tick",
    "Ticker",
    "TickerSettings",
    # what causes the change of a row
    "Cause",
    "cause",
    "cause_async",
    "read_cause",
    # bridges between queues and logs
    "ArchivedMessage",
    "archived_message",
    "drain_queue",
    "forward_events",
    # what migrations run
    "capture_sql",
    "endpoint_sql",
    "grant_sql",
    "log_grant_sql",
    "log_sql",
    "queue_sql",
    "release_sql",
    # messages
    "ClaimCheck",
    "ClaimStore",
    "ClaimTable",
    "Draft",
    "FileShare",
    "Header",
    "Json",
    "MessagePack",
    "Mutator",
    "OpenEnum",
    "QueueAddress",
    "ReturnCode",
    "Serializer",
    "SqlServerAddress",
    "Xml",
    "command",
    "declare",
    "event",
    "message",
    # what becomes of failures
    "CriticalError",
    "Decision",
    "DelayedRetry",
    "Discard",
    "FailedAttempt",
    "ImmediateRetry",
    "MoveToErrorQueue",
    "Recoverability",
    "Retries",
    "exponential",
    "Throttling",
    "Unrecoverable",
    # errors
    "BatchError",
    "ClaimNotFoundError",
    "ConfigurationError",
    "ConnectionLostError",
    "ConsumerBusyError",
    "ConsumerNotFoundError",
    "DataLossError",
    "HandlerError",
    "HandlingInterruptedError",
    "TimeLimitExceededError",
    "WorkCancelledError",
    "InvalidAddressError",
    "InvalidHeaderError",
    "LeaseLostError",
    "LogNotFoundError",
    "LostPositionError",
    "MessageDeserializationError",
    "MessageSerializationError",
    "NoAnswerError",
    "QueueNotFoundError",
    "RowbusError",
    "SagaCorrelationError",
    "SagaStateError",
    "SagaVersionError",
    "StorageError",
    "StoreError",
    "StoreUnavailableError",
    "TransactionConflictError",
    "UnknownMessageTypeError",
]
