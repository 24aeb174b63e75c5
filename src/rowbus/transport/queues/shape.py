"""The shape of a queue table, and in what a table differs from it.

NServiceBus endpoints, ServiceControl and Rowbus share these tables and each counts on this exact shape
(docs/wire-format.md#queue-table): ServiceControl finds queues by the five columns and their types, and reads throughput
from the sequence's name.

Invariant: pure; a difference is one sentence that says what is there and what should be.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from rowbus.messages.address import QueueAddress


class QueueColumn(NamedTuple):
    """A column as the catalogue describes it; `filled` says that it gets a value when none is given."""

    name: str
    type: str
    nullable: bool
    filled: bool = False


class Key(NamedTuple):
    """The columns of a primary key or of a unique index over all rows."""

    columns: tuple[str, ...]
    is_primary: bool = False


class Sequence(NamedTuple):
    """The sequence behind `seq`: where it stands (None: unused, or not for this role to see) and where it ends."""

    name: str
    position: int | None
    last: int

    @property
    def used(self) -> float:
        """The share of its numbers that is used up, from 0 to 1."""
        return (self.position or 0) / self.last


class QueueShape(NamedTuple):
    """A table as it is; `readable` says whether the role that looked may read its rows.

    `left_out` says why nothing is read of it, nor of its sequence: whose it is, for example; empty: it is looked at.
    """

    address: QueueAddress
    columns: tuple[QueueColumn, ...]
    keys: tuple[Key, ...]
    sequence: Sequence | None
    is_logged: bool = True
    readable: bool = True
    left_out: str = ""

    @property
    def is_queue(self) -> bool:
        """Whether it has the five columns of a queue. ServiceControl knows only those whose headers are text."""
        here = {column.name: column.type for column in self.columns}
        return all(here.get(column.name) in types_of(column) for column in COLUMNS)

    def differences(self) -> tuple[str, ...]:
        """Say in what the table is not a queue as NServiceBus and Rowbus make it; nothing if it is one."""
        return (
            *_differences_of_columns(self),
            *_differences_of_keys(self),
            *_differences_of_sequence(self),
            *(() if self.is_logged else ("the table is unlogged: a crash of the server empties it",)),
        )


COLUMNS: Final = (
    QueueColumn("id", "uuid", nullable=False),
    QueueColumn("expires", "timestamp without time zone", nullable=True),
    QueueColumn("headers", "text", nullable=False),
    QueueColumn("body", "bytea", nullable=True),
    QueueColumn("seq", "integer", nullable=False, filled=True),
)
BODY_STRING: Final = QueueColumn("bodystring", "text", nullable=True, filled=True)


def types_of(column: QueueColumn) -> set[str]:
    """Return the types that a column of a queue may have; others than its own are differences all the same."""
    return {column.type, "character varying"} if column.name == "headers" else {column.type}


def takes_messages(columns: Iterable[QueueColumn]) -> bool:
    """Say whether a table of these columns is a queue that messages can be sent to, with any keys."""
    here = {column.name: column for column in columns}
    expected = {column.name: types_of(column) for column in COLUMNS}
    expected["seq"].add("bigint")  # as it is made where integers run out
    return all(name in here and here.pop(name).type in types for name, types in expected.items()) and all(
        extra.nullable or extra.filled for extra in here.values()
    )


def differences(table: QueueShape) -> tuple[str, ...]:
    """Say in what the table is not a queue as NServiceBus and Rowbus make it; nothing if it is one."""
    return table.differences()


def _differences_of_columns(table: QueueShape) -> Iterator[str]:
    here = {column.name: column for column in table.columns}
    for expected in COLUMNS:
        if expected.name in here:
            yield from _differences_of_column(here.pop(expected.name), expected)
        else:
            yield f"the column {expected.name} ({expected.type}) is missing"
    if here.get(BODY_STRING.name) == BODY_STRING:
        del here[BODY_STRING.name]
    for extra in here.values():
        effect = "" if extra.nullable or extra.filled else ", and every send fails on it: it takes no null"
        yield f"the column {extra.name} ({extra.type}) does not belong to a queue{effect}"


def _differences_of_column(here: QueueColumn, expected: QueueColumn) -> Iterator[str]:
    if here.type != expected.type:
        yield f"the column {here.name} is {here.type} instead of {expected.type}"
    if here.nullable != expected.nullable:
        yield f"the column {here.name} {'takes null' if here.nullable else 'refuses null'}"
    if expected.filled and not here.filled:
        yield f"the column {here.name} takes no number from its sequence"


def _differences_of_keys(table: QueueShape) -> Iterator[str]:
    if Key(("id",), is_primary=True) not in table.keys:
        yield "the primary key is not the column id"
    if not any(key.columns == ("seq",) for key in table.keys):
        yield "there is no unique index on the column seq, in whose order messages are received"


def _differences_of_sequence(table: QueueShape) -> Iterator[str]:
    expected = table.address.sequence
    if table.sequence is None:
        yield f"the sequence {expected} of the column seq is missing"
    elif table.sequence.name != expected:
        yield (
            f"the sequence of the column seq is called {table.sequence.name} instead of {expected}, "
            "where ServiceControl looks for it"
        )
