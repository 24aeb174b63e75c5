"""Every error Rowbus raises, in one tree.

```
RowbusError
├── ConfigurationError          known before any I/O
│   └── InvalidAddressError     also ValueError
├── InvalidHeaderError          also ValueError: a header we were asked to write
├── InvalidTimestampError       also ValueError
├── MalformedHeadersError       also ValueError: header text we were asked to read
├── MessageError                a message we cannot make or understand
│   ├── UnknownMessageTypeError
│   ├── MessageSerializationError
│   └── MessageDeserializationError
├── ClaimNotFoundError          a value that a message keeps elsewhere is not there
├── SagaCorrelationError        a message does not say which saga it is for
├── SagaStateError              a saga's row that cannot be read, or a state that cannot be written
│   └── SagaVersionError        a row that a newer version of the program wrote: its message waits for that
├── HandlerError                a handler broke the rules of its transaction
├── NoAnswerError               also TimeoutError: a request that was not answered in time
├── HandlingInterruptedError    a message whose handler lost its connection, or its process
├── TimeLimitExceededError      a handler that ran longer than it may
├── Unrecoverable               raise it in a handler: no retries, straight to the error queue
│   └── WorkCancelledError      a person ended a handler that takes long
├── MessageTooLargeError        a row above the endpoint's max_message_size: not fetched
├── CriticalError               raise it in a handler: `on_critical_error` is told, too
├── StuckMessageError           a row that could not be completed again and again
├── DestinationRefusedError     a message names a destination that it may not name
├── QueueNotFoundError
├── ShiftedTimesError           delayed messages wait for times that a time zone moved
├── LogNotFoundError
├── ConsumerNotFoundError
├── BatchError                  the batch in hand is not ours any more
├── LostPositionError           a tick that is not retained (any more)
│   └── DataLossError           events that a Spark stream had yet to read are gone
├── ConsumerBusyError           another query reads as this consumer
├── LeaseLostError              rows that a Spark stream or a handler had claimed are another's
├── EmbeddedServerError
├── StoreError                  a delayed message store broke its contract
├── StoreUnavailableError       a delayed message store is away; for stores to raise
└── StorageError                anything the driver raised
    ├── ConnectionLostError     transient
    ├── TransactionConflictError  deadlock or serialization failure: transient
    ├── AlreadyThereError       another creator was faster
    ├── SchemaNotFoundError
    └── PermissionDeniedError
```

Invariant: each carries its facts as attributes (keyword arguments beside the text) and pickles, so that it
crosses process boundaries; the text says what to do next where we know it. Texts quote names and values from messages:
as text an error is one line, escaped and capped (`printable`), while its facts and `args` are as they came.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rowbus.errors.strangers import LONGEST_TEXT, printable

if TYPE_CHECKING:
    from datetime import timedelta


class RowbusError(Exception):
    """The root of everything Rowbus raises."""

    def __init__(self, message: str, **facts: object) -> None:
        """Take the text for people and the facts for programs; each fact becomes an attribute."""
        super().__init__(message)
        self._facts = facts
        for name, value in facts.items():
            setattr(self, name, value)

    def __str__(self) -> str:
        """Give the text as one line that controls no terminal and forges no line of a log."""
        return printable(super().__str__(), LONGEST_TEXT)

    def __reduce__(self) -> tuple[object, ...]:
        """Pickle the text and the facts (keyword arguments are lost by the default protocol)."""
        return (_rebuild, (type(self), super().__str__(), self._facts))


def _rebuild(kind: type[RowbusError], message: str, facts: dict[str, object]) -> RowbusError:
    return kind(message, **facts)


class ConfigurationError(RowbusError):
    """A request that cannot work, known before any I/O."""


class InvalidAddressError(ConfigurationError, ValueError):
    """A queue name that is ambiguous, empty or too long; see `address` and `reason`."""

    address: str
    reason: str


class InvalidHeaderError(RowbusError, ValueError):
    """A header that no receiver could read; see `header` and `reason`."""

    header: str
    reason: str


class InvalidTimestampError(RowbusError, ValueError):
    """Text that is not a timestamp or time span as NServiceBus writes them; see `text`."""

    text: str


class MalformedHeadersError(RowbusError, ValueError):
    """The header text of a row that is not a JSON object of strings; see `text` and `reason`."""

    text: str
    reason: str


class MessageError(RowbusError):
    """A message that cannot be made or understood."""


class UnknownMessageTypeError(MessageError):
    """No handler takes any of the message's types; see `types`."""

    types: tuple[str, ...]


class MessageSerializationError(MessageError):
    """An object that cannot be turned into a message; see `type_name`."""

    type_name: str


class MessageDeserializationError(MessageError):
    """A body that does not fit its type; see `type_name`. Never retried."""

    type_name: str


class HandlerError(RowbusError):
    """A handler broke the rules of its transaction, for example by committing it."""


class NoAnswerError(RowbusError, TimeoutError):
    """A request was not answered in time, or its asker stopped; see `message_id` and `destination`.

    The message may still be handled, and its answer is dropped then.
    """

    message_id: str
    destination: str


