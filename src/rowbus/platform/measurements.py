"""Measurements of messages as ServiceControl's monitoring reads them: times, tags and values in one binary body.

All is little-endian, without padding: int64 version 1, int64 the first moment in .NET's ticks (100 ns since the year
1), int32 how many tags, each an int32 key, an int32 length and UTF-8, int32 how many entries, each int32 ticks since
the first moment, int32 the tag's key, int64 the value.

Invariant: entries are in the order of time, each tag that they name is declared, and `decoded` gives back what
`encoded` took.
"""

from __future__ import annotations

from struct import Struct
from struct import error as StructError  # noqa: N812 - a class
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

VERSION: Final = 1
MOST_ENTRIES: Final = 2048  # of one message, as in .NET
LONGEST_SPAN: Final = 2**31 - 1  # ticks, some 214 s

TICKS_OF_1970: Final = 621_355_968_000_000_000
_HEAD: Final = Struct("<qqi")
_TAG: Final = Struct("<ii")
_COUNT: Final = Struct("<i")
_ENTRY: Final = Struct("<iiq")


class Measurement(NamedTuple):
    """One value, the moment it belongs to in .NET's ticks, and the types of the message that it was measured of."""

    ticks: int
    tag: str
    value: int


def ticks_at(seconds: float) -> int:
    """Return an instant, in seconds since 1970, in .NET's ticks."""
    return round(seconds * 1_000_000) * 10 + TICKS_OF_1970


def milliseconds_between(begin: float, end: float) -> int:
    """Return a span in whole milliseconds; 0 for a negative one, which only clocks that differ make."""
    return max(0, int((end - begin) * 1000))


def messages_of(measurements: Iterable[Measurement]) -> Iterator[list[Measurement]]:
    """Give the measurements of each message: in order of time, none too many, none too far from the first."""
    message: list[Measurement] = []
    for one in sorted(measurements, key=lambda one: one.ticks):
        if message and (len(message) == MOST_ENTRIES or one.ticks - message[0].ticks > LONGEST_SPAN):
            yield message
            message = []
        message.append(one)
    if message:
        yield message


def numbered(measurements: Iterable[Measurement]) -> dict[str, int]:
    """Return a key for each tag: 1, 2, …, in the order they come."""
    return {tag: key for key, tag in enumerate(dict.fromkeys(one.tag for one in measurements), 1)}


def encoded(measurements: Sequence[Measurement], keys: Mapping[str, int]) -> bytes:
    """Return the body of a message of `messages_of`, whose tags have these keys."""
    first = measurements[0].ticks
    parts = [_HEAD.pack(VERSION, first, len(keys))]
    for tag, key in keys.items():
        text = tag.encode()
        parts += (_TAG.pack(key, len(text)), text)
    parts.append(_COUNT.pack(len(measurements)))
    parts += [_ENTRY.pack(one.ticks - first, keys[one.tag], one.value) for one in measurements]
    return b"".join(parts)


def decoded(body: bytes) -> tuple[list[Measurement], dict[str, int]]:
    """Return the measurements of a body and their tags' keys; raises ValueError for a body that is none."""
    try:
        version, first, tags = _HEAD.unpack_from(body)
        keys, position = _tags(body, _HEAD.size, tags)
        (count,) = _COUNT.unpack_from(body, position)
        entries = list(_ENTRY.iter_unpack(body[position + _COUNT.size :]))
        names = {key: tag for tag, key in keys.items()}
        found = [Measurement(first + offset, names[key], value) for offset, key, value in entries]
    except (KeyError, StructError, UnicodeDecodeError) as error:
        raise ValueError(f"not the body of measurements: {error}") from error
    if version != VERSION or count != len(found):
        raise ValueError("not the body of measurements: its version or its number of entries is wrong")
    return found, keys


def _tags(body: bytes, position: int, count: int) -> tuple[dict[str, int], int]:
    keys: dict[str, int] = {}
    for _ in range(count):
        key, length = _TAG.unpack_from(body, position)
        position += _TAG.size
        keys[body[position : position + length].decode()] = key
        position += length
    return keys, position
