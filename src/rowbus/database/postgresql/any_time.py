"""Times that Python has no value for: PostgreSQL's go beyond the year 9999, before the year 1, and on for ever.

Who may write to a table may put such a one in it; a page or a command that shows the table shows the nearest that
Python has, in place of failing. The files of SQL that name these bounds do so for sessions in which handlers run.

Invariant: only times that the driver refuses are read otherwise.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

import psycopg
from psycopg.types.datetime import (
    TimestampBinaryLoader,
    TimestampLoader,
    TimestamptzBinaryLoader,
    TimestamptzLoader,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from psycopg.abc import Buffer

EARLIEST: Final = datetime(1, 1, 2, tzinfo=UTC)  # a day from the end, so that every zone has it
LATEST: Final = datetime(9999, 12, 31, tzinfo=UTC)


def read_any_time(connection: psycopg.Connection[Any]) -> None:
    """Have a connection's times read as the nearest that Python has. No I/O."""
    register = connection.adapters.register_loader
    register("timestamptz", _Instant)
    register("timestamptz", _BinaryInstant)
    register("timestamp", _Time)
    register("timestamp", _BinaryTime)


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