class ClaimNotFoundError(RowbusError):
    """The value of which a message has only the key is not where it was kept; see `key`. Retried as other failures."""

    key: str


class SagaCorrelationError(RowbusError):
    """A correlation that cannot find a saga, or a saga's own that was changed; see `value`."""

    value: object


class SagaStateError(RowbusError):
    """A saga's row that cannot be read, see `saga_id`; or a state that cannot be written."""

    saga_id: str | None = None


class SagaVersionError(SagaStateError):
    """A saga's row that a newer version of the program wrote; the default policy has its message wait for that."""


class HandlingInterruptedError(RowbusError):
    """A message during whose handling its connection broke, or its process died, while the server lived on.

    See `times`, how often, with its other failures, and `said`, what was seen the last time. The policy is asked with
    it at the message's next receive.
    """

    times: int
    said: str


class TimeLimitExceededError(RowbusError):
    """A handler that ran longer than its time limit, and was ended; see `handler` and `limit`. Retried as others."""

    handler: str
    limit: timedelta


class Unrecoverable(RowbusError):  # noqa: N818 - a name of the public contract; it reads as a verdict in user code
    """Raise this (or a subclass) in a handler to skip all retries: the message goes to the error queue."""


class CriticalError(RowbusError):
    """Raise this (or a subclass) in a handler for what a person should look at: `on_critical_error` is told each time.

    What becomes of the message is the policy's to say, as after any failure.
    """


class WorkCancelledError(Unrecoverable):
    """Somebody ended a handler that takes long; the text says who and why."""


class MessageTooLargeError(RowbusError):
    """A message larger than its receiver takes; see `row`, `queue` and `size`, in bytes. Never fetched."""

    row: str
    queue: str
    size: int


class StuckMessageError(RowbusError):
    """A message that could not be completed again and again, through no outage; see `row` and `queue`."""

    row: str
    queue: str


class DestinationRefusedError(RowbusError):
    """A message names a destination that its sender may not choose, or that is no queue. Never retried.

    See `destination`, `queue` (where the message came from) and `reason`.
    """

    destination: str
    queue: str
    reason: str


class QueueNotFoundError(RowbusError):
    """The queue's table does not exist; see `queue`."""

    queue: str


class ShiftedTimesError(RowbusError):
    """Delayed messages wait whose time the time zone of other sessions moved; see `queue`. Nothing was received."""

    queue: str


class LogNotFoundError(RowbusError):
    """There is no log of that name; see `log`. `rowbus log create` makes one."""

    log: str


class ConsumerNotFoundError(RowbusError):
    """No consumer of that name is registered with the log; see `log` and `consumer`."""

    log: str
    consumer: str


class BatchError(RowbusError):
    """A batch that cannot be finished: it already was, another process took it over, or its consumer was moved.

    What was done for it has been rolled back. See `log`, `consumer` and `batch`.
    """

    log: str
    consumer: str
    batch: int


class LostPositionError(RowbusError):
    """A position in a log that is not retained, or not yet there; see `log`, `tick`, and `oldest`, the oldest tick.

    `tick` and `oldest` are None when there is none.
    """

    log: str
    tick: int | None
    oldest: int | None


class DataLossError(LostPositionError):
    """Events that a Spark stream had yet to read are not retained any more; also see `consumer`.

    Nothing was skipped: the query stopped. With `failOnDataLoss=false` it goes on at the oldest event there is, and
    says how many it left out.
    """

    consumer: str


class ConsumerBusyError(RowbusError):
    """Another live query reads the log as this consumer, and only one may; see `log` and `consumer`."""

    log: str
    consumer: str


class LeaseLostError(RowbusError):
    """Rows that a Spark stream, or a handler that takes long, had claimed: the claim was not renewed in time.

    See `queue` and `claim`. They went back; what was done with them outside the database may happen again.
    """

    queue: str
    claim: int


class EmbeddedServerError(RowbusError):
    """The embedded PostgreSQL server is missing or did not start; see `log`."""

    log: str


class StoreError(RowbusError):
    """A delayed message store answered what it may not, or gave a call up by itself; see `store` and `method`.

    No message's fault: it is reported and tried again.
    """

    store: str
    method: str


class StoreUnavailableError(RowbusError):
    """Raise this (or a subclass) in a delayed message store that is away: it is waited for, no message is blamed."""


class StorageError(RowbusError):
    """The database refused or failed; the driver's error is the cause. See `sqlstate` and `transient`."""

    sqlstate: str | None
    transient: bool


class ConnectionLostError(StorageError):
    """The connection broke or could not be made; what was in hand has been rolled back. Transient."""


class TransactionConflictError(StorageError):
    """A deadlock or a serialization failure; the same work may succeed when repeated. Transient."""


class AlreadyThereError(StorageError):
    """A table, an index or a schema that was to be created is there already: another process was faster."""


class SchemaNotFoundError(StorageError):
    """The schema in which something was to be created does not exist; nothing of Rowbus creates one unasked."""


class PermissionDeniedError(StorageError):
    """The database role lacks a privilege; `rowbus schema grants` prints those that are needed."""
