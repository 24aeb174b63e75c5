"""Rowbus: messaging in the database a team already runs.

Invariant: this façade re-exports and does nothing else; what is not in `__all__` may change without notice.
"""

from __future__ import annotations

from rowbus.client import AsyncClient, Client
from rowbus.database.location import resolve_dsn
from rowbus.endpoint import Context, Endpoint, SyncContext
from rowbus.errors import (
    ConfigurationError,
    ConnectionLostError,
    HandlerError,
    InvalidAddressError,
    InvalidHeaderError,
    MessageDeserializationError,
    MessageSerializationError,
    QueueNotFoundError,
    RowbusError,
    StorageError,
    UnknownMessageTypeError,
    Unrecoverable,
)
from rowbus.messages import command, event, message
from rowbus.model.address import QueueAddress
from rowbus.model.headers import Header
from rowbus.model.recoverability import (
    Discard,
    FailedAttempt,
    ImmediateRetry,
    MoveToErrorQueue,
    Recoverability,
)
from rowbus.settings import EndpointSettings, FailureHandling, TransactionMode

__all__ = [  # noqa: RUF022 - grouped by subject
    # endpoints
    "Context",
    "Endpoint",
    "EndpointSettings",
    "FailureHandling",
    "SyncContext",
    "TransactionMode",
    # sending from your own connection
    "AsyncClient",
    "Client",
    "resolve_dsn",
    # messages
    "Header",
    "QueueAddress",
    "command",
    "event",
    "message",
    # what becomes of failures
    "Discard",
    "FailedAttempt",
    "ImmediateRetry",
    "MoveToErrorQueue",
    "Recoverability",
    "Unrecoverable",
    # errors
    "ConfigurationError",
    "ConnectionLostError",
    "HandlerError",
    "InvalidAddressError",
    "InvalidHeaderError",
    "MessageDeserializationError",
    "MessageSerializationError",
    "QueueNotFoundError",
    "RowbusError",
    "StorageError",
    "UnknownMessageTypeError",
]

__version__ = "0.1.0"
