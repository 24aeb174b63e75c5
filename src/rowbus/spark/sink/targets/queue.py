"""`deliver=queue`: sends rows to a queue, as messages, or to the queues that a column names.

Invariants: the queue's table keeps the shape of NServiceBus, and receivers are woken when a batch commits, never
before; a row whose headers hold a message id was read from a queue and keeps its headers unchanged; any other row gets
all headers that an endpoint expects.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownParameterType=false, reportMissingTypeArgument=false
# Above: pyarrow's classes are generic in types that its own functions leave unknown.

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import islice
from json.encoder import encode_basestring_ascii
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

import pyarrow as pa

from rowbus.database.postgresql.arrow_copy import Rows, as_text
from rowbus.errors import ConfigurationError
from rowbus.messages.address import QueueAddress
from rowbus.messages.headers import Header, decode_headers, encode_copied_headers
from rowbus.messages.message import new_message_ids, random_uuids
from rowbus.messages.message_types import serialize
from rowbus.messages.outgoing import Content, HeaderText, Options, Origin, compose
from rowbus.running.bounded import Bounded
from rowbus.spark.options import Option, boolean, milliseconds, text
from rowbus.spark.sink.targets import publication
from rowbus.spark.sink.targets.publication import require_known
from rowbus.transport.composition import identity_of
from rowbus.transport.queues.postgresql import QueueTable

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from rowbus.database.postgresql.connection import Session
    from rowbus.database.statements import Query
    from rowbus.messages.headers import Identity
    from rowbus.messages.message import OutgoingMessage
    from rowbus.spark.sink.commit.batch import BatchKey, Part

JSON = "application/json"


class FrameRow(NamedTuple):
    """The columns of a data frame's row that make a message."""

    body: str | bytes | None
    headers: object
    """A mapping, its items, a JSON text, or None."""

    type: str | None
    id: str | None
    correlation_id: str | None


class HeaderWriter:
    """Writes the headers of many messages; messages that differ only in their id share one text."""

    def __init__(
        self, type: str | None, time_to_be_received: timedelta | None, sender: Identity | None = None
    ) -> None:
        """Take the default type of messages, their time to be received, and who sends them."""
        self._origin = Origin(sender)
        self._type = type
        self._time_to_be_received = time_to_be_received
        self._ids = new_message_ids()
        self._texts: dict[tuple[str, bool], HeaderText] = Bounded()

    def text(self, row: FrameRow) -> str:
        """Return the header text of a message; raises ConfigurationError, InvalidHeaderError."""
        given = _headers(row.headers)
        if given.get(Header.MESSAGE_ID):
            return encode_copied_headers(given)
        message_id = row.id or next(self._ids)
        if not given and row.correlation_id is None:
            return self._shared(row).with_id(encode_basestring_ascii(message_id)[1:-1])
        own = {name: value for name, value in given.items() if value is not None}
        if row.correlation_id is not None:
            own.setdefault(Header.CORRELATION_ID, row.correlation_id)
        return self._composed(row, message_id, own)

    def _shared(self, row: FrameRow) -> HeaderText:
        key = (row.type or "", isinstance(row.body, bytes))
        text = self._texts.get(key)
        if text is None:
            content, options = self._content(row), Options(None, self._time_to_be_received)
            text = self._texts[key] = HeaderText(self._compose(content, HeaderText.PLACEHOLDER, options))
        return text

    def _composed(self, row: FrameRow, message_id: str, own: Mapping[str, str]) -> str:
        options = Options(own, self._time_to_be_received)
        return encode_copied_headers(self._compose(self._content(row, own), message_id, options).headers)

    def _content(self, row: FrameRow, own: Mapping[str, str] | None = None) -> Content:
        type = row.type or self._type or (own or {}).get(Header.ENCLOSED_MESSAGE_TYPES)
        if not type:
            raise ConfigurationError(
                "A row has no message type: fill column message_type, or give option messageType.",
                option="messageType",
            )
        body = b"" if row.body is None else row.body
        return serialize(
            body.encode() if isinstance(body, str) else body,
            types=(type,),
            content_type=JSON if isinstance(body, str) else None,
        )

    def _compose(self, content: Content, message_id: str, options: Options) -> OutgoingMessage:
        now = datetime.now(UTC)
        return compose(
            content, intent="Send", message_id=message_id, now=now, origin=self._origin, options=options
        )


def _headers(given: object) -> dict[str, str | None]:
    if given is None:
        return {}
    if isinstance(given, str):
        return decode_headers(given)
    return dict(cast("Mapping[str, str | None]", given))


_MESSAGE: Final = ("headers", "message_type", "id", "correlation_id")
_KNOWN: Final = ("body", *_MESSAGE, "destination")
_KINDS: Final[dict[str, pa.DataType]] = {
    "destination": pa.string(),
    "id": pa.binary(16),
    "headers": pa.string(),
    "body": pa.binary(),
}
_STAGED: Final = pa.schema(_KINDS)

OPTIONS = (
    Option("queue", text, None, "The queue; without, the column `destination` names one for each row."),
    Option(
        "messageType",
        text,
        None,
        "The type of the messages whose column `message_type` is not there, or NULL.",
    ),
    Option(
        "timeToBeReceived", milliseconds, None, "How long the messages are of use; later they are discarded."
    ),
    Option(
        "endpoint", text, None, "Who sends, as headers say it; without, the name of the driver's program."
    ),
    Option("machine", text, None, "The machine that headers name; without, the driver's."),
    Option(
        "hostId", text, None, "A UUID by which ServicePulse knows the sender; without, one is made of both."
    ),
    Option("notify", boolean, True, "Whether receivers are woken when the batch commits."),
)
"""The options of `deliver=queue`, beside those of every target."""


