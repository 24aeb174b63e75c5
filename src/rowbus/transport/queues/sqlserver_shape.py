"""The shape of a queue table on SQL Server, in what a table differs, and columns that old .NET endpoints write.

Source: docs/wire-format.md#queue-table-on-sql-server.

Versions before 7 fill the columns CorrelationId and ReplyToAddress; hand-written inserts may leave the headers empty
(docs/wire-format.md#queue-table-on-sql-server). Both become headers like any others when a message is received.

Invariants: pure; a difference is one sentence that says what is there and what should be; a header that is there wins
over its column, and headers that cannot be read stay as they are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from rowbus.errors import MalformedHeadersError
from rowbus.messages.headers import Header, decode_headers, encode_copied_headers
from rowbus.transport.queues.shape import QueueColumn, QueueShape

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

LAST_POSITION: Final = 2**63 - 1

COLUMNS: Final = (
    QueueColumn("Id", "uniqueidentifier", nullable=False),
    QueueColumn("CorrelationId", "varchar(255)", nullable=True),
    QueueColumn("ReplyToAddress", "varchar(255)", nullable=True),
    QueueColumn("Recoverable", "bit", nullable=False),
    QueueColumn("Expires", "datetime", nullable=True),
    QueueColumn("Headers", "nvarchar(max)", nullable=False),
    QueueColumn("Body", "varbinary(max)", nullable=True),
    QueueColumn("RowVersion", "bigint", nullable=False, filled=True),
)
BODY_STRING: Final = "bodystring"
NEEDED: Final = frozenset({"id", "expires", "headers", "body", "rowversion"})
"""The columns that every statement uses."""


class SqlServerQueueShape(QueueShape):
    """A table as it is; the names of its columns are in small letters."""

    __slots__ = ()

    @property
    def is_queue(self) -> bool:
        """Whether it has the columns that every statement uses: Recoverable and the legacy ones may be missing."""
        return {column.name for column in self.columns} >= NEEDED

    def differences(self) -> tuple[str, ...]:
        """Say in what the table is not a queue as NServiceBus and Rowbus make it; nothing if it is one."""
        return tuple(_differences(self.columns))


class Index(NamedTuple):
    """An index of a queue: the first column of its key, in small letters, and whether it is clustered."""

    first_column: str
    is_clustered: bool


def type_name(name: str, length: int) -> str:
    """Write a column's type as its definition does; the catalogue gives the length in bytes, -1 for `max`."""
    if name not in {"varchar", "nvarchar", "varbinary", "char", "nchar", "binary"}:
        return name
    if length == -1:
        return f"{name}(max)"
    return f"{name}({length // 2 if name.startswith('n') else length})"


def index_warnings(indexes: Iterable[Index], *, purges: bool) -> Iterator[str]:
    """Say what in a queue's indexes makes receiving slow, as NServiceBus looks at start.

    `purges` says whether expired messages are purged, for which an index is needed.
    """
    first = {index.first_column: index for index in indexes}
    if purges and "expires" not in first:
        yield "it has no index on Expires, so purging expired messages reads all of the table"
    if "rowversion" not in first:
        yield "it has no index on RowVersion, so every receive reads all of the table"
    elif first["rowversion"].is_clustered:
        yield "its index on RowVersion is clustered, which is slow under load; replace it by a nonclustered one"


def header_warning(type_: str) -> str | None:
    """Say what is wrong with the type of a queue's headers; None if nothing is."""
    if type_ != "varchar":
        return None
    return "its column Headers is varchar, which loses characters beyond its code page; make it nvarchar(max)"


def _differences(columns: tuple[QueueColumn, ...]) -> Iterator[str]:
    here = {column.name: column for column in columns}
    for expected in COLUMNS:
        found = here.pop(expected.name.lower(), None)
        if found is None:
            yield f"the column {expected.name} ({expected.type}) is missing"
        else:
            yield from _differences_of_column(found, expected)
    here.pop(BODY_STRING, None)
    for extra in here.values():
        effect = "" if extra.nullable or extra.filled else ", and every send fails on it: it takes no null"
        yield f"the column {extra.name} ({extra.type}) does not belong to a queue{effect}"


def _differences_of_column(here: QueueColumn, expected: QueueColumn) -> Iterator[str]:
    if here.type != expected.type:
        yield f"the column {expected.name} is {here.type} instead of {expected.type}"
    if here.nullable != expected.nullable:
        yield f"the column {expected.name} {'takes null' if here.nullable else 'refuses null'}"
    if expected.filled and not here.filled:
        yield f"the column {expected.name} is no identity column: it takes no number by itself"


NO_HEADERS = "{}"


def merged(headers: str, correlation_id: str | None = None, reply_to_address: str | None = None) -> str:
    """Return the header text of a message, with what its legacy columns say in addition."""
    text = headers or NO_HEADERS
    if not (correlation_id or reply_to_address):
        return text
    try:
        known = decode_headers(text)
    except MalformedHeadersError:
        return text
    columns = {Header.CORRELATION_ID: correlation_id, Header.REPLY_TO_ADDRESS: reply_to_address}
    missing = {name: value for name, value in columns.items() if value and not known.get(name)}
    return encode_copied_headers({**known, **missing}) if missing else text
