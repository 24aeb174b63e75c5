"""Cursors that read and write values alike on every connection: what its owner has registered for it changes nothing.

Invariants: text is a `str`, also where the client's encoding is SQL_ASCII, in which psycopg gives bytes; a NULL in a
list is one, also where the server's `array_nulls` is off. A time that Python has not is read as the nearest that it
has, by the synchronous ones, with which commands and pages look.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, TypeVar

import psycopg
from psycopg.adapt import AdaptersMap
from psycopg.types.array import ListBinaryDumper
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

C = TypeVar("C", psycopg.RawCursor[Any], psycopg.AsyncRawCursor[Any])

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


_TIMES: Final[dict[str, Sequence[Any]]] = {
    "timestamptz": (_Instant, _BinaryInstant),
    "timestamp": (_Time, _BinaryTime),
}
_TEXTS: Final[dict[str, Sequence[Any]]] = dict.fromkeys(
    ("text", "varchar", "bpchar", "name"), (_Text, _BinaryText)
)


def _adapters(loaders: dict[str, Sequence[Any]]) -> AdaptersMap:
    adapters = AdaptersMap(psycopg.adapters)
    adapters.register_dumper(list, ListBinaryDumper)
    for name, both in loaders.items():
        for loader in both:
            adapters.register_loader(name, loader)
    return adapters


def _kind(cursor: type[C], loaders: dict[str, Sequence[Any]]) -> type[C]:
    """Return a class of cursors that has these loaders in place of those of its connection."""
    kind: type[C] = type(cursor.__name__, (cursor,), {"adapters": _adapters(loaders)})
    return kind


ENCODING: Final = b"client_encoding"
ASCII: Final = b"SQL_ASCII"
CURSORS: Final = {
    True: _kind(psycopg.RawCursor, _TIMES | _TEXTS),
    False: _kind(psycopg.RawCursor, _TIMES),
}
ASYNC_CURSORS: Final = {
    True: _kind(psycopg.AsyncRawCursor, _TEXTS),
    False: _kind(psycopg.AsyncRawCursor, {}),
}
"""The classes of cursors, by whether the client's encoding is `ASCII`."""