@dataclass(frozen=True)
class QueueTarget:
    """Sends to one queue, or to those that a column names."""

    queue: QueueAddress | None
    message_type: str | None
    time_to_be_received: timedelta | None
    notify: bool
    sender: Identity
    """The sender: the driver's program, not that of the process in which a task runs."""

    @property
    def name(self) -> str:
        """The target's name in the ledger."""
        return "queues" if self.queue is None else f"queue:{self.queue}"

    def staged(self, batches: Iterator[pa.RecordBatch], _schema: pa.Schema) -> Rows:
        """Stage destination, row id, header text and body."""
        writer = HeaderWriter(self.message_type, self.time_to_be_received, self.sender)
        return Rows(_STAGED, (self._messages(batch, writer) for batch in batches))

    def direct(
        self, _session: Session, batches: Iterator[pa.RecordBatch], schema: pa.Schema
    ) -> tuple[Query, Rows] | None:
        """Copy straight into the one queue; None for messages that may expire, or go to several queues."""
        if self.queue is None or self.time_to_be_received is not None:
            return None
        rows = self.staged(batches, schema)
        shaped = _STAGED.set(0, _STAGED.field("id")).set(1, pa.field("expires", pa.timestamp("us")))
        messages = (_unexpiring(batch, shaped) for batch in rows.batches())
        return QueueTable(self.queue).copy, Rows(shaped, messages)

    def publish(self, session: Session, parts: Sequence[Part], _key: BatchKey) -> frozenset[str]:
        """Send the stages' messages, in the order of the partitions; return the destinations."""
        told = set[str]()
        for part in parts:
            for destination in session.run(publication.find_destinations(part.place)):
                address = QueueAddress.parse(destination or "")
                session.run(publication.send_stage(address, part.place, self.time_to_be_received))
                told.add(f"queue:{address}")
        return frozenset(told)

    def announce(self, session: Session, told: frozenset[str]) -> None:
        """Notify the receivers of the queues that got messages."""
        if self.notify:
            for destination in sorted(told):
                address = QueueAddress.parse(destination.removeprefix("queue:"))
                session.run_all(QueueTable(address).notify())

    def _messages(self, batch: pa.RecordBatch, writer: HeaderWriter) -> pa.RecordBatch:
        values = _Columns(batch)
        body = values.body()
        rows = map(FrameRow, body.to_pylist(), *(values.of(name) for name in _MESSAGE))
        columns = [
            self._destinations(values),
            pa.array(list(islice(random_uuids(), batch.num_rows)), pa.binary(16)),
            pa.array([writer.text(row) for row in rows], pa.string()),
            body.cast(pa.binary()),
        ]
        return pa.RecordBatch.from_arrays(columns, schema=_STAGED)

    def _destinations(self, values: _Columns) -> pa.Array[Any]:
        if self.queue is not None:
            return pa.repeat(pa.scalar(str(self.queue)), values.count)
        found = {name: _address(name) for name in set(values.of("destination"))}
        return pa.array([found[name] for name in values.of("destination")], pa.string())


class _Columns:
    """The columns of a batch by their names in lower case; missing ones are None in every row."""

    def __init__(self, batch: pa.RecordBatch) -> None:
        self._columns = {name.lower(): batch.column(name) for name in batch.schema.names}
        self.count = batch.num_rows

    def of(self, name: str) -> list[Any]:
        column = self._columns.get(name)
        return [None] * self.count if column is None else column.to_pylist()

    def body(self) -> pa.Array[Any]:
        """Return the bodies: bytes as they are, anything else as text."""
        column = self._columns["body"]
        return column if column.type in {pa.binary(), pa.large_binary()} else as_text(column)


def make(options: Mapping[str, Any], columns: tuple[str, ...], *, overwrite: bool) -> QueueTarget:
    """Return the target that the options describe; raises ConfigurationError, InvalidAddressError."""
    there = {name.lower() for name in columns}
    if overwrite:
        raise ConfigurationError("Messages are sent: use mode append (a stream's output mode: append).")
    require_known(columns, _KNOWN, of="A queue")
    if "body" not in there:
        raise ConfigurationError("A queue needs a column body; rename yours.")
    if options["queue"] is None and "destination" not in there:
        raise ConfigurationError(
            "Which queue? Give the option 'queue', or a column destination.", option="queue"
        )
    span = options["timeToBeReceived"]
    return QueueTarget(
        None if options["queue"] is None else _given(options["queue"]),
        options["messageType"],
        None if span is None else timedelta(milliseconds=span),
        options["notify"],
        identity_of(options["endpoint"], options["machine"], options["hostId"]),
    )


def _given(name: str) -> QueueAddress:
    address = QueueAddress.from_user(name)
    address.validate()
    return address


def _address(name: str | None) -> str:
    if name is None:
        raise ConfigurationError(
            "A row has NULL in column destination, and no option 'queue' says where it goes."
        )
    return str(_given(name))


def _unexpiring(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    _, row_id, headers, body = batch.columns
    expires = pa.nulls(batch.num_rows, pa.timestamp("us"))
    return pa.RecordBatch.from_arrays([row_id, expires, headers, body], schema=schema)
