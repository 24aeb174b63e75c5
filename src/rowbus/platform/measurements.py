"""Measurements of messages as ServiceControl's monitoring reads them: times, tags and values in one binary body.

All is little-endian, without padding: int64 version 1, int64 the first moment in .NET's ticks (100 ns since the year
1), int32 how many tags, each an int32 key, an int32 length and UTF-8, int32 how many entries, each int32 ticks since
the first moment, int32 the tag's key, int64 the value.

Invariant: entries are in the order of time, each tag that they name is declared, and `decoded` gives back what
`encoded` took.
"""

from __future__ import annotations

import sys
from array import array
from bisect import bisect_right
from functools import lru_cache
from operator import itemgetter
from struct import Struct
from struct import error as StructError  # noqa: N812 - a class
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

VERSION: Final = 1
MOST_ENTRIES: Final = 2048  # of one message, as in .NET
LONGEST_TAG: Final = 4000  # characters; more than any list of types
LONGEST_SPAN: Final = 2**31 - 1  # ticks, some 214 s

TICKS_OF_1970: Final = 621_355_968_000_000_000
_HEAD: Final = Struct("<qqi")
_TAG: Final = Struct("<ii")
_COUNT: Final = Struct("<i")
_ENTRY: Final = Struct("<iiq")
_TICKS: Final = itemgetter(0)
_TAG_OF: Final = itemgetter(1)


Entry = tuple[int, str, int]
"""A measurement as it is written, a bare tuple: there are many of them."""


class Measurement(NamedTuple):
    """One value, the moment it belongs to in .NET's ticks, and the types of the message that it was measured of."""

    ticks: int
    tag: str
    value: int


class ReportBody(NamedTuple):
    """A body as it was read: the first moment, the tags by their keys, the entries' offsets, and the entries."""

    first: int
    tags: dict[int, str]
    offsets: list[int]
    entries: bytes


def ticks_at(nanoseconds: int) -> int:
    """Return an instant, in nanoseconds since 1970, in .NET's ticks."""
    return nanoseconds // 100 + TICKS_OF_1970


def messages_of(measurements: Iterable[Entry]) -> Iterator[list[Entry]]:
    """Give the measurements of each message: in order of time, none too many, none too far from the first."""
    rest, begin = sorted(measurements, key=_TICKS), 0
    while begin < len(rest):
        end = min(begin + MOST_ENTRIES, len(rest))
        end = bisect_right(rest, rest[begin][0] + LONGEST_SPAN, begin, end, key=_TICKS)
        yield rest[begin:end]
        begin = end


def numbered(measurements: Iterable[Entry]) -> dict[str, int]:
    """Return a key for each tag: 1, 2, …, in the order they come."""
    return {tag: key for key, tag in enumerate(dict.fromkeys(map(_TAG_OF, measurements)), 1)}


def encoded(measurements: Sequence[Entry], keys: Mapping[str, int]) -> bytes:
    """Return the body of a message of `messages_of`, whose tags have these keys.

    A value below 0, which only clocks that differ make, is written as 0.
    """
    first = measurements[0][0]
    parts = [_HEAD.pack(VERSION, first, len(keys))]
    for tag, key in keys.items():
        text = tag[:LONGEST_TAG].encode()
        parts += (_TAG.pack(key, len(text)), text)
    parts.append(_COUNT.pack(len(measurements)))
    numbers = [
        number
        for ticks, tag, value in measurements
        for number in (ticks - first, keys[tag], value if value > 0 else 0)  # noqa: FURB136 - a call for each
    ]
    parts.append(_entries(len(measurements)).pack(*numbers))
    return b"".join(parts)


def decoded(body: bytes) -> tuple[list[Measurement], dict[str, int]]:
    """Return the measurements of a body and their tags' keys; raises ValueError for a body that is none."""
    first, tags, _, entries = parsed(body)
    found = [
        Measurement(first + offset, tags[key], value) for offset, key, value in _ENTRY.iter_unpack(entries)
    ]
    return found, {tag: key for key, tag in tags.items()}


def parsed(body: bytes) -> ReportBody:
    """Return what a body holds; raises ValueError for one that is none, or names a tag it does not declare."""
    try:
        version, first, count = _HEAD.unpack_from(body)
        tags, position = _tags(body, _HEAD.size, count)
        (count,) = _COUNT.unpack_from(body, position)
    except (StructError, UnicodeDecodeError) as error:
        raise ValueError(f"not the body of measurements: {error}") from error
    entries = body[position + _COUNT.size :]
    if version != VERSION or count * _ENTRY.size != len(entries):
        raise ValueError("not the body of measurements: its version or its number of entries is wrong")
    numbers = array("i", entries)  # a column at a time: two thirds less than a tuple for each entry
    if sys.byteorder == "big":
        numbers.byteswap()
    if not tags.keys() >= set(numbers[1::4]):
        raise ValueError("not the body of measurements: a tag is not declared")
    return ReportBody(first, tags, numbers[0::4].tolist(), entries)


def _tags(body: bytes, position: int, count: int) -> tuple[dict[int, str], int]:
    tags: dict[int, str] = {}
    for _ in range(count):
        key, length = _TAG.unpack_from(body, position)
        position += _TAG.size
        tags[key] = body[position : position + length].decode()
        position += length
    return tags, position


@lru_cache(maxsize=4)  # full messages, and the last ones of a period
def _entries(count: int) -> Struct:
    """Return what packs so many entries at once."""
    return Struct(f"<{'iiq' * count}")
