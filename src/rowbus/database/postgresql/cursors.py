"""Cursors of ours on anybody's connection: what its owner has registered for values changes nothing of what we read.

Invariants: text is a `str`, also where the client's encoding is SQL_ASCII, in which psycopg gives bytes; a time that
Python has not is read as the nearest that it has.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

import psycopg
from psycopg.adapt import AdaptersMap
from psycopg.rows import TupleRow, tuple_row
from psycopg.types.datetime import (
    TimestampBinaryLoader,
    TimestampLoader,
    TimestamptzBinaryLoader,
    TimestamptzLoader,
)
from psycopg.types.string import TextBinaryLoader, TextLoader

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from psycopg.abc import AdaptContext, Buffer

EARLIEST: Final = datetime(1, 1, 2, tzinfo=UTC)  # a day from the end, so that every zone has it
LATEST: Final = datetime(9999, 12, 31, tzinfo=UTC)


class _Text(TextLoader):
    def __init__(self, oid: int, _context: AdaptContext | None = None) -> None:
        super().__init__(oid, None)  # which is UTF-8


class _BinaryText(TextBinaryLoader):
    def __init__(self, oid: int, _context: AdaptContext | None = None) -> None:
        super().__init__(oid, None)


class _Instant(TimestamptzLoader):
    def load(self, data: Buffer) -> datetime:
        return _nearest(super().load, data, _is_early_text)


class _BinaryInstant(TimestamptzBinaryLoader):
    def load(self, data: Buffer) -> datetime:
        return _nearest(super().load, data, _is_negative)


class _Time(TimestampLoader):
    def load(self, data: Buffer) -> datetime:
        return _nearest(super().load, data, _is_early_text).replace(tzinfo=None)


class _BinaryTime(TimestampBinaryLoader):
    def load(self, data: Buffer) -> datetime:
        return _nearest(super().load, data, _is_negative).replace(tzinfo=None)


def _nearest(
    load: Callable[[Buffer], datetime], data: Buffer, is_early: Callable[[Buffer], bool]
) -> datetime:
    try:
        return load(data)
    except psycopg.DataError:
        return EARLIEST if is_early(data) else LATEST


def _is_early_text(data: Buffer) -> bool:
    text = bytes(data)
    return text.startswith(b"-") or text.endswith(b"BC")


def _is_negative(data: Buffer) -> bool:
    return int.from_bytes(data, signed=True) < 0


_LOADERS: Final[dict[str, Sequence[Any]]] = {
    **dict.fromkeys(("text", "varchar", "bpchar", "name"), (_Text, _BinaryText)),
    "timestamptz": (_Instant, _BinaryInstant),
    "timestamp": (_Time, _BinaryTime),
}


def _adapters() -> AdaptersMap:
    adapters = AdaptersMap(psycopg.adapters)
    for name, loaders in _LOADERS.items():
        for loader in loaders:
            adapters.register_loader(name, loader)
    return adapters


_ADAPTERS: Final = _adapters()


class Cursor(psycopg.RawCursor[TupleRow]):
    """A cursor that gives tuples."""

    def __init__(self, connection: psycopg.Connection[Any]) -> None:
        """Make one on a connection. No I/O."""
        super().__init__(connection, row_factory=tuple_row)

    @property
    def adapters(self) -> AdaptersMap:
        """The adapters that values are read and written with."""
        return _ADAPTERS


class AsyncCursor(psycopg.AsyncRawCursor[TupleRow]):
    """The twin of `Cursor`."""

    def __init__(self, connection: psycopg.AsyncConnection[Any]) -> None:
        """Make one on a connection. No I/O."""
        super().__init__(connection, row_factory=tuple_row)

    @property
    def adapters(self) -> AdaptersMap:
        """The adapters that values are read and written with."""
        return _ADAPTERS
